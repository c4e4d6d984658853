from dataclasses import replace

import pytest

from analysis.audit import records  # noqa: F401 - adds its rules to the list
from analysis.audit.findings import RECORD_RULES
from tests.helpers.findings import record_findings
from tests.helpers.own_records import make_record, make_rounds, settle


def steps(*times):
    run = make_record(steps=len(times))
    run.ranks[0].step_times_s = list(times)
    return run


@pytest.mark.parametrize("name", sorted(RECORD_RULES))
def test_a_clean_record_gives_no_finding(name):
    assert not record_findings(name, make_record(nodes=2, ranks_per_node=2, steps=100))


def test_shared_cores():
    (finding,) = record_findings("cores_shared", replace(make_record(nodes=2), cores_shared=True))
    assert finding.severity == "serious"


def test_a_dirty_tree():
    run = make_record()
    run.environment.git_dirty = True
    (finding,) = record_findings("dirty_tree", run)
    assert finding.stated == "commit 0000000000"


def test_unequal_hosts():
    run = make_record(nodes=2)
    run.environment.hosts.append(replace(run.environment.hosts[0], host="host1", cpu_model="another CPU"))
    (finding,) = record_findings("unequal_hosts", run)
    assert finding.stated == "2 hosts of 2 kinds"
    run.environment.hosts[1].cpu_model = run.environment.hosts[0].cpu_model
    assert not record_findings("unequal_hosts", run)


def test_first_steps_slower_than_the_rest():
    (finding,) = record_findings("warm_up_drift", steps(*[1.2] * 3, *[1.0] * 27))
    assert finding.off == pytest.approx(0.2)
    assert not record_findings("warm_up_drift", steps(*[1.04] * 3, *[1.0] * 27))
    assert not record_findings("warm_up_drift", steps(*[1.2] * 3, *[1.0] * 6))  # too few to tell


def test_steps_far_above_the_median():
    # 2 of 20 steps take 6 s, 5 s more than the median: 10 of 30 s
    (finding,) = record_findings("step_outliers", steps(*[1.0] * 18, 6.0, 6.0))
    assert finding.off == pytest.approx(10 / 30)
    assert not record_findings("step_outliers", steps(*[1.0] * 18, 1.9, 1.9))


def test_a_rank_whose_steps_are_slower():
    run = make_record(nodes=4)
    run.ranks[2].step_times_s = [0.7] * 4
    (finding,) = record_findings("straggler", run)
    assert finding.stated.startswith("rank 2 on host0")
    assert finding.off == pytest.approx(0.4)


def test_a_rank_that_the_others_wait_for_although_all_steps_are_equally_long():
    run = make_record(nodes=3)
    for rank, computed_s in zip(run.ranks, (0.2, 0.45, 0.22), strict=True):
        rank.compute_times_s = [computed_s] * 4
    (finding,) = record_findings("straggler", run)
    assert finding.stated == "rank 1 on host0: 0.45 s a step"
    assert finding.off == pytest.approx(0.45 / 0.21 - 1)  # the median of 0.20 and 0.22


def test_ranks_that_did_not_train_one_model():
    (finding,) = record_findings("weights_differ", replace(make_record(nodes=2), weights_differ=True))
    assert finding.severity == "serious"
    alone = make_record(nodes=2, distribution={"backend": "horovod", "allreduce": False})
    assert not record_findings("weights_differ", replace(alone, weights_differ=True))


@pytest.mark.parametrize("name", sorted(RECORD_RULES))
def test_a_clean_launch_in_rounds_gives_no_finding(name):
    assert not record_findings(name, settle(make_rounds([(0.5, 0.8, 0.55)] * 12)))


def test_slow_steps_in_rounds_are_compared_within_their_arm():
    # Steps of 2 s are all others' on two nodes, and four of 24 are outliers on one.
    run = make_rounds([(0.5, 2.0, 1.9)] * 12)
    for window in run.ranks[0].windows[:6:3]:
        window.step_times_s = [2.0, 2.0]
    (finding,) = record_findings("step_outliers", run)
    assert finding.stated == "rank 0, nodes1-: 4 of 24 steps above 1 s"
    assert finding.off == pytest.approx(4 * 1.5 / (20 * 0.5 + 4 * 2))


def test_a_straggler_in_rounds():
    run = make_rounds([(0.5, 0.8, 0.55)] * 12)
    for window in run.ranks[1].windows:
        window.compute_times_s = [time_s * 1.5 for time_s in window.compute_times_s]
    (finding,) = record_findings("straggler", run)
    assert finding.off == pytest.approx(0.5)


def test_outliers_and_drift_of_any_rank_count():
    run = make_record(nodes=3, steps=20)
    run.ranks[2].step_times_s = [0.5] * 18 + [3.0, 3.0]
    (finding,) = record_findings("step_outliers", run)
    assert finding.stated == "rank 2: 2 of 20 steps above 1 s"
    run.ranks[1].step_times_s = [0.6] * 3 + [0.5] * 17
    (finding,) = record_findings("warm_up_drift", run)
    assert finding.stated == "rank 1: first 3 steps 0.6 s"


def test_an_arm_that_slows_down_while_the_others_do_not():
    early, late = [1.9, 1.92, 1.88, 1.91, 1.89, 1.9], [1.6, 1.62, 1.58, 1.61, 1.59, 1.6]
    both = make_rounds([(0.5, 1 / ratio, 0.55) for ratio in early + late])
    (finding,) = record_findings("arm_drift", both)
    assert finding.stated.endswith("ratio 1.9 in the first rounds")
    assert finding.off == pytest.approx(1.6 / 1.9 - 1)
    scattered = [ratio for pair in zip(early, late, strict=True) for ratio in pair]
    assert not record_findings("arm_drift", make_rounds([(0.5, 1 / ratio, 0.55) for ratio in scattered]))
    # A trend of 4 % over 10 rounds that scatter by 1 %: the halves overlap.
    rising = [1.60, 1.62, 1.61, 1.63, 1.62, 1.64, 1.63, 1.65, 1.66, 1.64]
    (finding,) = record_findings("arm_drift", make_rounds([(0.5, 1 / ratio, 0.55) for ratio in rising]))
    assert finding.off == pytest.approx(1.64 / 1.62 - 1)
    slower = [(0.5 * (1 + 0.1 * n), (1 + 0.1 * n) / ratio, 0.55 * (1 + 0.1 * n)) for n, ratio in enumerate(early * 2)]
    assert not record_findings("arm_drift", make_rounds(slower))  # the whole machine
