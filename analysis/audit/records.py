"""Rules over single run records: whether their numbers can be trusted.

Records whose numbers cannot be right do not reach these rules: the table leaves them out (`record_checks`).
"""

import statistics
from collections.abc import Iterator

from analysis import metrics
from analysis.audit import host_kinds
from analysis.audit.findings import RECORD_RULES, finding, graded, rule
from analysis.finding import Finding, Severity
from analysis.stats.repeats import MIN_VALUES
from analysis.thresholds import limit
from record import intervals, rounds
from record.parts import moves
from record.schema import CoreUse, Rank, RunRecord


def timed_spans(rank: Rank) -> list[CoreUse]:
    """Return the use of a rank's cores in each timed span, in the order of measurement."""
    spans = [rank.timed_cores, *(window.cores for window in rank.windows)]
    return [span for span in spans if span]


def _steps(run: RunRecord) -> Iterator[tuple[str, list[float]]]:
    """Yield a name and the timed steps of each rank, or in rounds of each rank and arm."""
    arms = run.config.get("rounds") or []
    for rank in run.ranks:
        if rank.step_times_s:
            yield f"rank {rank.rank}", rank.step_times_s
        for index, arm in enumerate(arms):
            yield f"rank {rank.rank}, {arm['name']}", _times(rank, index, "step_times_s")


def _times(rank: Rank, index: int, name: str) -> list[float]:
    """Return the times with this name of one rank, over all windows of one arm."""
    return [time_s for window in rank.windows if window.arm == index for time_s in getattr(window, name)]


