"""Rules over one's own run records: what is needed to trust a number, beyond the number."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from analysis.audit.finding import EXPERIMENT_RULES, RECORD_RULES, SEVERITIES, Finding, graded, rule
from train.record.record import RunRecord

DRIFT = 0.05  # of the first tenth of the timed steps over the median of the rest
OUTLIER = 2.0  # times the median
OUTLIERS_SHARE = 0.01  # of all timed steps
STRAGGLER = 0.10  # of a rank's mean computing time a step over that of the others
SPREAD = 0.05  # between the fastest and the slowest repeat
LEAST_STEPS = 10  # to say anything about single steps


@dataclass(frozen=True)
class Made:
    """How one run was made, and what it came to: what the rules compare between the runs of an experiment."""

    path: str
    experiment: str
    point: str
    config_hash: str
    machine: str
    software: tuple[tuple[str, str], ...]
    cores_per_rank: tuple[int, ...]
    images_per_s: float
    measure: str


def made(run: RunRecord, path: str) -> Made:
    """What the comparing rules need of a complete record."""
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
        tuple(sorted({len(rank.cores) for rank in run.ranks})),
        run.config["global_batch"] * len(run.ranks[0].step_times_s) / max(rank.phases_s["timed"] for rank in run.ranks),
        run.config["measure"]["name"],
    )


def _finding(
    path: str, name: str, severity: str, stated: str, follows: str, off: float | None, meaning: str
) -> Finding:
    return Finding("own", path, name, severity, stated, follows, off, meaning)  # type: ignore[arg-type]


@rule(RECORD_RULES)
def cores_shared(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks that shared cores compete with each other: what is measured is the scheduler, not how training scales."""
    if run.cores_shared:
        yield _finding(
            path, "cores_shared", "serious", f"{len(run.ranks)} ranks", "a core or more for each rank", None,
            "No measurement of scaling; figures draw this point hollow.",
        )  # fmt: skip


@rule(RECORD_RULES)
def dirty_tree(run: RunRecord, path: str) -> Iterator[Finding]:
    """A run from a changed working tree cannot be made again from the commit that it names."""
    environment = run.environment
    if environment and environment.git_dirty:
        yield _finding(
            path, "dirty_tree", "warning", f"commit {(environment.git_commit or 'unknown')[:10]}",
            "the tree had changes", None, "The code that made this number is not in that commit. Commit, then measure.",
        )  # fmt: skip


