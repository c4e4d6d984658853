import math

import pytest

from analysis import history
from analysis.history import Key
from analysis.stats.student import ratio_of_means
from analysis.study import Study, record_files
from tests.helpers.own_records import make_record, save
from tests.helpers.own_studies import EPOCHS, month, month_in_rounds, month_of_allreduce
from train.record.record import HostState, Resize


def read(folder):
    study = Study(*record_files(folder), every_generation=True)
    (of_machine,) = history.sessions(study.local, study.records).values()
    return of_machine, history.histories(of_machine)


def by_point(histories):
    return {(key.point, key.quantity): values for key, values in histories.items()}


def test_a_rate_a_launch_and_a_speedup_a_repeat(tmp_path):
    month(tmp_path, 0)
    month(tmp_path, 1, slower=1.25)
    result = by_point(read(tmp_path)[1])
    quantities = ("images_per_s", "wall_s", "job_s")
    assert set(result) == {(at, name) for at in ("1 node", "2 nodes") for name in quantities} | {("2 nodes", "speedup")}
    # batch 8 in 0.5 s x 1.004, 0.996, 1.002; the second month takes 1.25 times as long
    rates = [16 / 1.004, 16 / 0.996, 16 / 1.002]
    assert result["1 node", "images_per_s"].by_session[1] == pytest.approx(rates)
    assert result["1 node", "images_per_s"].by_session[2] == pytest.approx([rate / 1.25 for rate in rates])
    # two nodes take 0.6 s x 0.996, 1.002, 0.998
    assert result["2 nodes", "speedup"].by_session[2] == pytest.approx(
        [2 * 0.5 * a / (0.6 * b) for a, b in ((1.004, 0.996), (0.996, 1.002), (1.002, 0.998))]
    )


def test_a_wall_time_and_a_job_time_a_launch(tmp_path):
    month(tmp_path, 0, imports=2)
    result = by_point(read(tmp_path)[1])
    # broadcast 0.4, first step 6, warm-up 2 x 0.5, timed 4 x 0.5 s; the job's other phases take 6.6 s, imports 3 s more
    assert result["1 node", "wall_s"].by_session[1] == pytest.approx([9.4 * x for x in (1.004, 0.996, 1.002)])
    assert result["1 node", "job_s"].by_session[1] == pytest.approx([19 * x for x in (1.004, 0.996, 1.002)])
    assert result["2 nodes", "wall_s"].by_session[1] == pytest.approx([10 * x for x in (0.996, 1.002, 0.998)])


def test_training_over_epochs_has_a_wall_time_and_a_job_time(tmp_path):
    save(make_record("accuracy_digits", nodes=2, epochs=EPOCHS), tmp_path)
    result = by_point(read(tmp_path)[1])
    # 5 epochs of 2 s, of which the first step, 1/50, is not timed but takes 6 s, after a broadcast of 0.4 s
    assert result["2 nodes", "wall_s"].by_session == {1: [pytest.approx(0.4 + 6 + 49 * 0.2)]}
    assert ("2 nodes", "job_s") in result


def test_elastic_training_has_no_time_to_compare(tmp_path):
    run = make_record("accuracy_digits", nodes=1, epochs=EPOCHS, **{"distribution.elastic": True})
    run.resizes = [Resize(9.0, 1, 20, 2, 1, "lost n2")]
    save(run, tmp_path)
    assert history.histories([history.Session(1, (), Study(tmp_path).local)]) == {}


def test_of_allreduce_the_time_of_the_smallest_message_and_the_bandwidth_of_the_largest(tmp_path):
    month_of_allreduce(tmp_path, 0)
    month_of_allreduce(tmp_path, 1, slower={2**20: 2.0})
    result = by_point(read(tmp_path)[1])
    assert set(result) == {
        ("2 nodes, gloo, cycle 20 ms, 1 KiB", "allreduce_s"),
        ("2 nodes, gloo, cycle 20 ms, 1 MiB", "bus_bandwidth_bytes_per_s"),
    }
    small, large = result.values()
    assert small.by_session == {1: pytest.approx([0.02, 0.02008, 0.01992]), 2: pytest.approx([0.02, 0.02008, 0.01992])}
    assert large.by_session[1][0] == pytest.approx(2**20 / 0.01)  # 2 (n - 1) / n is 1 for two ranks
    assert large.by_session[2][0] == pytest.approx(2**20 / 0.02)


