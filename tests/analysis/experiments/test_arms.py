import pytest

from analysis.experiments import arms, summary
from tests.helpers.drawn_figures import drawn, lines
from tests.helpers.own_records import Arm, make_record, make_rounds, save
from train.record.record import Server

ROLE = ("base", "point")
ARMS = {"swept": {"model": "resnet50"}, "arm_keys": ["distribution.allreduce"]}


@pytest.mark.slow
def test_overhead_is_the_ratio_of_the_arms(results):
    for repeat, (with_s, without_s) in enumerate(((0.5, 0.4), (0.5, 0.5), (0.4, 0.4))):
        for allreduce, step in ((True, with_s), (False, without_s)):
            arm = {"backend": "horovod", "allreduce": allreduce, "controller": "gloo"}
            results.add(
                experiment="overhead",
                nodes=2,
                step_s=step,
                repeat=repeat,
                distribution=arm,
                role=ROLE[allreduce],
                **ARMS,
            )
    figure = drawn("own-overhead", results.table())
    (label,) = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert "2 ranks: with allreduce / without" in label
    assert "median 1.000, n=3" in label


@pytest.mark.slow
def test_overhead_keeps_other_settings_apart(results):
    steps_s = {"flat": {True: 0.5, False: 0.4}, "separate": {True: 0.8, False: 0.4}}
    for gradients, of_arms in steps_s.items():
        for allreduce, step in of_arms.items():
            arm = {"backend": "horovod", "allreduce": allreduce, "controller": "gloo", "gradients": gradients}
            results.add(experiment="overhead", nodes=2, step_s=step, distribution=arm, role=ROLE[allreduce], **ARMS)
    figure = drawn("own-overhead", results.table())
    labels = [text.get_text().split("\n")[1:] for text in figure.axes[0].get_yticklabels()]
    assert sorted(labels) == [
        ["flat gradients", "median 0.800, n=1 repeat"],
        ["separate gradients", "median 0.500, n=1 repeat"],
    ]


@pytest.mark.slow
def test_arms_that_differ_in_anything_else_are_named(results):
    for precision, step_s in (("fp32", 0.5), ("bf16", 0.4)):
        results.add(
            experiment="mine", step_s=step_s, precision=precision, swept={}, arm=precision, arm_keys=["precision"],
            role="base" if precision == "fp32" else "point",
        )  # fmt: skip
    (label,) = [text.get_text() for text in drawn("own-mine", results.table()).axes[0].get_yticklabels()]
    assert label.startswith("ResNet50, 1 rank: bf16 / fp32")
    assert "median 1.250" in label  # 20 / 16 images/s


@pytest.mark.slow
def test_arms_on_several_ranks_are_compared_with_each_other_and_with_the_one_on_fewest(results):
    # 8 images a rank. Horovod 16 / 0.5 = 32 images/s, another strategy 16 / 1.0, one rank alone 8 / 0.4 = 20: of the
    # ideal of two, 40, they reach 0.8 and 0.4. The machine drifts, and all arms of a repeat with it. Parameter servers,
    # as fast as mwms, are marked.
    for repeat, drift in enumerate((1.0, 1.1, 0.9, 1.05, 1.2, 0.95)):
        for arm, backend, nodes, step_s in (
            ("horovod", "horovod", 2, 0.5), ("mwms", "mwms", 2, 1.0), ("ps", "ps", 2, 1.0),
            ("one-rank-alone", "none", 1, 0.4),
        ):  # fmt: skip
            distribution = {"backend": backend, "allreduce": backend != "none", "controller": "gloo"}
            results.add(
                experiment="strategies", nodes=nodes, step_s=step_s * drift, repeat=repeat, arm=arm,
                role=ROLE[arm != "horovod"], distribution=distribution, arm_keys=["distribution", "nodes"],
            )  # fmt: skip
    table = results.table()
    numbers = {point.runs["arm"].iloc[0]: point.numbers for point in summary.points(table)}
    ratio = numbers["mwms"]["ratio_to_base"]
    assert (ratio.value, ratio.low, ratio.high, ratio.n) == pytest.approx((0.5, 0.5, 0.5, 6))
    assert not {"ratio_to_base"} & {*numbers["horovod"], *numbers["one-rank-alone"]}
    reached = {arm: of["efficiency_throughput"].value for arm, of in numbers.items() if "efficiency_throughput" in of}
    assert reached == pytest.approx({"horovod": 0.8, "mwms": 0.4, "ps": 0.4})
    labels = [text.get_text() for text in drawn("own-strategies", table).axes[0].get_yticklabels()]
    assert [label.splitlines()[0] for label in labels] == [
        "ResNet50, 2 ranks: mwms / horovod", "ResNet50, 2 ranks: ps (asynchronous) / horovod",
    ]  # fmt: skip
    drawn_y = {round(float(value), 6) for _, _, y in lines(drawn("own-strategies-efficiency", table)) for value in y}
    assert {0.4, 0.8, 1.0} <= drawn_y


@pytest.mark.slow
def test_an_arm_that_had_more_cores_says_so(results):
    apart = {"backend": "ps", "servers": 1, "servers_on": "nodes"}
    for arm, arguments in (("horovod", {"backend": "horovod"}), ("ps", apart)):
        distribution = {"allreduce": True, "controller": "gloo", **arguments}
        record = make_record(
            "strategies", nodes=2, arm=arm, role=ROLE[arm != "horovod"], arm_keys=["distribution"],
            distribution=distribution,
        )  # fmt: skip
        record.servers = [Server(2, "host2", [0], 1)] if arm == "ps" else []
        save(record, results.folder)
    [ratio] = arms.ratios(results.table())
    assert ratio.label == ["ResNet50, 2 ranks: ps (asynchronous) / horovod", "ps: +1 core for servers"]


