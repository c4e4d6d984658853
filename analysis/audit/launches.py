"""A launch as the audit compares it with others, and the rules between the launches of an experiment."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from analysis import grouped, metrics
from analysis.audit import hosts
from analysis.audit.findings import EXPERIMENT_RULES, finding, graded, rule
from analysis.audit.records import ratios
from analysis.finding import Finding, Severity
from analysis.stats import Number, repeats
from analysis.stats.repeats import MIN_VALUES
from analysis.stats.verdict import apart
from analysis.thresholds import limit
from train.record.record import PlanPosition, RunRecord

_ENOUGH_LAUNCHES = 3  # of a curve, to estimate how much they differ
_DIVIDE = ("ranks_per_node", "threads_per_rank")  # keys that determine the cores of a rank


@dataclass(frozen=True)
class Launch:
    """A launch as rules compare it with others of its experiment: how it was made, and its result."""

    path: str
    experiment: str
    point: str
    config_hash: str
    machine: hosts.Machine
    software: tuple[tuple[str, str], ...]
    curve: tuple[tuple[str, str], ...]  # swept values except the nodes: launches in rounds and their points share them
    in_rounds: bool
    cores_per_rank: tuple[int, ...]
    divided: tuple[Any, ...]  # how its experiment divides the cores of a node here: swept values
    images_per_s: float
    measure: str
    repeat: int
    rounds: int  # the fewest of an arm
    speedups: dict[str, Number] = field(compare=False)  # of each arm in rounds, in this launch
    order: PlanPosition | None  # its position in the plan of the launcher, which makes one run after the other
    model: tuple[str, int]  # its name and the size of its images
    work: tuple[Any, ...]  # operations and gradient bytes; empty: not counted
    lacks: tuple[str, ...]  # what its record does not have, with the rules that need it
    batches: dict[str, int] = field(compare=False)  # of a rank, by the swept values of a point, and its arm


def launch(run: RunRecord, path: str) -> Launch:
    """Return a complete record as a `Launch`, which rules compare."""
    environment, measure, ratios_by_arm = run.environment, run.config["measure"], ratios(run)
    model = run.config.get("model") or {}
    medians = {name: repeats.median([values]) for name, values in ratios_by_arm.items()}
    software = dict(environment.versions) if environment else {}
    if environment:
        software |= {
            "git commit": environment.git_commit or "none",
            "image": environment.image_digest or environment.image or "none",
            "MPI": environment.mpi or "none",
            "NCCL": environment.nccl or "none",
            "digest of the code": run.source_digest or "none",
        }
    if run.program:
        software |= {f"{_FILE}{path}": digest for path, digest in run.program.files.items()}
    return Launch(
        path=path,
        experiment=run.experiment,
        point=run.point,
        config_hash=run.config_hash,
        machine=hosts.kinds(environment),
        software=tuple(sorted(software.items())),
        curve=tuple((key, str(value)) for key, value in run.swept.items() if key != "nodes"),
        in_rounds=bool(run.config.get("rounds")),
        cores_per_rank=_cores_per_rank(run),
        divided=tuple(run.config[key] for key in _DIVIDE if key in run.swept or key in run.arm_keys),
        images_per_s=throughput(run),
        measure=measure["name"],
        repeat=run.repeat,
        rounds=min(map(len, ratios_by_arm.values()), default=0),
        speedups={name: median for name, median in medians.items() if median.has_interval},
        order=run.order,
        model=(model.get("name", ""), model.get("image_size", 0)),
        work=(run.work.operations_per_image, run.work.gradient_bytes) if run.work else (),
        lacks=_lacks(run),
        batches=_batches(run),
    )


_LIMITS = "measured limits (beyond_limits)"


def _lacks(run: RunRecord) -> tuple[str, ...]:
    """Return what a record does not have, each with the rules that need it."""
    spans = [span for rank in run.ranks for span in (rank.timed_cores, *(w.cores for w in rank.windows)) if span]
    hosts_of_job = run.environment.hosts if run.environment else []
    has = {
        "the kernel's counters of cores (other_load, stolen_time)": bool(spans),
        "clocks of cores (clocks_fell)": any(span.frequency_mhz is not None for span in spans),
        "the state of hosts (slow_clocks)": bool(hosts_of_job) and all(host.state for host in hosts_of_job),
        _LIMITS: any(rank.matrix_products or rank.transfers for rank in run.ranks),
        "operations and gradients (unequal_models)": run.work is not None,
        "its order in a plan (one_plan)": run.order is not None,
    }
    return tuple(name for name, present in has.items() if not present)


def _cores_per_rank(run: RunRecord) -> tuple[int, ...]:
    """Return the numbers of cores that ranks have; none if rank groups of a launch divide a node differently."""
    if any(key in group["settings"] for group in run.config.get("rank_groups") or [] for key in _DIVIDE):
        return ()
    return tuple(sorted({len(rank.cores) // rank.workers for rank in run.ranks}))


def throughput(run: RunRecord) -> float:
    """Return the throughput of a launch of one point; 0 in rounds or without a batch, which have no such number."""
    if run.config.get("rounds") or not run.config.get("global_batch"):
        return 0.0
    timed_s = max(rank.phases_s["timed"] for rank in run.ranks)
    return metrics.throughput(run.config["global_batch"], len(run.ranks[0].step_times_s), timed_s)


def _batches(run: RunRecord) -> dict[str, int]:
    """Return the batch of a rank at each point of a launch, by its swept values, its arm and its role."""
    alone = {"swept": run.swept, "arm": run.arm, "role": run.role, "batch_per_rank": run.config.get("batch_per_rank")}
    batches: dict[str, set[int]] = defaultdict(set)
    for arm in run.config.get("rounds") or [alone]:
        if arm.get("swept") and arm["batch_per_rank"]:
            role = "point" if arm["role"] == "base" else arm["role"]
            swept = ", ".join(f"{key}={value}" for key, value in arm["swept"].items())
            batches[f"{swept}, {arm.get('arm') or role}"].add(arm["batch_per_rank"])
    return {point: min(values) for point, values in batches.items() if len(values) == 1}


@rule(EXPERIMENT_RULES)
def not_recorded(runs: list[Launch]) -> Iterator[Finding]:
    """Report what records lack, and the rules that could not run therefore. One finding an experiment."""
    counts = Counter(name for run in runs for name in run.lacks)
    if counts[_LIMITS] < len(runs):  # one launch measures them for the others
        del counts[_LIMITS]
    if counts:
        stated = "; ".join(f"{count} of {len(runs)}: {name}" for name, count in counts.items())
        meaning = "These rules say nothing of those launches."
        yield finding(runs[0].experiment, "note", stated, "all of it", None, meaning)


@rule(EXPERIMENT_RULES)
def one_repeat(runs: list[Launch]) -> Iterator[Finding]:
    """Report points measured once: it is not known how much the next run would differ. One finding an experiment.

    Curves in rounds are left out, for their rounds are repeats, and so are single points launched beside them.
    """
    single = [launches[0] for launches in grouped(_without_rounds(runs), _point).values() if len(launches) == 1]
    if single:
        path = single[0].path + (f", and {len(single) - 1} more points" if len(single) > 1 else "")
        grade: Severity = "warning" if any(run.measure == "report" for run in single) else "note"
        meaning = "No interval can be given, and no difference to it can be called one."
        yield finding(path, grade, f"{single[0].experiment}: 1 repeat", "2 or more, 5 for a report", None, meaning)


@rule(EXPERIMENT_RULES)
def repeats_apart(runs: list[Launch]) -> Iterator[Finding]:
    """Report repeats of one point that differ a lot: the noise floor of this machine, on its worst point.

    Curves in rounds are left out: their ratios are taken within a round, and have intervals.
    """
    spreads = [
        (metrics.change_fraction(min(speeds), max(speeds)), launches[0], len(launches))
        for launches in grouped(_without_rounds(runs), _point).values()
        if len(launches) > 1 and min(speeds := [run.images_per_s for run in launches]) > 0
    ]
    off, run, count = max(spreads, key=lambda spread: spread[0], default=(0.0, None, 0))
    if run and off > limit("same"):
        grade: Severity = "warning"  # each may be right: a pause of the machine makes one longer
        meaning = f"No difference below {off:.0%} means anything here. Is the machine otherwise idle?"
        yield finding(run.path, grade, f"{run.experiment}, {run.point}: {count} repeats", "one number", off, meaning)


@rule(EXPERIMENT_RULES)
def launches_apart(runs: list[Launch]) -> Iterator[Finding]:
    """Report launches of one curve in rounds whose speedups differ by more than their rounds explain.

    The 95 % intervals of two launches do not overlap, on the arm where they are furthest apart. From three launches on
    the interval of the curve covers it.
    """
    for launches in grouped([run for run in runs if run.in_rounds], _point).values():
        for name in dict.fromkeys(name for run in launches for name in run.speedups):
            medians = [(run.speedups[name], run) for run in launches if name in run.speedups]
            (low, slow), (high, _) = min(medians, key=lambda m: m[0].high), max(medians, key=lambda m: m[0].low)
            if apart(low, high) and len(medians) < MIN_VALUES:
                off = metrics.change_fraction(low.value, high.value)
                enough = len(medians) >= _ENOUGH_LAUNCHES
                grade = "note" if enough else graded(off, serious=limit("apart_serious"))
                stated, follows = f"{name}: {low.value:.3g}x in one launch", f"{high.value:.3g}x in another"
                meaning = (
                    "The interval of the curve covers it; that of the rounds of one launch does not."
                    if enough
                    else f"{len(medians)} launches hardly show what the next one gives: measure {_ENOUGH_LAUNCHES} "
                    "or more (measure.repeats)."
                )
                yield finding(slow.path, grade, stated, follows, off, meaning)


@rule(EXPERIMENT_RULES)
def few_rounds(runs: list[Launch]) -> Iterator[Finding]:
    """Report a curve whose launches together have so few rounds that no interval can be given."""
    for launches in grouped([run for run in runs if run.in_rounds], _point).values():
        rounds = sum(run.rounds for run in launches)
        if 0 < rounds < MIN_VALUES:
            grade: Severity = "warning" if launches[0].measure == "report" else "note"
            meaning = "No interval, and so no difference: give the curve a larger measure.budget_s."
            yield finding(launches[-1].path, grade, f"{rounds} rounds", f"{MIN_VALUES} or more", None, meaning)


@rule(EXPERIMENT_RULES)
def unequal_machines(runs: list[Launch]) -> Iterator[Finding]:
    """Report a point or curve some launches of which ran on other machines than the rest.

    The fewest are named: without them the others would have as many points and repeats as were planned.
    """
    for launches in grouped(runs, lambda run: run.curve).values():
        usual, *others = sorted(_by_machine(launches), key=len, reverse=True)
        for deviating in others:
            more = f", and {len(deviating) - 1} more runs" if len(deviating) > 1 else ""
            differences = hosts.differences(deviating[0].machine, usual[0].machine)
            own_parts, usual_parts = (
                ", ".join(parts) for parts in zip(*(each[1:] for each in differences), strict=True)
            )
            grade = hosts.worst(differences)
            stated = f"{deviating[0].point} r{deviating[0].repeat} on {own_parts}"
            follows = f"{usual_parts}, as {len(usual)} other runs"
            meaning = _MACHINE_MEANING[grade]
            yield finding(deviating[0].path + more, grade, stated, follows, None, meaning)


_MACHINE_MEANING: dict[Severity, str] = {
    "serious": "It is no repeat of the others and no point of their curve: measure it again where they ran.",
    "warning": "It may be no repeat of the others: measure it again where they ran, or as that was then.",
    "note": "Whether that matters is not known.",
}


def _by_machine(runs: list[Launch]) -> list[list[Launch]]:
    """Return launches grouped by machines between which nothing differs, in their order."""
    groups: list[list[Launch]] = []
    for run in runs:
        group = next((each for each in groups if hosts.alike(each[0].machine, run.machine)), None)
        if group is None:
            groups.append(group := [])
        group.append(run)
    return groups


# A commit may change files that no run uses, and the digest of train/ and conf/ changes with a comment.
_SOFTWARE: dict[str, Severity] = {"git commit": "note", "digest of the code": "warning"}
_LIBRARIES = ("MPI", "NCCL")  # which launches without Horovod do not load
_FILE = "file "  # of a user's program, of which each size may name others


def _software_severity(name: str, versions: list[str]) -> Severity:
    """Return how bad it is that these versions differ: a patch level of Python, or an unnamed image, changes little."""
    if name == "image":
        digests = [version.startswith("sha256:") for version in versions if version != "none"]
        if sum(digests) <= 1 and len(digests) - sum(digests) <= 1:  # one digest, one name: it may be one image
            return "note"
    if name == "python" and all(hosts.same_minor(versions[0], version) for version in versions):
        return "note"
    return _SOFTWARE.get(name, "warning" if name.startswith(_FILE) else "serious")


@rule(EXPERIMENT_RULES)
def unequal_software(runs: list[Launch]) -> Iterator[Finding]:
    """Report points of one experiment measured with different software: the software may be the difference."""
    for name in sorted({key for run in runs for key, _ in run.software}):
        versions = sorted({dict(run.software).get(name, "none") for run in runs})
        if len(versions) - ("none" in versions and (name in _LIBRARIES or name.startswith(_FILE))) > 1:
            stated = f"{name}: {', '.join(version[:12] for version in versions)}"
            grade = _software_severity(name, versions)
            meaning = (
                "Points measured with different versions are not points of one curve; measure them again with one."
                if grade != "note"
                else "Whether that matters is not known."
            )
            yield finding(runs[0].experiment, grade, stated, "one version", None, meaning)


@rule(EXPERIMENT_RULES)
def unequal_cores(runs: list[Launch]) -> Iterator[Finding]:
    """Report ranks whose number of cores differs between the points of one machine.

    Otherwise the smallest point has the whole machine to itself, and every speedup is wrong. Points that divide a node
    differently on purpose, because that is swept, are not compared with each other.
    """
    for launches in chain.from_iterable(
        _by_machine(group) for group in grouped(runs, lambda run: run.divided).values()
    ):
        cores = sorted({number for run in launches for number in run.cores_per_rank})
        if len(cores) > 1:
            stated = f"{', '.join(map(str, cores))} cores a rank"
            machine = " and ".join(kind.cpu_model for kind in launches[0].machine) or "an unknown machine"
            meaning = f"On {machine}: a speedup between them compares cores."
            yield finding(launches[0].experiment, "serious", stated, "one number", None, meaning)


def _point(run: Launch) -> tuple[str, str]:
    return run.point, run.config_hash


def _without_rounds(runs: list[Launch]) -> list[Launch]:
    curves = {run.curve for run in runs if run.in_rounds}
    return [run for run in runs if run.curve not in curves]