def test_of_rounds_the_rate_and_the_median_speedup_of_each_launch(tmp_path):
    month_in_rounds(tmp_path, 0)
    month_in_rounds(tmp_path, 1, speedup=1.2)
    result = by_point(read(tmp_path)[1])
    assert result["2 nodes", "speedup"].by_session == {1: [pytest.approx(1.5)], 2: [pytest.approx(1.2)]}
    assert result["2 nodes, without-allreduce", "speedup"].by_session[2] == [pytest.approx(1.9)]
    mean_s = 0.5 * (1 + 0.001 * (0 + 1 + 2 + 3 + 4 + 0) / 6)  # the harmonic mean of rates is that of their times
    assert result["1 node", "images_per_s"].by_session[1] == [pytest.approx(8 / mean_s)]


def test_the_newest_session_is_beside_all_before(tmp_path):
    for number in range(3):
        month(tmp_path, number)
    result, histories = read(tmp_path)
    beside = history.newest_changes(histories, result)[0]
    assert (len(beside.before), len(beside.now)) == (6, 3)


def test_a_point_that_was_not_measured_again_is_not_judged(tmp_path):
    month(tmp_path, 0)
    month(tmp_path, 1, slower=2, nodes=[1])
    result, histories = read(tmp_path)
    rows = {
        (row.change.key.point, row.change.key.quantity): row
        for row in history.verdict_rows(history.newest_changes(histories, result), 0.05)
    }
    assert rows["1 node", "images_per_s"].verdict == "slower"
    assert rows["2 nodes", "images_per_s"].verdict == "not decidable"
    assert rows["2 nodes", "images_per_s"].note == "not measured in the newest session"


def test_ranks_that_shared_cores_are_not_judged(tmp_path, monkeypatch):
    month(tmp_path, 0)
    month(tmp_path, 1, slower=2)
    study = Study(tmp_path, every_generation=True)
    (result,) = history.sessions(study.local.assign(cores_shared=True), study.records).values()
    rows = history.verdict_rows(history.newest_changes(history.histories(result), result), 0.05)
    assert {(row.verdict, row.note) for row in rows} == {("not decidable", "ranks shared cores")}


def test_an_older_state_of_the_machine_is_no_measure(tmp_path):
    month(tmp_path, 0, slower=1.5)  # before an update that made it faster
    month(tmp_path, 1, commit="b" * 40)
    month(tmp_path, 2, commit="b" * 40)
    month(tmp_path, 3, slower=1.25, commit="c" * 40)
    result, histories = read(tmp_path)
    assert history.session_states(result) == [[1], [2, 3], [4]]
    beside = history.newest_changes(histories, result)[0]
    assert [len(of) for of in (beside.before, beside.now, *beside.older)] == [6, 3, 3]
    rows = history.verdict_rows(history.newest_changes(histories, result), 0.05)
    assert [row.verdict for row in rows if row.change.key.quantity == "images_per_s"] == ["slower", "slower"]


def found(folder):
    return read(folder)[0]


def test_a_session_begins_where_a_launch_is_repeated(tmp_path):
    month(tmp_path, 0)
    month(tmp_path, 1)
    first, second = found(tmp_path)
    assert [len(one.launches) for one in (first, second)] == [6, 6]
    assert (first.days, second.days) == ("2026-01-03", "2026-02-03")
    assert set(second.table["generation"]) == {1}