@rule(RECORD_RULES)
def unequal_hosts(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks on unequal hosts: the slowest host sets the pace of all, and the number is of none of them."""
    hosts = run.environment.hosts if run.environment else []
    kinds = {
        f"{host.cpu_model}, {host.cores} cores, {host.memory_bytes >> 30} GiB, {', '.join(host.gpus) or 'no GPU'}, "
        f"kernel {host.kernel}"
        for host in hosts
    }
    if len(kinds) > 1:
        yield _finding(
            path, "unequal_hosts", "serious", f"{len(hosts)} hosts of {len(kinds)} kinds", "hosts of one kind", None,
            "; ".join(sorted(kinds)),
        )  # fmt: skip


@rule(RECORD_RULES)
def warm_up_drift(run: RunRecord, path: str) -> Iterator[Finding]:
    """The first timed steps are slower than the rest: the warm-up was too short, and the mean carries what it left.

    The median of the first tenth of the steps (three or more) against the median of the others.
    """
    steps = run.ranks[0].step_times_s
    if len(steps) >= LEAST_STEPS:
        first = max(3, len(steps) // 10)
        early, late = statistics.median(steps[:first]), statistics.median(steps[first:])
        off = early / late - 1
        if off > DRIFT:
            yield _finding(
                path, "warm_up_drift", graded(off, warning=DRIFT, serious=0.25), f"first {first} steps {early:.4g} s",
                f"{late:.4g} s, as the others", off, "More warm-up steps are needed before the clock starts.",
            )  # fmt: skip


@rule(RECORD_RULES)
def step_outliers(run: RunRecord, path: str) -> Iterator[Finding]:
    """Steps that took more than twice the median, on rank 0: something else ran on the machine, or the input stalled.

    With what they cost: the share of the timed window beyond that many median steps.
    """
    steps = run.ranks[0].step_times_s
    if len(steps) >= LEAST_STEPS:
        median = statistics.median(steps)
        slow = [step for step in steps if step > OUTLIER * median]
        if len(slow) > OUTLIERS_SHARE * len(steps):
            cost = sum(step - median for step in slow) / sum(steps)
            yield _finding(
                path, "step_outliers", graded(cost),
                f"{len(slow)} of {len(steps)} steps above {OUTLIER * median:.3g} s", f"median {median:.3g} s", cost,
                f"They cost {cost:.1%} of the timed window; the longest took {max(slow):.3g} s.",
            )  # fmt: skip


@rule(RECORD_RULES)
def straggler(run: RunRecord, path: str) -> Iterator[Finding]:
    """A rank that computes more slowly than the others: all wait for it at every exchange.

    The mean time until a rank's own gradients are there, against the median of the other ranks; where the record has
    none (a GPU, epochs), the mean step, which tells ranks apart only without allreduce.
    """
    means = {
        rank.rank: statistics.fmean(times) for rank in run.ranks if (times := rank.compute_times_s or rank.step_times_s)
    }
    if len(means) > 1:
        slowest = max(means, key=lambda rank: means[rank])
        others = statistics.median(mean for rank, mean in means.items() if rank != slowest)
        off = means[slowest] / others - 1
        if off > STRAGGLER:
            host = next(rank.host for rank in run.ranks if rank.rank == slowest)
            yield _finding(
                path, "straggler", "warning", f"rank {slowest} on {host}: {means[slowest]:.4g} s a step",
                f"{others:.4g} s, as the other ranks", off, "Look at what else runs on that host, and at its cores.",
            )  # fmt: skip


@rule(RECORD_RULES)
def weights_differ(run: RunRecord, path: str) -> Iterator[Finding]:
    """Ranks that ended with different weights did not train one model: the gradients were not exchanged."""
    if run.weights_differ and run.config["distribution"]["allreduce"]:
        yield _finding(
            path, "weights_differ", "serious", "one model", "weights differ between ranks", None,
            "The allreduce did not do its work; no speed of this run is one of distributed training.",
        )  # fmt: skip


@rule(EXPERIMENT_RULES)
def one_repeat(runs: list[Made]) -> Iterator[Finding]:
    """A point measured once: nothing says how far the next run would be off. One finding an experiment."""
    once = [same[0] for same in _by(runs, lambda run: (run.point, run.config_hash)).values() if len(same) == 1]
    if once:
        yield _finding(
            once[0].path + (f", and {len(once) - 1} more points" if len(once) > 1 else ""), "one_repeat",
            "warning" if any(run.measure == "report" for run in once) else "note", f"{once[0].experiment}: 1 repeat",
            "2 or more, 5 for a report", None, "No interval can be given, and no difference to it can be called one.",
        )  # fmt: skip


@rule(EXPERIMENT_RULES)
def repeats_apart(runs: list[Made]) -> Iterator[Finding]:
    """Repeats of one point that lie far apart: the noise floor of this machine, seen on its worst point."""
    apart = [
        (max(speeds) / min(speeds) - 1, same[0], len(same))
        for same in _by(runs, lambda run: (run.point, run.config_hash)).values()
        if len(same) > 1 and min(speeds := [run.images_per_s for run in same]) > 0
    ]
    worst = max(apart, key=lambda item: item[0], default=None)
    if worst and worst[0] > SPREAD:
        yield _finding(
            worst[1].path, "repeats_apart", graded(worst[0], warning=SPREAD, serious=0.25),
            f"{worst[1].experiment}, {worst[1].point}: {worst[2]} repeats", "one number", worst[0],
            f"No difference below {worst[0]:.0%} means anything here. Is the machine otherwise idle?",
        )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_software(runs: list[Made]) -> Iterator[Finding]:
    """Points of one experiment made with different software: their difference may be that of the software."""
    for name in sorted({key for run in runs for key, _ in run.software}):
        versions = sorted({dict(run.software).get(name, "none") for run in runs})
        if len(versions) > 1:
            yield _finding(
                runs[0].experiment, "unequal_software", "note" if name == "git commit" else "serious",
                f"{name}: {', '.join(version[:12] for version in versions)}", "one version", None,
                "Points made with different versions are not points of one curve; measure them again with one.",
            )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_cores(runs: list[Made]) -> Iterator[Finding]:
    """Ranks with other numbers of cores at other points of one machine: a node is the same machine at every point.

    Else the smallest point, with the whole machine to itself, makes every speedup a lie.
    """
    if runs[0].experiment == "ranks_threads":
        return  # what it varies
    for machine, same in _by(runs, lambda run: run.machine).items():
        cores = sorted({number for run in same for number in run.cores_per_rank})
        if len(cores) > 1:
            yield _finding(
                same[0].experiment, "unequal_cores", "serious", f"{', '.join(map(str, cores))} cores a rank",
                "one number", None, f"On {machine or 'an unknown machine'}: a speedup between them compares cores.",
            )  # fmt: skip


def _by(runs: list[Made], key: Callable[[Made], object]) -> dict[object, list[Made]]:
    groups: dict[object, list[Made]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return groups


def audit(runs: Iterable[tuple[str, RunRecord]]) -> Iterator[Finding]:
    """What every rule finds in these complete records, given with their paths, and between them.

    Each record is looked at once and let go: 10,000 of them need no more memory than a few.
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