@rule(RECORD_RULES)
def cores_shared(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report ranks that shared cores: they compete, so the run measures the scheduler, not how training scales.

    Also those that somebody moved to other cores while they were timed.
    """
    if run.cores_shared:
        meaning = "Not valid as a scaling result; figures draw this point hollow."
        stated = "; ".join(moves(run.ranks)) or f"{run.workers} ranks"
        yield finding(path, "serious", stated, "a core or more for each rank", None, meaning)


@rule(RECORD_RULES)
def dirty_tree(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a run from a changed working tree: it cannot be repeated from the commit that it names."""
    if run.environment and run.environment.git_dirty:
        commit = f"commit {(run.environment.git_commit or 'unknown')[:10]}"
        meaning = "The code that was run is not in that commit. Commit, then measure."
        yield finding(path, "warning", commit, "the tree had changes", None, meaning)


@rule(RECORD_RULES)
def unknown_commit(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report code whose commit is not known: its copy was neither a repository of the kit nor an archive of one."""
    if run.environment and run.environment.git_commit is None:
        stated = f"no commit; digest of the code {run.source_digest[:12] or 'not recorded either'}"
        meaning = "Measure in a clone of the kit, or in an archive that git or `make release` wrote."
        yield finding(path, "note", stated, "the commit of the code", None, meaning)


@rule(RECORD_RULES)
def unequal_hosts(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report ranks on hosts of different kinds: the slowest sets the pace of all, and the result describes none.

    Another patch level of the kernel, or another amount of memory, is a note.
    """
    alike = len({len(rank.cores) // rank.workers for rank in run.ranks}) == 1
    machine = host_kinds.kinds(run.environment, notes=True, alike=alike)
    differences = [each for kind in machine[1:] for each in host_kinds.differences(machine[:1], (kind,), alike)]
    if differences and run.environment:
        stated = f"{len(run.environment.hosts)} hosts of {len(machine)} kinds"
        pairs = "; ".join(dict.fromkeys(f"{each.one} and {each.other}" for each in differences))
        yield finding(path, host_kinds.worst(differences), stated, "hosts of one kind", None, pairs)


@rule(RECORD_RULES)
def warm_up_drift(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report first timed steps that are slower than the rest: the warm-up was too short, which the mean includes.

    It compares the median of the first tenth of the steps (three or more) with that of the others, on the rank where
    they differ most. A rank-sum test (Mann and Whitney, one-sided) excludes that the scatter of the steps explains it.
    In rounds an untimed step precedes each window, and `arm_drift` compares the windows.
    """
    findings = [drift for rank in run.ranks for drift in _drift(rank, path)]
    yield from sorted(findings, key=lambda drift: drift.off or 0)[-1:]


def _drift(rank: Rank, path: str) -> Iterator[Finding]:
    steps = rank.step_times_s
    if len(steps) >= limit("least_steps"):
        first = max(3, len(steps) // 10)
        early, late = statistics.median(steps[:first]), statistics.median(steps[first:])
        off = metrics.change_fraction(late, early)
        if off > limit("same"):
            from scipy.stats import mannwhitneyu  # it takes longer to import than most commands to run

            if mannwhitneyu(steps[:first], steps[first:], alternative="greater").pvalue < limit("drift_level"):
                grade = graded(off, warning=limit("same"), serious=limit("apart_serious"))
                stated = f"rank {rank.rank}: first {first} steps {early:.4g} s"
                meaning = "More warm-up steps are needed before the clock starts."
                yield finding(path, grade, stated, f"{late:.4g} s, as the others", off, meaning)


@rule(RECORD_RULES)
def arm_drift(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report an arm whose ratio to the base changed during the launch: the machine's drift did not cancel.

    Kendall's test finds that it rose or fell over the rounds, also by one jump in their middle; all arms share its
    level. Then the interval of the rounds of this launch, which takes them for repeats, is too narrow.
    """
    by_arm = rounds.over_base([run]) if run.config.get("rounds") else {}
    for name, rates in by_arm.items():
        values = [*intervals.paired(*rates).values()]
        if _trend_p(values) < limit("trend_level") / len(by_arm):
            early, late = (statistics.median(half) for half in (values[: len(values) // 2], values[len(values) // 2 :]))
            off = metrics.change_fraction(early, late)
            stated = f"{name}: ratio {early:.3g} in the first rounds"
            meaning = (
                "Something changed that not all arms felt alike. Measure another launch, on an otherwise idle machine."
            )
            yield finding(path, graded(off), stated, f"{late:.3g} in the last", off, meaning)


def _trend_p(values: list[float]) -> float:
    """Return the probability that values without a trend rise or fall as much (Kendall); 1 for few or equal values."""
    if len(values) < MIN_VALUES or len({*values}) == 1:
        return 1.0
    from scipy.stats import kendalltau  # as above

    return float(kendalltau(range(len(values)), values).pvalue)


@rule(RECORD_RULES)
def step_outliers(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report steps of more than twice the median: something else ran on the machine, or the input stalled.

    Their cost is the share of the timed window beyond that many median steps. Only the rank, in rounds also the arm, in
    which they cost most is named.
    """
    findings = [outlier for name, steps in _steps(run) for outlier in _outliers(name, steps, path)]
    yield from sorted(findings, key=lambda outlier: outlier.off or 0)[-1:]


def _outliers(name: str, steps: list[float], path: str) -> Iterator[Finding]:
    if len(steps) >= limit("least_steps"):
        median = statistics.median(steps)
        slow = [step for step in steps if step > limit("outlier") * median]
        if len(slow) > limit("outliers_share") * len(steps):
            cost = sum(step - median for step in slow) / sum(steps)
            stated = f"{name}: {len(slow)} of {len(steps)} steps above {limit('outlier') * median:.3g} s"
            meaning = f"They cost {cost:.1%} of the timed window; the longest took {max(slow):.3g} s."
            grade: Severity = "note" if graded(cost) == "note" else "warning"  # the steps were as slow as that
            yield finding(path, grade, stated, f"median {median:.3g} s", cost, meaning)


@rule(RECORD_RULES)
def straggler(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a rank that computes more slowly than the others: all wait for it at every exchange.

    The mean time until the local gradients are ready is compared with the median of the other ranks. A record without
    that time (a GPU, epochs) has its mean step, in which ranks differ only without allreduce.
    """
    last = len(run.config.get("rounds") or []) - 1  # in rounds this arm has all ranks
    means, names = [], ("compute_times_s", "step_times_s")
    for rank in run.ranks:
        computing, steps = (_times(rank, last, name) if last >= 0 else getattr(rank, name) for name in names)
        if times_s := computing or steps:
            means.append((statistics.fmean(times_s), rank))
    if len(means) > 1:
        mean_s, slowest = max(means, key=lambda mean: mean[0])
        others = statistics.median(mean for mean, rank in means if rank is not slowest)
        off = metrics.change_fraction(others, mean_s)
        if off > limit("graded_serious"):
            stated = f"rank {slowest.rank} on {slowest.host}: {mean_s:.4g} s a step"
            meaning = "Check what else runs on that host, and its cores."
            yield finding(path, "warning", stated, f"{others:.4g} s, as the other ranks", off, meaning)


@rule(RECORD_RULES)
def weights_differ(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report ranks that ended with different weights: they did not train one model, gradients were not exchanged."""
    if run.weights_differ and run.config["distribution"]["allreduce"]:
        meaning = "The allreduce did not work; no speed of this run is one of distributed training."
        yield finding(path, "serious", "one model", "weights differ between ranks", None, meaning)