def test_launches_that_are_added_belong_to_the_same_session(tmp_path):
    month(tmp_path, 0, launches=2)
    run = make_record(nodes=1, repeat=2)
    run.started_at = "2026-01-05T08:00:00Z"
    run.environment.git_commit = "a" * 40
    save(run, tmp_path)
    (one,) = found(tmp_path)
    assert (len(one.launches), one.days) == (5, "2026-01-03 to 2026-01-05")


def test_a_session_with_more_launches_than_the_one_before_is_one(tmp_path):
    month(tmp_path, 0, launches=2)
    month(tmp_path, 1, launches=4)
    assert [len(one.launches) for one in found(tmp_path)] == [4, 8]


def test_another_commit_begins_a_session_and_is_named(tmp_path):
    month(tmp_path, 0, launches=1)
    month(tmp_path / "2026-02", 1, launches=1, nodes=[2], commit="b" * 40)
    run = make_record(nodes=1, repeat=5)
    run.started_at = "2026-03-01T08:00:00Z"
    run.environment.git_commit, run.environment.versions = "b" * 40, {"tensorflow": "2.19.0"}
    save(run, tmp_path)
    made = found(tmp_path)
    assert [one.provenance.commit for one in made] == ["aaaaaaa", "bbbbbbb", "bbbbbbb"]
    assert ("environment.versions.tensorflow", "2.18.1", "2.19.0") in history.changed(made[1], made[2])


def test_what_was_measured_of_a_host_is_no_change_and_how_it_was_set_is_one(tmp_path):
    for generation, (load, steal_fraction, governor) in enumerate(
        [(0.1, 0.002, "powersave"), (0.4, 0.003, "performance")]
    ):
        run = make_record(generation=generation)
        run.started_at = f"2026-0{generation + 1}-03T08:00:00Z"
        state = HostState(governor, 800.0 + load, 3500.0, True, 1, "madvise", load, ["avx2"], [], None, steal_fraction)
        run.environment.hosts[0].state = state
        save(run, tmp_path)
    assert history.changed(*found(tmp_path)) == [("environment.hosts.state.governor", "powersave", "performance")]


def test_a_tree_that_was_not_clean_is_marked():
    run = make_record()
    run.environment.git_dirty = True
    assert history.provenance(run).commit == "0000000+"


def test_machines_have_their_own_sessions(tmp_path):
    month(tmp_path, 0, launches=1)
    run = make_record()
    run.environment.hosts[0].cpu_model = "another"
    save(run, tmp_path / "other")
    study = Study(*record_files(tmp_path), every_generation=True)
    assert [len(of) for of in history.sessions(study.local, study.records).values()] == [1, 1]


def test_older_sessions_can_be_left_out(tmp_path):
    month(tmp_path, 0, launches=1)
    month(tmp_path, 1, launches=1)
    assert [one.number for one in history.since(found(tmp_path), "2026-02-01")] == [2]


def words(ratios, within=0.05):
    return [history.verdict_name(verdict, False) for verdict in history.judge_ratios(ratios, within)]


def test_two_launches_or_more_on_either_side_are_compared_as_two_sets_are():
    result = history.mean_ratio([10, 12], [20, 24])
    assert (result.value, result.interval) == (2, pytest.approx(ratio_of_means([10, 12], [20, 24]).interval))


def test_a_single_launch_scatters_as_those_before_worked_by_hand():
    # before: the logarithms have the standard deviation 0.1; the error of the ratio is 0.1 x sqrt(1 + 1/3), 2 degrees
    before = [10 * math.exp(x) for x in (-0.1, 0, 0.1)]
    mean = 10 * (1 + 2 * math.cosh(0.1)) / 3
    result = history.mean_ratio(before, [12])
    apart = math.exp(4.302653 * 0.1 * math.sqrt(4 / 3))  # t(0.975, 2)
    assert (result.value, result.low, result.high) == pytest.approx((12 / mean, 12 / mean / apart, 12 / mean * apart))


