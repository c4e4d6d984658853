from dataclasses import replace

import pytest

from analysis.audit.findings import RECORD_RULES
from tests.helpers.rule_findings import check, record_findings
from tests.helpers.run_records import make_record, make_rounds, update_derived


def steps(*times, nodes=1):
    """A launch whose last rank took these times for its steps, in s."""
    run = make_record(nodes=nodes, steps=len(times))
    run.ranks[-1].step_times_s = list(times)
    return run


def in_environment(**fields):
    run = make_record()
    return replace(run, environment=replace(run.environment, **fields))


def computing(*times_s):
    """All steps are equally long; in each, the ranks compute for these times, in s."""
    run = make_record(nodes=len(times_s))
    for rank, computed_s in zip(run.ranks, times_s, strict=True):
        rank.compute_times_s = [computed_s] * 4
    return run


def in_rounds(ratios, drift=0.0):
    """Two nodes are as many times as fast as one, round by round, while the whole machine slows down by `drift`."""
    slower = [1 + drift * n for n in range(len(ratios))]
    return make_rounds([(0.5 * x, x / ratio, 0.55 * x) for x, ratio in zip(slower, ratios, strict=True)])


def slow_in_rounds():
    """On two nodes all steps take 2 s. On one, 4 of 24 do and are outliers: 4 x 1.5 of 20 x 0.5 + 4 x 2 s."""
    run = make_rounds([(0.5, 2.0, 1.9)] * 12)
    for window in run.ranks[0].windows[:6:3]:
        window.step_times_s = [2.0, 2.0]
    return run


def late_in_rounds():
    run = make_rounds([(0.5, 0.8, 0.55)] * 12)
    for window in run.ranks[1].windows:
        window.compute_times_s = [time_s * 1.5 for time_s in window.compute_times_s]
    return run


WITHOUT_ALLREDUCE = make_record(nodes=2, distribution={"backend": "horovod", "allreduce": False})
EARLY, LATE = [1.9, 1.92, 1.88, 1.91, 1.89, 1.9], [1.6, 1.62, 1.58, 1.61, 1.59, 1.6]
ALTERNATING = [ratio for pair in zip(EARLY, LATE, strict=True) for ratio in pair]
# A trend of 4 % over 10 rounds that scatter by 1 %: the halves overlap.
RISING = [1.60, 1.62, 1.61, 1.63, 1.62, 1.64, 1.63, 1.65, 1.66, 1.64]
NO_COMMIT = in_environment(git_commit=None, git_dirty=None)
CASES = {
    "shared cores": ("cores_shared", replace(make_record(nodes=2), cores_shared=True), ("serious", None)),
    "a dirty tree": ("dirty_tree", in_environment(git_dirty=True), ("warning", None, "'commit 0000000000'")),
    "no commit": ("unknown_commit", NO_COMMIT, ("note", None, "'no commit; digest of the code 111111111111'")),
    "a commit": ("unknown_commit", make_record(), ()),
    "slow first": ("warm_up_drift", steps(*[0.6] * 3, *[0.5] * 17, nodes=3), ("warning", 0.2, "rank 2: first 3 st")),
    "hardly slower first steps": ("warm_up_drift", steps(*[1.04] * 3, *[1.0] * 27), ()),
    "too few steps": ("warm_up_drift", steps(*[1.2] * 3, *[1.0] * 6), ()),
    # 2 of 20 steps take 3 s, 2.5 s more than the median: 5 of 15 s
    "outliers": ("step_outliers", steps(*[0.5] * 18, 3.0, 3.0, nodes=3), ("warning", 5 / 15, "rank 2: 2 of 20 steps")),
    "steps below twice the median": ("step_outliers", steps(*[1.0] * 18, 1.9, 1.9), ()),
    "outliers of an arm": ("step_outliers", slow_in_rounds(), ("warning", 6 / 18, "rank 0, nodes1-: 4 of 24 steps")),
    "a slow rank": ("straggler", steps(*[0.7] * 4, nodes=4), ("warning", 0.4, "rank 3 on host0")),
    # the median of the others is that of 0.20 and 0.22
    "long computing": ("straggler", computing(0.2, 0.45, 0.22), ("warning", 0.45 / 0.21 - 1, "rank 1 on host0")),
    "long computing in rounds": ("straggler", late_in_rounds(), ("warning", 0.5)),
    "two models": ("weights_differ", replace(make_record(nodes=2), weights_differ=True), ("serious", None)),
    "two models without allreduce": ("weights_differ", replace(WITHOUT_ALLREDUCE, weights_differ=True), ()),
    "a slower arm": ("arm_drift", in_rounds(EARLY + LATE), ("serious", 1.6 / 1.9 - 1, "ratio 1.9 in the first rounds")),
    "a scattering arm": ("arm_drift", in_rounds(ALTERNATING), ()),
    "a trend": ("arm_drift", in_rounds(RISING), ("note", 1.64 / 1.62 - 1)),
    "the whole machine": ("arm_drift", in_rounds(EARLY * 2, drift=0.1), ()),
}


@pytest.mark.parametrize(("rule", "run", "expected"), CASES.values(), ids=CASES)
def test_what_a_record_shows_about_itself(rule, run, expected):
    check(record_findings(rule, run), expected)


@pytest.mark.parametrize("name", sorted(RECORD_RULES))
def test_a_clean_record_gives_no_finding(name):
    assert not record_findings(name, make_record(nodes=2, ranks_per_node=2, steps=100))
    assert not record_findings(name, update_derived(make_rounds([(0.5, 0.8, 0.55)] * 12)))
