import pytest

from analysis.experiments import ranking
from tests.helpers.own_records import make_record, save

KEYS = ["distribution.gradients", "distribution.cycle_time_ms", "threads_per_rank"]
FLAT = {"distribution.gradients": "flat", "distribution.cycle_time_ms": 20.0}


@pytest.fixture
def study(results):
    """Ten launches of the base, of an arm 1.25 times as fast, one alike, one slower; three of one that was dropped."""

    def add(arm, times, **config):
        for repeat, step_s in enumerate(times):
            made = make_record(
                experiment="tune", nodes=2, step_s=step_s, repeat=repeat, arm=arm, arm_keys=KEYS, swept={},
                role="base" if arm == "as-configured" else "point",
                **(FLAT | config),
            )  # fmt: skip
            save(made, results.folder)

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
    [contest] = ranking.contests(study.local, study.records)
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
    [contest] = ranking.contests(study.local, study.records)
    printed = ranking.report(contest)
    assert "cycle-5ms (distribution.cycle_time_ms=5.0) is 1.25 times as fast as as-configured, 1.25 to 1.25" in printed
    assert "intervals at 98.8 % each, 95 % for all of them together; of fewer than 8 launches none" in printed
    assert "no difference" in printed
    ranked = ranking.as_json(contest)
    assert (ranked.winner, ranked.arms[0].arm) == ("cycle-5ms", "cycle-5ms")


def test_without_a_faster_arm_the_base_stays(study):
    [contest] = ranking.contests(study.local[~study.local["arm"].eq("cycle-5ms")], study.records)
    assert contest.winner is None
    assert "No arm is significantly faster than as-configured: keep it" in ranking.report(contest)
    few = study.local[study.local["repeat"].lt(5)]
    [contest] = ranking.contests(few, study.records)
    assert "too few launches of cycle-5ms, grouped, separate" in " ".join(ranking.report(contest).split())


def test_without_the_base_or_another_arm_there_is_no_contest(study):
    assert ranking.contests(study.local[study.local["arm"].eq("as-configured")], study.records) == []
    assert ranking.contests(study.local[~study.local["arm"].eq("as-configured")], study.records) == []


def test_the_winner_s_settings_are_a_file_over_that_of_the_system(study, tmp_path):
    [contest] = ranking.contests(study.local, study.records)
    (tmp_path / "laptop.yaml").write_text("name: laptop\n")
    printed = ranking.system_file(contest, "mine", tmp_path)
    assert "  - laptop@system\n" in printed
    assert printed.endswith('distribution:\n  gradients: "flat"\n  cycle_time_ms: 5.0\n')
    # Over a file that was written like this, the one below it.
    (tmp_path / "laptop.yaml").write_text(printed.replace("laptop@", "slurm@"))
    assert "  - slurm@system\n" in ranking.system_file(contest, "mine", tmp_path)
