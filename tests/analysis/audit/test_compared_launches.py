from dataclasses import replace

import pytest

from analysis import audit
from analysis.audit.compared_launches import launch
from analysis.audit.findings import EXPERIMENT_RULES
from tests.helpers.rule_findings import check
from tests.helpers.run_records import make_program, make_record, make_rounds


def run(path="p", hosts=None, cores=None, mpi=None, versions=None, **fields):
    """A launch whose first rank has these cores."""
    record = make_record(**fields)
    record.ranks[0].cores = cores or [0]
    record.environment.mpi = mpi
    record.environment.versions |= versions or {}
    record.environment.hosts[0].cpu_model = hosts or record.environment.hosts[0].cpu_model
    return launch(record, path)


def in_rounds(*ratios):
    """A launch for each list of ratios of two nodes over one, round by round."""
    records = [make_rounds([(0.5, 1 / ratio, 0.55) for ratio in rounds], repeat=n) for n, rounds in enumerate(ratios)]
    return [launch(record, f"p{record.repeat}") for record in records]


def divided(ranks, cores):
    swept = {"model": "resnet50", "ranks_per_node": ranks}
    return run(ranks_per_node=ranks, swept=swept, cores=cores)


LOW, HIGH, MIDDLE = ([middle + 0.01 * n for n in (0, 3, 1, 4, 5, 2)] for middle in (1.5, 1.7, 1.53))
DRIFTING = [1.5 + 0.01 * n for n in range(24)]
NEWER = {"tensorflow": "2.19.0"}
FOUR = [0, 1, 2, 3]
STRAYED = run("stray", "Intel Xeon", repeat=2)
XEON = ("'stray'", "resnet50_nodes=1 r2 on Intel Xeon'", "'AMD EPYC 9B45, as 2 other runs'")
BOTH_MPI = [run(nodes=2, mpi="Open MPI 4.1.4"), run(nodes=3, mpi="MPICH 4.3.2")]
OTHER_CODE = launch(replace(make_record(nodes=2), source_digest="2" * 64), "p")


def program(nodes, **digests):
    run = make_program(nodes, 9.0)
    return launch(replace(run, program=replace(run.program, files=digests)), "p")


CASES = {
    "once": ("one_repeat", [run(), run(nodes=2), run(nodes=2, repeat=1)], ("note", None, "weak_scaling: 1 repeat")),
    "twice": ("one_repeat", [run(), run(repeat=1)], ()),
    "repeats 10 % apart": ("repeats_apart", [run(), run(step_s=0.55, repeat=1)], ("warning", 0.1)),
    "a pause of the machine": ("repeats_apart", [run(), run(step_s=1.5, repeat=1)], ("warning", 2.0)),
    "repeats 2 % apart": ("repeats_apart", [run(), run(step_s=0.51, repeat=1)], ()),
    "newer": ("unequal_software", [run(), run(nodes=2, versions=NEWER)], ("serious", None, "tensorflow: 2.18.1, 2")),
    "the same software": ("unequal_software", [run(), run(nodes=2)], ()),
    "no MPI on one rank": ("unequal_software", [run(), BOTH_MPI[0]], ()),  # one rank alone loads none
    "two MPI": ("unequal_software", [run(), *BOTH_MPI], ("serious", None, "MPI: MPICH 4.3.2, Open MPI 4.1, none")),
    "code": ("unequal_software", [run(), OTHER_CODE], ("warning", None, "digest of the code: 111111111111, 222")),
    "an edited program": (
        "unequal_software",
        [program(1, a="1" * 64), program(2, a="2" * 64)],
        ("warning", None, "file a"),
    ),
    "an input for each size": ("unequal_software", [program(1, a="1", b="1"), program(2, a="1", c="2")], ()),
    "more cores alone": ("unequal_cores", [run(cores=FOUR), run(nodes=4)], ("serious", None, "'1, 4 cores a rank")),
    "the same cores": ("unequal_cores", [run(), run(nodes=4)], ()),
    "a node that is divided": ("unequal_cores", [divided(1, FOUR), divided(4, [0])], ()),
    "another machine": ("unequal_machines", [run(), run(repeat=1), STRAYED], ("serious", None, *XEON)),
    "one machine": ("unequal_machines", [run(), run(model="vgg16")], ()),
    "further apart than rounds": ("launches_apart", in_rounds(LOW, HIGH), ("warning", 1.725 / 1.525 - 1, "'p0'")),
    "as their rounds": ("launches_apart", in_rounds(LOW, MIDDLE), ()),
    "six launches, so that the next is known": ("launches_apart", in_rounds(LOW, HIGH, LOW, LOW, LOW, HIGH), ()),
    "4 rounds": ("no_interval", in_rounds([1.6] * 2, [1.6] * 2), ("note", None, "'4 rounds'")),
    "6 rounds": ("no_interval", in_rounds([1.6] * 2, [1.6] * 4), ()),
    "a launch that drifts": ("no_interval", in_rounds(DRIFTING), ("note", None, "24 rounds of one launch")),
    "two that drift": ("no_interval", in_rounds(DRIFTING, DRIFTING), ()),
}


@pytest.mark.parametrize(("rule", "launches", "expected"), CASES.values(), ids=CASES)
def test_launches_of_an_experiment(rule, launches, expected):
    check(list(EXPERIMENT_RULES[rule](launches)), expected)


def test_rank_groups_that_divide_a_node_differently_are_not_compared():
    groups = [{"settings": {}, "first_rank": rank, "ranks": 1} for rank in (0, 1)]
    assert list(EXPERIMENT_RULES["unequal_cores"]([run(nodes=2, rank_groups=groups, cores=[0, 1])]))
    groups[1]["settings"] = {"threads_per_rank": 1}
    assert not list(EXPERIMENT_RULES["unequal_cores"]([run(nodes=2, rank_groups=groups, cores=[0, 1])]))


def test_a_rule_that_fires_for_many_runs_is_one_finding():
    runs = []
    for number, slow_s in enumerate((1.1, 1.2, 1.3)):
        runs.append((f"r{number}", make_record(steps=30)))
        runs[-1][1].ranks[0].step_times_s = [slow_s] * 3 + [1.0] * 27
    drift = [finding for finding in audit.run_findings(runs) if finding.rule == "warm_up_drift"]
    assert [finding.place for finding in drift] == ["r2, and 2 more runs"]


def test_a_drift_without_counters_is_a_note_where_three_launches_cover_it():
    drifting = [(1.0, 1.0 + 0.02 * number, 1.0) for number in range(12)]

    def severities(launches):
        runs = [(f"p{repeat}", make_rounds(drifting, repeat=repeat)) for repeat in range(launches)]
        return {finding.severity for finding in audit.run_findings(runs) if finding.rule == "arm_drift"}

    assert severities(1) == severities(2) == {"serious"}
    assert severities(3) == {"note"}
