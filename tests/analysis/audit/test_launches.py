from dataclasses import replace

import pytest

from analysis import audit
from analysis.audit import launches as rules
from tests.helpers.own_records import make_record, make_rounds


def steps(*times):
    run = make_record(steps=len(times))
    run.ranks[0].step_times_s = list(times)
    return run


def made(**run):
    return rules.launch(make_record(**run), "p")


def test_a_point_measured_once():
    (finding,) = rules.one_repeat([made(), made(nodes=2), made(nodes=2, repeat=1)])
    assert finding.stated == "weak_scaling: 1 repeat"
    assert not list(rules.one_repeat([made(), made(repeat=1)]))


def test_repeats_far_apart():
    (finding,) = rules.repeats_apart([made(step_s=0.5), made(step_s=0.55, repeat=1)])
    assert finding.off == pytest.approx(0.1)
    assert not list(rules.repeats_apart([made(step_s=0.5), made(step_s=0.51, repeat=1)]))


def test_points_made_with_different_software():
    newer = make_record(nodes=2)
    newer.environment.versions["tensorflow"] = "2.19.0"
    (finding,) = rules.unequal_software([made(), rules.launch(newer, "p")])
    assert finding.stated == "tensorflow: 2.18.1, 2.19.0"
    assert finding.severity == "serious"
    assert not list(rules.unequal_software([made(), made(nodes=2)]))
    with_mpi = [make_record(nodes=nodes) for nodes in (2, 3)]
    with_mpi[0].environment.mpi, with_mpi[1].environment.mpi = "Open MPI 4.1.4", "MPICH 4.3.2"
    launches = [made(), *(rules.launch(run, "p") for run in with_mpi)]
    assert not list(rules.unequal_software(launches[:2]))  # one rank alone loads none
    assert [one.stated for one in rules.unequal_software(launches)] == ["MPI: MPICH 4.3.2, Open MPI 4.1, none"]


def test_a_node_that_is_not_the_same_machine_at_every_point():
    whole = make_record()
    whole.ranks[0].cores = [0, 1, 2, 3]
    (finding,) = rules.unequal_cores([rules.launch(whole, "p"), made(nodes=4)])
    assert finding.stated == "1, 4 cores a rank"
    assert not list(rules.unequal_cores([made(), made(nodes=4)]))
    swept = {"model": "resnet50", "ranks_per_node": 1}
    divided = [make_record(ranks_per_node=ranks, swept=swept | {"ranks_per_node": ranks}) for ranks in (1, 4)]
    divided[0].ranks[0].cores = [0, 1, 2, 3]
    assert not list(rules.unequal_cores([rules.launch(run, "p") for run in divided]))


def test_rank_groups_that_divide_a_node_differently_are_not_compared():
    groups = [{"settings": {}, "first_rank": 0, "ranks": 1}, {"settings": {}, "first_rank": 1, "ranks": 1}]
    launch = make_record(nodes=2)
    launch.config["rank_groups"], launch.ranks[0].cores = groups, [0, 1]
    assert list(rules.unequal_cores([rules.launch(launch, "p")]))
    groups[1]["settings"] = {"threads_per_rank": 1}
    assert not list(rules.unequal_cores([rules.launch(launch, "p")]))


def test_a_rule_that_fires_for_many_runs_is_one_finding():
    runs = [(f"r{i}", steps(*[slow] * 3, *[1.0] * 27)) for i, slow in enumerate((1.1, 1.2, 1.3))]
    drift = [finding for finding in audit.run_findings(runs) if finding.rule == "warm_up_drift"]
    assert [finding.place for finding in drift] == ["r2, and 2 more runs"]


def test_one_repeat_from_another_machine():
    strayed = make_record(repeat=2)
    strayed.environment.hosts[0].cpu_model = "Intel Xeon"
    runs = [made(), made(repeat=1), rules.launch(strayed, "stray")]
    (finding,) = rules.unequal_machines(runs)
    assert (finding.place, finding.severity) == ("stray", "serious")
    assert finding.stated == "resnet50_nodes=1 r2 on Intel Xeon"
    assert finding.follows == "AMD EPYC 9B45, as 2 other runs"
    assert not list(rules.unequal_machines([made(), made(model="vgg16")]))


def test_another_code_than_the_rest():
    other = replace(make_record(nodes=2), source_digest="2" * 64)
    (finding,) = rules.unequal_software([made(), rules.launch(other, "p")])
    assert finding.stated == "digest of the code: 111111111111, 222222222222"
    assert finding.severity == "warning"


def launches(*ratios):
    return [
        rules.launch(make_rounds([(0.5, 1 / ratio, 0.55) for ratio in of], repeat=repeat), f"p{repeat}")
        for repeat, of in enumerate(ratios)
    ]


def test_launches_of_a_curve_that_differ_by_more_than_their_rounds():
    one, other, between = ([middle + 0.01 * n for n in range(6)] for middle in (1.5, 1.7, 1.53))
    (finding,) = rules.launches_apart(launches(one, other))
    assert finding.place == "p0"
    assert finding.off == pytest.approx(1.725 / 1.525 - 1)
    assert not list(rules.launches_apart(launches(one, between)))
    assert not list(rules.launches_apart(launches(one, other, one, one, one, other)))  # six tell of the next one


def test_too_few_rounds_in_all_launches_of_a_curve():
    few, more = [1.6] * 2, [1.6] * 4
    (finding,) = rules.few_rounds(launches(few, few))
    assert (finding.stated, finding.severity) == ("4 rounds", "note")
    assert not list(rules.few_rounds(launches(few, more)))
