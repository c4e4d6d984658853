"""Rules over local run records: what is needed to trust a number, beyond the number."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from analysis import metrics
from analysis.audit.finding import EXPERIMENT_RULES, RECORD_RULES, SEVERITIES, Finding, graded, rule
from train.record.record import Rank, RunRecord

DRIFT = 0.05  # of the first tenth of the timed steps over the median of the rest
OUTLIER = 2.0  # times the median
OUTLIERS_SHARE = 0.01  # of all timed steps
STRAGGLER = 0.10  # of a rank's mean computing time a step over that of the others
SPREAD = 0.05  # between the fastest and the slowest repeat
MIN_STEPS = 10  # to say anything about single steps


@dataclass(frozen=True)
class Made:
    """How one run was made, and its result: what the rules compare between the runs of an experiment."""

    path: str
    experiment: str
    point: str
    config_hash: str
    machine: str
    software: tuple[tuple[str, str], ...]
    curve: tuple[tuple[str, Any], ...]  # what is swept beside the nodes: launches in rounds and their points share it
    in_rounds: bool
    cores_per_rank: tuple[int, ...]
    divided: tuple[Any, ...]  # how its experiment divides the cores of a node here: swept values
    images_per_s: float
    measure: str


# Keys that say how many cores a rank has.
_DIVIDE = ("ranks_per_node", "threads_per_rank")


def made(run: RunRecord, path: str) -> Made:
    """What the rules that compare runs need of a complete record."""
    environment = run.environment
    software = dict(environment.versions) if environment else {}
    if environment:
        software |= {
            "git commit": environment.git_commit or "none",
            "image": environment.image_digest or environment.image or "none",
            "MPI": environment.mpi or "none",
            "NCCL": environment.nccl or "none",
        }
    hosts = environment.hosts if environment else []
    return Made(
        path,
        run.experiment,
        run.point,
        run.config_hash,
        "; ".join(
            sorted({f"{host.cpu_model}, {host.cores} cores, {', '.join(host.gpus) or 'no GPU'}" for host in hosts})
        ),
        tuple(sorted(software.items())),
        tuple((key, value) for key, value in run.swept.items() if key != "nodes"),
        bool(run.config.get("rounds")),
        tuple(sorted({len(rank.cores) for rank in run.ranks})),
        tuple(run.config[key] for key in _DIVIDE if key in run.swept or key in run.arm_keys),
        _images_per_s(run),
        run.config["measure"]["name"],
    )


def _images_per_s(run: RunRecord) -> float:
    """The throughput of a launch of one point; 0 for one in rounds, which has no such number."""
    if run.config.get("rounds"):
        return 0.0
    timed_s = max(rank.phases_s["timed"] for rank in run.ranks)
    return metrics.throughput(run.config["global_batch"], len(run.ranks[0].step_times_s), timed_s)


def _arm(rank: Rank, place: int) -> tuple[list[float], list[float]]:
    """The times of steps and of computing of one rank in all windows of one arm."""
    windows = [window for window in rank.windows if window.arm == place]
    steps, computing = ([getattr(w, name) for w in windows] for name in ("step_times_s", "compute_times_s"))
    return list(chain.from_iterable(steps)), list(chain.from_iterable(computing))


def _steps(run: RunRecord) -> list[list[float]]:
    """The timed steps of rank 0: of one point, or of each arm of a launch in rounds."""
    arms = range(len(run.config.get("rounds", [])))
    return [_arm(run.ranks[0], place)[0] for place in arms] or [run.ranks[0].step_times_s]


def _computing(run: RunRecord) -> dict[int, list[float]]:
    """The times that each rank computed, or else its steps; in rounds those of the last arm, of which all are part."""
    last = len(run.config.get("rounds", [])) - 1
    times = {
        rank.rank: _arm(rank, last) if last >= 0 else (rank.step_times_s, rank.compute_times_s) for rank in run.ranks
    }
    return {rank: computing or steps for rank, (steps, computing) in times.items() if computing or steps}


@rule(RECORD_RULES)
def cores_shared(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks that shared cores compete with each other: the run measures the scheduler, not how training scales."""
    if run.cores_shared:
        yield Finding(
            "local", path, "cores_shared", "serious", f"{len(run.ranks)} ranks", "a core or more for each rank", None,
            "No measurement of scaling; figures draw this point hollow.",
        )  # fmt: skip