def test_a_single_launch_before_scatters_as_those_now():
    there, back = history.mean_ratio([9, 10, 11], [12]), history.mean_ratio([12], [9, 10, 11])
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


def test_one_launch_on_each_side_has_no_interval():
    assert math.isnan(history.mean_ratio([10], [5]).low)


def test_launches_that_agree_to_the_digit_decide():
    assert words([history.mean_ratio([10, 10], [8, 8])]) == ["slower"]


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        ([100.1, 99.9, 100.2], "as before"),
        ([80.0, 80.3, 79.8], "slower"),
        ([125.0, 124.6, 125.2], "faster"),
        ([95.0, 95.2, 94.9], "not decidable"),  # at the limit itself
        ([70.0, 130.0], "not decidable"),
    ],
)
def test_verdicts(now, verdict):
    assert words([history.mean_ratio([100.0, 100.3, 99.8], now)]) == [verdict]


def test_a_time_that_is_larger_is_slower():
    longer, shorter = (history.mean_ratio([100.0, 100.3, 99.8], [x + 0.1, x, x - 0.2]) for x in (120, 80))
    judged = history.judge_ratios([longer, shorter], 0.05)
    assert [history.verdict_name(one, True) for one in judged] == ["slower", "faster"]
    assert [history.verdict_name(one, False) for one in judged] == ["faster", "slower"]


def test_verdicts_are_corrected_for_their_number():
    ratio = history.mean_ratio([100.0, 101.5, 98.5], [86.0, 87.5, 84.5])
    (alone,), many = history.judge_ratios([ratio], 0.05), history.judge_ratios([ratio] * 40, 0.05)
    assert words([ratio]) == ["slower"]
    assert set(words([ratio] * 40)) == {"not decidable"}
    assert many[0].p == pytest.approx(40 * alone.p)


def test_a_smaller_tolerance_finds_less_to_be_as_before():
    ratio = history.mean_ratio([100.0, 100.3, 99.8], [98.0, 98.2, 97.9])
    assert [words([ratio], within) for within in (0.05, 0.01)] == [["as before"], ["slower"]]


def test_older_launches_tell_how_far_launches_scatter_worked_by_hand():
    # logs about the mean of their group: 0 before and now, ±0.01 in two older ones: s = 0.01 sqrt(4 / 4), 4 degrees
    e = math.exp
    older = [[e(0.01), e(-0.01)], [100 * e(0.01), 100 * e(-0.01)]]
    result = history.mean_ratio([10, 10], [9, 9], older)
    apart = math.exp(2.776445 * 0.01)  # t(0.975, 4), times sqrt(1/2 + 1/2)
    assert (result.value, result.low, result.high) == pytest.approx((0.9, 0.9 / apart, 0.9 * apart))


def test_one_launch_on_each_side_scatters_as_the_launches_of_other_curves_worked_by_hand():
    def change(model, before, now, ranks=2):
        key = Key("weak_scaling", model, ranks, f"{ranks} nodes", "images_per_s", model, "m")
        return history.Change(key, tuple(before), tuple(now))

    several = [10 * math.exp(x) for x in (-0.02, 0, 0.02)]  # their logarithms have the standard deviation 0.02
    one, other, smaller, _ = history.verdict_rows(
        [
            change("resnet50", [10], [8]),
            change("vgg16", several, several),
            change("resnet50", [10], [8], ranks=1),
            change("resnet50", [10], [8], ranks=4),
        ],
        0.05,
    )
    # the error of the ratio is 0.02 x root 2, with the 4 degrees of freedom of the other curve; t(0.975, 4) = 2.776
    assert one.ratio.high / one.ratio.value == pytest.approx(math.exp(2.776445 * 0.02 * math.sqrt(2)))
    assert one.verdict == "slower"
    assert one.note == "1 launch: with the variance between launches of 1 other curve"
    assert (other.curves, other.note) == (0, "")
    assert smaller.note == "one launch before and one now: how far launches differ is not known"
