import re

import pytest

from analysis.experiments import arms, summary_points
from tests.helpers.run_records import Arm, Results, make_rounds, save
from tests.helpers.studies import strategies


@pytest.mark.slow
def test_arms_on_several_ranks_are_compared_with_each_other_and_with_the_one_on_fewest(results):
    # 8 images a rank. Horovod 16 / 0.5 = 32 images/s, others 16 / 0.7 and 16 / 0.6, one rank alone 8 / 0.4 = 20: of the
    # ideal of two, 40, they reach 0.8, 0.571 and 0.667. The machine drifts, and all arms of a repeat with it.
    strategies(results.folder, servers=1)
    table = results.table()
    numbers = {point.runs["arm"].iloc[0]: point.numbers for point in summary_points.points(table)}
    ratio = numbers["mwms"]["ratio_to_base"]
    assert (ratio.value, ratio.low, ratio.high, ratio.n) == pytest.approx((5 / 7, 5 / 7, 5 / 7, 6))
    assert not {"ratio_to_base"} & {*numbers["horovod"], *numbers["one-rank-alone"]}
    name = "efficiency_throughput"
    efficiencies = {arm: values[name].value for arm, values in numbers.items() if name in values}
    assert efficiencies == pytest.approx({"horovod": 0.8, "mwms": 0.4 / 0.7, "ps": 0.4 / 0.6})
    labels = [ratio.label for ratio in arms.ratios(table)]
    assert labels == [
        ["ResNet50, 2 ranks: mwms / horovod", ""],
        ["ResNet50, 2 ranks: ps (asynchronous) / horovod", "ps: +1 core for servers"],
    ]


def test_the_ratio_of_arms_in_rounds_is_that_of_typical_rates(results):
    """Six rounds have ratios from 0.90 to 1.00: the interval reaches three times as far, on the logarithm."""
    without_and_with = (Arm(2, allreduce=False, role="base"), Arm(2))
    rounds = [(0.9, 1.0), (1.96, 2.0), (0.92, 1.0), (2.0, 2.0), (0.94, 1.0), (1.92, 2.0)]
    record = make_rounds(rounds, without_and_with, experiment="overhead", arm_keys=["distribution.allreduce"])
    for arm, name in zip(record.config["rounds"], ("without", "with"), strict=True):
        arm |= {"arm": name, "swept": {"model": "resnet50"}}
    save(record, results.folder)
    table = results.table()
    first, second = summary_points.points(table)
    assert "ratio_to_base" not in first.numbers
    result = second.numbers["ratio_to_base"]
    assert (result.value, result.low, result.high, result.n) == pytest.approx((0.9495, 0.8086, 1.1092, 6), abs=2e-4)


CYCLE, GRADIENTS, THREADS = "distribution.cycle_time_ms", "distribution.gradients", "threads_per_rank"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Ten launches of the base, of an arm 1.25 times as fast, one alike, one slower; three of one that was dropped."""
    results = Results(tmp_path_factory.mktemp("tune"))
    drift = [0.5, 0.6, 0.55, 0.7, 0.5, 0.52, 0.58, 0.49, 0.61, 0.66]
    alike = [s * (1.01 if n % 3 else 0.99) for n, s in enumerate(drift)]
    for arm, times, config in (
        ("as-configured", drift, {}),
        ("cycle-5ms", [0.8 * s for s in drift], {CYCLE: 5.0}),
        ("grouped", alike, {GRADIENTS: "grouped"}),
        ("separate", [1.3 * s for s in drift], {GRADIENTS: "separate"}),
        ("one-core-free", [3 * s for s in drift[:3]], {THREADS: 1}),
    ):
        for repeat, step_s in enumerate(times):
            results.add(
                experiment="tune", nodes=2, step_s=step_s, repeat=repeat, swept={}, arm=arm,
                arm_keys=[GRADIENTS, CYCLE, THREADS], role="point" if config else "base",
                **{GRADIENTS: "flat", CYCLE: 20.0, **config},
            )  # fmt: skip
    return results.study()


def test_arms_are_ranked_by_ratios_to_the_base_in_the_same_repeat(study):
    [contest] = arms.contests(study.local, study.records)
    assert [(arm.arm, arm.verdict) for arm in contest.arms] == [
        ("cycle-5ms", "better"),
        ("as-configured", "base"),
        ("grouped", "not decidable"),
        ("separate", "worse"),
        ("one-core-free", "dropped: significantly slower"),
    ]
    best = contest.arms[0]
    assert contest.winner == best.arm
    assert (best.ratio.value, best.ratio.low, best.ratio.high) == pytest.approx((1.25, 1.25, 1.25))
    assert best.settings == {CYCLE: 5.0}
    assert best.ratio.level == pytest.approx(1 - 0.05 / 4)  # four arms are compared with the base
    text = arms.report(contest)
    assert "cycle-5ms (distribution.cycle_time_ms=5.0) is 1.25 times as fast as as-configured, 1.25 to 1.25" in text
    assert "intervals at 98.8 % each, 95 % for all of them together; of fewer than 6 launches none" in text
    assert "not decidable" in text


def test_without_a_faster_arm_the_base_stays(study):
    [contest] = arms.contests(study.local[~study.local["arm"].eq("cycle-5ms")], study.records)
    assert contest.winner is None
    text = " ".join(arms.report(contest).split())
    assert re.search(
        r"No arm is significantly faster than as-configured, and \w+ may still be \d(\.\d+)? times as fast", text
    )
    [contest] = arms.contests(study.local[study.local["repeat"].lt(5)], study.records)
    assert "too few launches of cycle-5ms, grouped, separate" in " ".join(arms.report(contest).split())


def test_without_the_base_or_another_arm_there_is_no_contest(study):
    is_base = study.local["arm"].eq("as-configured")
    assert arms.contests(study.local[is_base], study.records) == []
    assert arms.contests(study.local[~is_base], study.records) == []


def test_the_winner_s_settings_are_a_file_over_that_of_the_system(study, tmp_path):
    [contest] = arms.contests(study.local, study.records)
    (tmp_path / "laptop.yaml").write_text("name: laptop\n")
    file = (contest, study.local, study.records, tmp_path / "mine.yaml")
    text = arms.system_file(*file)
    assert "  - laptop@system\n" in text
    assert text.endswith('distribution:\n  gradients: "flat"\n  cycle_time_ms: 5.0\n')
    # A file that was written like this is replaced by the one below it.
    (tmp_path / "laptop.yaml").write_text(text.replace("laptop@", "slurm@"))
    assert "  - slurm@system\n" in arms.system_file(*file)
