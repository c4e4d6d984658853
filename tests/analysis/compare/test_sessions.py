import math
import statistics

import pytest

from analysis.compare import corrected, sessions
from analysis.compare.launch_values import Change, Key, Side, compare_launches, within
from analysis.compare.provenance import Difference
from analysis.stats import repeats
from analysis.study import Study, record_files
from record.schema import HostState
from tests.helpers.run_records import make_record, save
from tests.helpers.studies import month, month_in_rounds, month_of_allreduce


def sessions_in(folder, **assigned):
    study = Study(*record_files(folder), every_generation=True)
    (own,) = sessions.sessions(study.local.assign(**assigned), study.records).values()
    return own


def values_in(folder):
    values = sessions.session_values(sessions_in(folder))
    return {(key.point, key.quantity): point.by_session for key, point in values.items()}


def points_in(folder, **assigned):
    (machine,) = sessions.compare_sessions({"machine": sessions_in(folder, **assigned)}, 0.05).machines
    return {(row.point, row.quantity): row for row in machine.points}


def save_launch(folder, started_at, commit="a" * 40, versions=None, **run):
    record = make_record(**run)
    record.started_at = started_at
    record.environment.git_commit = commit
    record.environment.versions = versions or record.environment.versions
    save(record, folder)


def test_values_of_a_launch_and_of_other_days_worked_by_hand(tmp_path):
    for number, slower in enumerate((1.0, 1.02, 0.98)):
        month(tmp_path, number, slower=slower, imports=2)
    points = points_in(tmp_path)
    # batch 8 in 0.5 s x 1.004, 0.996, 1.002; two nodes take 0.6 s x 0.996, 1.002, 0.998
    scatter, scatter_of_two = (1.004, 0.996, 1.002), (0.996, 1.002, 0.998)
    ratios = [2 * 0.5 * a / (0.6 * b) for a, b in zip(scatter, scatter_of_two, strict=True)]
    # broadcast 0.4, first step 6, warm-up 2 x 0.5, timed 4 x 0.5 s; the job's other phases take 6.6 s, imports 3 s more
    assert {key: pytest.approx(point.sessions[1].launches) for key, point in points.items()} == {
        ("1 node", "images_per_s"): [16 / x / 1.02 for x in scatter],
        ("1 node", "wall_s"): [9.4 * x * 1.02 for x in scatter],
        ("1 node", "job_s"): [19 * x * 1.02 for x in scatter],
        ("2 nodes", "images_per_s"): [16 / 0.6 / x / 1.02 for x in scatter_of_two],
        ("2 nodes", "speedup"): ratios,
        ("2 nodes", "wall_s"): [10 * x * 1.02 for x in scatter_of_two],
        ("2 nodes", "job_s"): [19.6 * x * 1.02 for x in scatter_of_two],
    }
    # The geometric means of the days are a rate times 1, 1/1.02 and 1/0.98: standard error of their logarithms 1.155 %;
    # the launches within a day, which differ by up to 0.8 %, do not count. t(0.975, 2) = 4.303.
    one = points["1 node", "images_per_s"].over_days
    of_a_day = 16 / (1.004 * 0.996 * 1.002) ** (1 / 3)
    means = [of_a_day / slower for slower in (1.0, 1.02, 0.98)]
    error = statistics.stdev(map(math.log, means)) / math.sqrt(3)
    assert (one.value, one.n, one.variation) == (pytest.approx(statistics.geometric_mean(means)), 3, "between days")
    assert one.high / one.value == pytest.approx(math.exp(4.302653 * error))


def test_two_days_or_sessions_of_one_day_or_before_an_update_have_no_interval_for_other_days(tmp_path):
    for generation, commit in enumerate("baa"):
        month(tmp_path, generation, launches=1, nodes=[1], commit=commit * 40)
    save_launch(tmp_path / "again", "2026-03-03T20:00:00Z")  # the same day as the last session
    assert len(sessions_in(tmp_path)) == 4
    one = points_in(tmp_path)["1 node", "images_per_s"].over_days
    assert (one.n, one.has_interval) == (2, False)


def test_allreduce_has_the_time_of_the_smallest_message_and_the_bandwidth_of_the_largest(tmp_path):
    month_of_allreduce(tmp_path, 0)
    month_of_allreduce(tmp_path, 1, slower={2**20: 2.0})
    result, point = values_in(tmp_path), "2 nodes, gloo, cycle 20 ms, "
    assert set(result) == {(f"{point}1 KiB", "allreduce_s"), (f"{point}1 MiB", "bus_bandwidth_bytes_per_s")}
    small, large = result.values()
    assert small == {1: pytest.approx([0.02, 0.02008, 0.01992]), 2: pytest.approx([0.02, 0.02008, 0.01992])}
    assert [large[1][0], large[2][0]] == pytest.approx([2**20 / 0.01, 2**20 / 0.02])  # 2 (n - 1) / n is 1 for two ranks


def test_rounds_have_the_rate_and_the_speedup_of_each_launch(tmp_path):
    month_in_rounds(tmp_path, 0)
    month_in_rounds(tmp_path, 1, speedup=1.2)
    result = values_in(tmp_path)
    assert result["2 nodes", "speedup"] == {1: [pytest.approx(1.5)], 2: [pytest.approx(1.2)]}
    assert result["2 nodes, without-allreduce", "speedup"][2] == [pytest.approx(1.9)]
    # Steps of 0.5 s (1 + 0.001 n), n of 0, 1, 2, 3, 4, 0: of the means of pairs half are below 1.5.
    assert result["1 node", "images_per_s"][1] == [pytest.approx(8 / 0.5 / 1.0015, rel=1e-6)]