@pytest.mark.slow
def test_of_arms_in_rounds_the_ratio_is_the_median_over_rounds(results):
    """Of six rounds 0.90 to 1.00: the median is 0.95, and the smallest and the largest are its interval."""
    arms = (Arm(2, allreduce=False, role="base"), Arm(2))
    rounds = [(0.9, 1.0), (1.84, 2.0), (0.94, 1.0), (1.92, 2.0), (0.98, 1.0), (2.0, 2.0)]
    record = make_rounds(rounds, arms, experiment="overhead", arm_keys=["distribution.allreduce"])
    for arm, name in zip(record.config["rounds"], ("without", "with"), strict=True):
        arm |= {"arm": name, "swept": {"model": "resnet50"}}
    save(record, results.folder)
    table = results.table()
    first, second = summary.points(table)
    assert "ratio_to_base" not in first.numbers
    result = second.numbers["ratio_to_base"]
    assert (result.value, result.low, result.high, result.n) == pytest.approx((0.95, 0.90, 1.00, 6))
    (label,) = [text.get_text() for text in drawn("own-overhead", table).axes[0].get_yticklabels()]
    assert "median 0.950 (0.900 to 1.000), n=6 rounds" in label


KEYS = ["distribution.gradients", "distribution.cycle_time_ms", "threads_per_rank"]
FLAT = {"distribution.gradients": "flat", "distribution.cycle_time_ms": 20.0}


@pytest.fixture
def study(results):
    """Ten launches of the base, of an arm 1.25 times as fast, one alike, one slower; three of one that was dropped."""

    def add(arm, times, **config):
        for repeat, step_s in enumerate(times):
            record = make_record(
                experiment="tune", nodes=2, step_s=step_s, repeat=repeat, arm=arm, arm_keys=KEYS, swept={},
                role="base" if arm == "as-configured" else "point",
                **(FLAT | config),
            )  # fmt: skip
            save(record, results.folder)

    drift = [0.5, 0.6, 0.55, 0.7, 0.5, 0.52, 0.58, 0.49, 0.61, 0.66]
    add("as-configured", drift)
    add("cycle-5ms", [0.8 * s for s in drift], **{"distribution.cycle_time_ms": 5.0})
    add(
        "grouped", [s * (1.01 if n % 3 else 0.99) for n, s in enumerate(drift)], **{"distribution.gradients": "grouped"}
    )
    add("separate", [1.3 * s for s in drift], **{"distribution.gradients": "separate"})
    add("one-core-free", [3 * s for s in drift[:3]], threads_per_rank=1)
    return results.study()


def test_arms_are_ranked_by_ratios_to_the_base_in_the_same_repeat(study):
    [contest] = arms.contests(study.local, study.records)
    assert [arm.name for arm in contest.arms] == ["cycle-5ms", "as-configured", "grouped", "separate", "one-core-free"]
    assert {arm.name: arm.verdict for arm in contest.arms} == {
        "cycle-5ms": "faster",
        "as-configured": "base",
        "grouped": "no difference",
        "separate": "slower",
        "one-core-free": "dropped: significantly slower",
    }
    best = contest.winner
    assert (best.ratio.value, best.ratio.low, best.ratio.high) == pytest.approx((1.25, 1.25, 1.25))
    assert best.settings == {"distribution.cycle_time_ms": 5.0}
    assert contest.level == pytest.approx(1 - 0.05 / 4)  # four arms are compared with the base


def test_the_report_says_what_follows(study):
    [contest] = arms.contests(study.local, study.records)
    printed = arms.report(contest)
    assert "cycle-5ms (distribution.cycle_time_ms=5.0) is 1.25 times as fast as as-configured, 1.25 to 1.25" in printed
    assert "intervals at 98.8 % each, 95 % for all of them together; of fewer than 8 launches none" in printed
    assert "no difference" in printed
    ranked = arms.as_json(contest)
    assert (ranked.winner, ranked.arms[0].arm) == ("cycle-5ms", "cycle-5ms")


def test_without_a_faster_arm_the_base_stays(study):
    [contest] = arms.contests(study.local[~study.local["arm"].eq("cycle-5ms")], study.records)
    assert contest.winner is None
    assert "No arm is significantly faster than as-configured: keep it" in arms.report(contest)
    few = study.local[study.local["repeat"].lt(5)]
    [contest] = arms.contests(few, study.records)
    assert "too few launches of cycle-5ms, grouped, separate" in " ".join(arms.report(contest).split())


def test_without_the_base_or_another_arm_there_is_no_contest(study):
    assert arms.contests(study.local[study.local["arm"].eq("as-configured")], study.records) == []
    assert arms.contests(study.local[~study.local["arm"].eq("as-configured")], study.records) == []


def test_the_winner_s_settings_are_a_file_over_that_of_the_system(study, tmp_path):
    [contest] = arms.contests(study.local, study.records)
    (tmp_path / "laptop.yaml").write_text("name: laptop\n")
    printed = arms.system_file(contest, "mine", tmp_path)
    assert "  - laptop@system\n" in printed
    assert printed.endswith('distribution:\n  gradients: "flat"\n  cycle_time_ms: 5.0\n')
    # Over a file that was written like this, the one below it.
    (tmp_path / "laptop.yaml").write_text(printed.replace("laptop@", "slurm@"))
    assert "  - slurm@system\n" in arms.system_file(contest, "mine", tmp_path)