@rule(RECORD_RULES)
def dirty_tree(run: RunRecord, path: str) -> Iterator[Finding]:
    """A run from a changed working tree cannot be repeated from the commit that it names."""
    environment = run.environment
    if environment and environment.git_dirty:
        yield Finding(
            "local", path, "dirty_tree", "warning", f"commit {(environment.git_commit or 'unknown')[:10]}",
            "the tree had changes", None, "The code that was run is not in that commit. Commit, then measure.",
        )  # fmt: skip


@rule(RECORD_RULES)
def unequal_hosts(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks on heterogeneous hosts: the slowest host sets the pace of all, and the number is of none of them."""
    hosts = run.environment.hosts if run.environment else []
    kinds = {
        f"{host.cpu_model}, {host.cores} cores, {host.memory_bytes >> 30} GiB, {', '.join(host.gpus) or 'no GPU'}, "
        f"kernel {host.kernel}"
        for host in hosts
    }
    if len(kinds) > 1:
        yield Finding(
            "local", path, "unequal_hosts", "serious", f"{len(hosts)} hosts of {len(kinds)} kinds",
            "hosts of one kind", None, "; ".join(sorted(kinds)),
        )  # fmt: skip


@rule(RECORD_RULES)
def warm_up_drift(run: RunRecord, path: str) -> Iterator[Finding]:
    """The first timed steps are slower than the rest: the warm-up was too short, which the mean includes.

    The median of the first tenth of the steps (three or more) against the median of the others. In rounds an untimed
    step goes before each window, and a drift is in all arms alike.
    """
    steps = run.ranks[0].step_times_s
    if len(steps) >= MIN_STEPS:
        first = max(3, len(steps) // 10)
        early, late = statistics.median(steps[:first]), statistics.median(steps[first:])
        off = metrics.change_fraction(late, early)
        if off > DRIFT:
            yield Finding(
                "local", path, "warm_up_drift", graded(off, warning=DRIFT, serious=0.25),
                f"first {first} steps {early:.4g} s", f"{late:.4g} s, as the others", off,
                "More warm-up steps are needed before the clock starts.",
            )  # fmt: skip


@rule(RECORD_RULES)
def step_outliers(run: RunRecord, path: str) -> Iterator[Finding]:
    """Steps that took more than twice the median, on rank 0: something else ran on the machine, or the input stalled.

    With their cost: the share of the timed window beyond that many median steps. Of a launch in rounds the arm in which
    they cost most.
    """
    found = [finding for steps in _steps(run) for finding in _outliers(steps, path)]
    yield from sorted(found, key=lambda finding: finding.off or 0)[-1:]


def _outliers(steps: list[float], path: str) -> Iterator[Finding]:
    if len(steps) >= MIN_STEPS:
        median = statistics.median(steps)
        slow = [step for step in steps if step > OUTLIER * median]
        if len(slow) > OUTLIERS_SHARE * len(steps):
            cost = sum(step - median for step in slow) / sum(steps)
            yield Finding(
                "local", path, "step_outliers", graded(cost),
                f"{len(slow)} of {len(steps)} steps above {OUTLIER * median:.3g} s", f"median {median:.3g} s", cost,
                f"They cost {cost:.1%} of the timed window; the longest took {max(slow):.3g} s.",
            )  # fmt: skip


@rule(RECORD_RULES)
def straggler(run: RunRecord, path: str) -> Iterator[Finding]:
    """A rank that computes more slowly than the others: all wait for it at every exchange.

    The mean time until the local gradients are ready, against the median of the other ranks; where the record has
    none (a GPU, epochs), the mean step, which tells ranks apart only without allreduce.
    """
    means = {rank: statistics.fmean(times) for rank, times in _computing(run).items()}
    if len(means) > 1:
        slowest = max(means, key=lambda rank: means[rank])
        others = statistics.median(mean for rank, mean in means.items() if rank != slowest)
        off = metrics.change_fraction(others, means[slowest])
        if off > STRAGGLER:
            host = next(rank.host for rank in run.ranks if rank.rank == slowest)
            yield Finding(
                "local", path, "straggler", "warning", f"rank {slowest} on {host}: {means[slowest]:.4g} s a step",
                f"{others:.4g} s, as the other ranks", off, "Check what else runs on that host, and its cores.",
            )  # fmt: skip


@rule(RECORD_RULES)
def weights_differ(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks that ended with different weights did not train one model: the gradients were not exchanged."""
    if run.weights_differ and run.config["distribution"]["allreduce"]:
        yield Finding(
            "local", path, "weights_differ", "serious", "one model", "weights differ between ranks", None,
            "The allreduce did not work; no speed of this run is one of distributed training.",
        )  # fmt: skip


@rule(EXPERIMENT_RULES)
def one_repeat(runs: list[Made]) -> Iterator[Finding]:
    """A point measured once: it is not known how much the next run would differ. One finding an experiment.

    Of a curve in rounds the rounds tell, and single points are launched for what a job costs once.
    """
    once = [same[0] for same in _by(_without_rounds(runs), _point).values() if len(same) == 1]
    if once:
        yield Finding(
            "local", once[0].path + (f", and {len(once) - 1} more points" if len(once) > 1 else ""), "one_repeat",
            "warning" if any(run.measure == "report" for run in once) else "note", f"{once[0].experiment}: 1 repeat",
            "2 or more, 5 for a report", None, "No interval can be given, and no difference to it can be called one.",
        )  # fmt: skip


@rule(EXPERIMENT_RULES)
def repeats_apart(runs: list[Made]) -> Iterator[Finding]:
    """Repeats of one point that differ a lot: the noise floor of this machine, on its worst point.

    Of a curve in rounds the intervals say what differences mean: its ratios are taken within a round.
    """
    apart = [
        (metrics.change_fraction(min(speeds), max(speeds)), same[0], len(same))
        for same in _by(_without_rounds(runs), _point).values()
        if len(same) > 1 and min(speeds := [run.images_per_s for run in same]) > 0
    ]
    worst = max(apart, key=lambda item: item[0], default=None)
    if worst and worst[0] > SPREAD:
        yield Finding(
            "local", worst[1].path, "repeats_apart", graded(worst[0], warning=SPREAD, serious=0.25),
            f"{worst[1].experiment}, {worst[1].point}: {worst[2]} repeats", "one number", worst[0],
            f"No difference below {worst[0]:.0%} means anything here. Is the machine otherwise idle?",
        )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_software(runs: list[Made]) -> Iterator[Finding]:
    """Points of one experiment measured with different software: the software may be the difference."""
    for name in sorted({key for run in runs for key, _ in run.software}):
        versions = sorted({dict(run.software).get(name, "none") for run in runs})
        if len(versions) > 1:
            yield Finding(
                "local", runs[0].experiment, "unequal_software", "note" if name == "git commit" else "serious",
                f"{name}: {', '.join(version[:12] for version in versions)}", "one version", None,
                "Points measured with different versions are not points of one curve; measure them again with one.",
            )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_cores(runs: list[Made]) -> Iterator[Finding]:
    """Ranks with other numbers of cores at other points of one machine: a node is the same machine at every point.

    Otherwise the smallest point has the whole machine to itself, and every speedup is wrong. Points that are to divide
    a node differently, because that is swept, are not compared with each other.
    """
    for (machine, _), same in _by(runs, lambda run: (run.machine, run.divided)).items():
        cores = sorted({number for run in same for number in run.cores_per_rank})
        if len(cores) > 1:
            yield Finding(
                "local", same[0].experiment, "unequal_cores", "serious", f"{', '.join(map(str, cores))} cores a rank",
                "one number", None, f"On {machine or 'an unknown machine'}: a speedup between them compares cores.",
            )  # fmt: skip


def _point(run: Made) -> tuple[str, str]:
    return run.point, run.config_hash


def _without_rounds(runs: list[Made]) -> list[Made]:
    """The launches of points that no launch measured in rounds."""
    curves = {run.curve for run in runs if run.in_rounds}
    return [run for run in runs if run.curve not in curves]


def _by(runs: list[Made], key: Callable[[Made], Any]) -> dict[Any, list[Made]]:
    groups: dict[Any, list[Made]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return groups


def audit(runs: Iterable[tuple[str, RunRecord]]) -> Iterator[Finding]:
    """What every rule finds in these records that count, given with their paths, and between them.

    Each record is read once and not kept: 10,000 of them need no more memory than a few.
    """
    all_made: dict[str, list[Made]] = defaultdict(list)
    found: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for path, run in runs:
        for name, check in RECORD_RULES.items():
            found[run.experiment, name] += check(run, path)
        all_made[run.experiment].append(made(run, path))
    yield from (_worst(same) for same in found.values() if same)
    for experiment in all_made.values():
        for compare in EXPERIMENT_RULES.values():
            yield from compare(experiment)


def _worst(same: list[Finding]) -> Finding:
    """Findings of one rule in one experiment as one: the worst, and how many more there are."""
    worst = min(same, key=lambda finding: (SEVERITIES.index(finding.severity), -abs(finding.off or 0)))
    return worst if len(same) == 1 else replace(worst, place=f"{worst.place}, and {len(same) - 1} more runs")