def test_the_newest_session_is_compared_with_all_before_since_an_update_and_points_it_lacks_are_not_judged(tmp_path):
    # In the first month, before an update that made it faster
    for generation, (slower, commit, nodes) in enumerate(((1.5, "a", 2), (1, "b", 2), (1, "b", 2), (1.25, "c", 1))):
        month(tmp_path, generation, slower, launches=2, nodes=range(1, nodes + 1), commit=commit * 40)
    own = sessions_in(tmp_path)
    assert sessions.session_states(own) == [[1], [2, 3], [4]]
    change = sessions.newest_changes(sessions.session_values(own), own)[0]
    assert [len(group) for group in (change.before.launches, change.now.launches, *change.older)] == [4, 2, 2]
    rows = points_in(tmp_path)
    one, two = (rows[at, "images_per_s"] for at in ("1 node", "2 nodes"))
    assert (one.reference.n, one.measured.n, one.verdict) == (4, 2, "worse")
    assert (two.verdict, two.note) == ("not decidable", "not measured in the newest session")


def test_ranks_that_shared_cores_are_not_judged(tmp_path):
    month(tmp_path, 0, launches=2, nodes=[1])
    month(tmp_path, 1, launches=2, nodes=[1], slower=2)
    rows = points_in(tmp_path, cores_shared=True).values()
    assert {(row.verdict, row.note) for row in rows} == {("not decidable", "ranks shared cores")}


def test_a_session_begins_where_a_launch_is_repeated_or_the_commit_or_a_version_is_another(tmp_path):
    month(tmp_path, 0, launches=1)
    save_launch(tmp_path, "2026-01-05T08:00:00Z", repeat=1)  # added: of the same session
    month(tmp_path, 1, launches=1)
    save_launch(tmp_path, "2026-03-01T08:00:00Z", "b" * 40, repeat=2)
    save_launch(tmp_path, "2026-04-01T08:00:00Z", "b" * 40, {"tensorflow": "2.19.0"}, repeat=3)
    own = sessions_in(tmp_path)
    days = [(3, "2026-01-03 to 2026-01-05"), (2, "2026-02-03"), (1, "2026-03-01"), (1, "2026-04-01")]
    assert [(len(session.launches), session.days) for session in own] == days
    assert [session.provenance.commit for session in own] == [[letter * 7] for letter in "aabb"]
    assert set(own[1].table["generation"]) == {1}
    assert Difference("environment.versions.tensorflow", "2.18.1", "2.19.0") in sessions.changed(*own[2:])
    assert sessions.since(own, "2026-02-01") == own[1:]


def test_machines_have_their_own_sessions_and_a_tree_that_was_not_clean_is_marked(tmp_path):
    month(tmp_path, 0, launches=1)
    run = make_record()
    run.environment.hosts[0].cpu_model, run.environment.git_dirty = "another", True
    save(run, tmp_path / "other")
    study = Study(*record_files(tmp_path), every_generation=True)
    ours, [other] = sessions.sessions(study.local, study.records).values()
    assert (len(ours), other.provenance.commit) == (1, ["0000000+"])


def test_a_measured_state_of_a_host_is_no_change_and_a_setting_is_one(tmp_path):
    for generation, load, steal_fraction, governor in ((0, 0.1, 0.002, "powersave"), (1, 0.4, 0.003, "performance")):
        run = make_record(generation=generation)
        run.started_at = f"2026-0{generation + 1}-03T08:00:00Z"
        state = HostState(governor, 800.0 + load, 3500.0, True, 1, "madvise", load, ["avx2"], [], None, steal_fraction)
        run.environment.hosts[0].state = state
        save(run, tmp_path)
    changes = sessions.changed(*sessions_in(tmp_path))
    assert changes == [Difference("environment.hosts.state.governor", "powersave", "performance")]


def side(values):
    """Launches of one value each."""
    return Side(tuple(values), repeats.typical(repeats.singles(values)))


def test_verdicts_are_corrected_for_their_number():
    change = Change(
        Key("e", "m", 2, "2 nodes", "images_per_s", "s", "m", "images/s"),
        *map(side, ([100, 101.5, 98.5], [86, 87, 84])),
    )
    (alone,), many = (corrected(compare_launches([change] * n, within(0.05))) for n in (1, 40))
    assert (alone.verdict, {row.verdict for row in many}) == ("worse", {"not decidable"})
    assert many[0].p_value == pytest.approx(40 * alone.p_value)


def test_one_launch_on_each_side_scatters_as_the_launches_of_other_curves_worked_by_hand():
    def change(model, before, now, ranks=2):
        key = Key("weak_scaling", model, ranks, f"{ranks} nodes", "images_per_s", model, "m", "images/s")
        return Change(key, side(before), side(now))

    several = [10 * math.exp(x) for x in (-0.02, 0, 0.02)]  # their logarithms have the standard deviation 0.02
    changes = [change("resnet50", [10], [8], ranks) for ranks in (2, 1, 4)]
    first, smaller, _, other = corrected(compare_launches([*changes, change("vgg16", several, several)], within(0.05)))
    # the error of the ratio is 0.02 x root 2, with the 4 degrees of freedom of the other curve; t(0.975, 4) = 2.776
    assert first.ratio.high / first.ratio.value == pytest.approx(math.exp(2.776445 * 0.02 * math.sqrt(2)))
    assert (first.verdict, other.note) == ("worse", "")
    assert first.note == "1 launch: with the variance between launches of 1 other curve"
    assert smaller.note == "one launch before and one now: how far launches differ is not known"
