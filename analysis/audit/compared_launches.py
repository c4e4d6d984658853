"""A launch as the audit compares it with others, and the rules between the launches of an experiment."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from analysis import metrics
from analysis.audit import host_kinds
from analysis.audit.findings import EXPERIMENT_RULES, finding, graded, rule
from analysis.audit.records import timed_spans
from analysis.finding import Finding, Severity
from analysis.stats import Number, repeats, unknown
from analysis.stats.verdict import apart
from analysis.thresholds import limit
from common.grouping import grouped
from record import rounds
from record.record_summary import images_per_s
from record.schema import RunRecord

_ENOUGH_LAUNCHES = 3  # of a curve, to estimate how much they differ
_DIVIDE = ("ranks_per_node", "threads_per_rank")  # keys that determine the cores of a rank


@dataclass(frozen=True, eq=False)
class ComparedLaunch:
    """A launch as rules compare it with others of its experiment."""

    path: str
    record: RunRecord  # without its ranks, whose times have most of its size: what rules need of them is below
    machine: host_kinds.Machine
    cores_per_rank: tuple[int, ...]
    images_per_s: float
    speedups: dict[str, Number]  # of each arm in rounds over the base
    lacks: tuple[str, ...]  # what its record does not have, with the rules that need it

    @property
    def point(self) -> tuple[str, str]:
        """Return its point and the hash of its configuration, which repeats share."""
        return self.record.point, self.record.config_hash

    @property
    def curve(self) -> tuple[tuple[str, str], ...]:
        """Return its swept values except the nodes, which launches in rounds and their points share."""
        return tuple((key, str(value)) for key, value in self.record.swept.items() if key != "nodes")

    @property
    def in_rounds(self) -> bool:
        """Return whether it measured several arms, round by round."""
        return bool(self.record.config.get("rounds"))


def launch(run: RunRecord, path: str) -> ComparedLaunch:
    """Return a complete record as a `ComparedLaunch`, which rules compare."""
    # None if rank groups of a launch divide a node differently.
    divided = any(key in group["settings"] for group in run.config.get("rank_groups") or [] for key in _DIVIDE)
    cores = () if divided else tuple(sorted({len(rank.cores) // rank.workers for rank in run.ranks}))
    machine = host_kinds.kinds(run.environment, alike=len(cores) == 1)
    by_arm = rounds.speedups([run]) if run.config.get("rounds") else {}
    speedups = {name: repeats.shown(interval) for name, interval in by_arm.items()}
    return ComparedLaunch(path, replace(run, ranks=[]), machine, cores, throughput(run), speedups, _lacks(run))


_COUNTERS = "the kernel's counters of cores (other_load, stolen_time)"
_LIMITS = "measured limits (beyond_limits)"


def _lacks(run: RunRecord) -> tuple[str, ...]:
    """Return what a record does not have, each with the rules that need it; a user's program has no model."""
    spans = [span for rank in run.ranks for span in timed_spans(rank)]
    hosts_of_job = run.environment.hosts if run.environment else []
    has = {
        _COUNTERS: bool(spans),
        "clocks of cores (clocks_fell)": any(span.frequency_mhz is not None for span in spans),
        "the state of hosts (slow_clocks)": bool(hosts_of_job) and all(host.state for host in hosts_of_job),
        _LIMITS: bool(run.program) or any(rank.matrix_products or rank.transfers for rank in run.ranks),
        "operations and gradients (unequal_models)": run.program is not None or run.work is not None,
        "its order in a plan (one_plan)": run.order is not None,
    }
    return tuple(name for name, present in has.items() if not present)


def throughput(run: RunRecord) -> float:
    """Return the throughput of a launch of one point; 0 in rounds or without a batch, which have no such number."""
    if run.config.get("rounds") or not run.config.get("global_batch"):
        return 0.0
    return images_per_s(run)


@rule(EXPERIMENT_RULES)
def not_recorded(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report what records lack, and the rules that could not run therefore. One finding an experiment."""
    counts = Counter(name for run in runs for name in run.lacks)
    if counts[_LIMITS] < len(runs):  # one launch measures them for the others
        del counts[_LIMITS]
    if counts:
        stated = "; ".join(f"{count} of {len(runs)}: {name}" for name, count in counts.items())
        meaning = "These rules say nothing of those launches."
        yield finding(runs[0].record.experiment, "note", stated, "all of it", None, meaning)


@rule(EXPERIMENT_RULES)
def one_repeat(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report points measured once: it is not known how much the next run would differ. One finding an experiment.

    Curves in rounds are left out, for their rounds are repeats, and so are single points launched beside them.
    """
    if single := [launches[0] for launches in _repeats(runs) if len(launches) == 1]:
        path = single[0].path + (f", and {len(single) - 1} more points" if len(single) > 1 else "")
        stated = f"{single[0].record.experiment}: 1 repeat"
        meaning = "No interval can be given, and no difference to it can be called one."
        yield finding(path, _grade(single), stated, "2 or more, 5 for a report", None, meaning)


def _grade(runs: list[ComparedLaunch]) -> Severity:
    """Return how bad it is that too little was measured: a report needs more."""
    return "warning" if any(run.record.config["measure"]["name"] == "report" for run in runs) else "note"


@rule(EXPERIMENT_RULES)
def repeats_apart(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report repeats of one point that differ a lot: the noise floor of this machine, on its worst point.

    Curves in rounds are left out: their ratios are taken within a round, and have intervals. At most a warning: each
    may be right, as a pause of the machine makes one longer.
    """
    spreads = [
        (metrics.change_fraction(min(speeds), max(speeds)), launches)
        for launches in _repeats(runs)
        if len(launches) > 1 and min(speeds := [run.images_per_s for run in launches]) > 0
    ]
    off, launches = max(spreads, key=lambda spread: spread[0], default=(0.0, []))
    if off > limit("same"):
        record = launches[0].record
        stated = f"{record.experiment}, {record.point}: {len(launches)} repeats"
        meaning = f"No difference below {off:.0%} means anything here. Is the machine otherwise idle?"
        yield finding(launches[0].path, "warning", stated, "one number", off, meaning)


@rule(EXPERIMENT_RULES)
def launches_apart(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report launches of one curve in rounds whose speedups differ by more than their rounds explain.

    The 95 % intervals of two launches do not overlap, on the arm where they are furthest apart. From three launches on
    the interval of the curve covers it.
    """
    for launches in _curves_in_rounds(runs):
        for name in dict.fromkeys(name for run in launches for name in run.speedups):
            pairs = [(run.speedups[name], run) for run in launches if name in run.speedups]
            pairs = [(speedup, run) for speedup, run in pairs if speedup.has_interval]
            low, slow = min(pairs, key=lambda pair: pair[0].high, default=(unknown(), launches[0]))
            high = max((speedup for speedup, _ in pairs), key=lambda speedup: speedup.low, default=low)
            if not apart(low, high) or len(pairs) >= repeats.MIN_VALUES:
                continue
            off = metrics.change_fraction(low.value, high.value)
            grade, enough = graded(off, serious=limit("apart_serious")), f"measure {_ENOUGH_LAUNCHES} or more"
            meaning = f"{len(pairs)} launches hardly show what the next one gives: {enough} (measure.repeats)."
            if len(pairs) >= _ENOUGH_LAUNCHES:
                grade = "note"
                meaning = "The interval of the curve covers it; that of the rounds of one launch does not."
            stated, follows = f"{name}: {low.value:.3g}x in one launch", f"{high.value:.3g}x in another"
            yield finding(slow.path, grade, stated, follows, off, meaning)


def covered(runs: list[ComparedLaunch], drift: Finding) -> Finding:
    """Return the drift of an arm as a note if three launches show how they vary, and it has no counters of cores.

    Other findings are returned as they are.
    """
    curve = next((curve for curve in _curves_in_rounds(runs) for run in curve if run.path == drift.place), [])
    lacking = any(run.path == drift.place and _COUNTERS in run.lacks for run in curve)
    if drift.rule != "arm_drift" or len(curve) < _ENOUGH_LAUNCHES or not lacking:
        return drift
    return replace(drift, severity="note", meaning="The interval of the launches covers it; what drifted is not known.")


@rule(EXPERIMENT_RULES)
def no_interval(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report a curve without an interval: it has too few rounds in all launches, or those of its one launch drift."""
    for launches in _curves_in_rounds(runs):
        count = sum(min((speedup.n for speedup in run.speedups.values()), default=0) for run in launches)
        why = next((why for speedup in launches[0].speedups.values() if (why := speedup.no_interval)), "")
        if 0 < count < repeats.MIN_VALUES:
            stated, follows = f"{count} rounds", f"{repeats.MIN_VALUES} or more"
            meaning = "No interval, and so no difference: give the curve a larger measure.budget_s."
        elif why and len(launches) == 1:
            stated, follows, meaning = f"{count} rounds of one launch", "several launches", f"No interval: {why}."
        else:
            continue
        yield finding(launches[-1].path, _grade(launches[:1]), stated, follows, None, meaning)


@rule(EXPERIMENT_RULES)
def unequal_machines(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report a point or curve some launches of which ran on other machines than the rest.

    The fewest are named: without them the others would have as many points and repeats as were planned.
    """
    pairs = []
    for launches in grouped(runs, lambda run: run.curve).values():
        usual, *others = sorted(_by_machine(launches), key=len, reverse=True)
        pairs += [(deviating, usual, _machine_differences(deviating[0], usual[0])) for deviating in others]
    for alike in grouped(pairs, lambda pair: tuple(pair[2])).values():  # one finding a machine, not a curve
        deviating, usual, differences = alike[0]
        record, number = deviating[0].record, sum(len(runs) for runs, *_ in alike)
        more = f", and {number - 1} more runs" if number > 1 else ""
        grade = host_kinds.worst(differences)
        stated = f"{record.point} r{record.repeat} on {', '.join(each.one for each in differences)}"
        follows = f"{', '.join(each.other for each in differences)}, as {len(usual)} other runs"
        yield finding(deviating[0].path + more, grade, stated, follows, None, _MACHINE_MEANING[grade])


def _machine_differences(one: ComparedLaunch, other: ComparedLaunch) -> list[host_kinds.HostDifference]:
    """Return what differs between the machines of two launches."""
    alike = bool(one.cores_per_rank) and one.cores_per_rank == other.cores_per_rank
    return host_kinds.differences(one.machine, other.machine, alike)


_MACHINE_MEANING: dict[Severity, str] = {
    "serious": "It is no repeat of the others and no point of their curve: measure it again where they ran.",
    "warning": "It may be no repeat of the others: measure it again where they ran, or as that was then.",
    "note": "Whether that matters is not known.",
}


def _by_machine(runs: list[ComparedLaunch]) -> list[list[ComparedLaunch]]:
    """Return launches grouped by machines between which nothing differs, in their order."""
    groups: list[list[ComparedLaunch]] = []
    for run in runs:
        group = next((each for each in groups if not _machine_differences(each[0], run)), None)
        if group is None:
            groups.append(group := [])
        group.append(run)
    return groups


# A commit may change files that no run uses, and the digest of train/ and conf/ changes with a comment.
_SOFTWARE: dict[str, Severity] = {"git commit": "note", "digest of the code": "warning"}
_PATCHES_ALIKE = ("python", "numpy")  # a patch level changes no speed that a rule could name
_LIBRARIES = ("MPI", "NCCL")  # which launches without Horovod do not load
_FILE = "file "  # of a user's program, of which each size may name others


def _software(run: RunRecord) -> dict[str, str]:
    """Return the versions and digests of what ran, by name."""
    software = {f"{_FILE}{path}": digest for path, digest in run.program.files.items()} if run.program else {}
    if environment := run.environment:
        software |= {
            **environment.versions,
            "git commit": environment.git_commit or "none",
            "image": environment.image_digest or environment.image or "none",
            "MPI": environment.mpi or "none",
            "NCCL": environment.nccl or "none",
            "digest of the code": run.source_digest or "none",
        }
    return software


def _software_severity(name: str, versions: list[str]) -> Severity:
    """Return how bad it is that these versions differ: a patch level of Python, or an unnamed image, changes little."""
    if name == "image":
        digests = [version.startswith("sha256:") for version in versions if version != "none"]
        if sum(digests) <= 1 and len(digests) - sum(digests) <= 1:  # one digest, one name: it may be one image
            return "note"
    if name in _PATCHES_ALIKE and all(host_kinds.same_minor(versions[0], version) for version in versions):
        return "note"
    return _SOFTWARE.get(name, "warning" if name.startswith(_FILE) else "serious")


@rule(EXPERIMENT_RULES)
def unequal_software(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report points of one experiment measured with different software: the software may be the difference."""
    software = [_software(run.record) for run in runs]
    for name in sorted({name for versions in software for name in versions}):
        versions = sorted({each.get(name, "none") for each in software})
        may_lack = "none" in versions and (name in _LIBRARIES or name.startswith(_FILE))
        if len(versions) - may_lack > 1:
            stated = f"{name}: {', '.join(version[:12] for version in versions)}"
            grade = _software_severity(name, versions)
            meaning = (
                "Points measured with different versions are not points of one curve; measure them again with one."
            )
            meaning = _MACHINE_MEANING["note"] if grade == "note" else meaning
            yield finding(runs[0].record.experiment, grade, stated, "one version", None, meaning)


@rule(EXPERIMENT_RULES)
def unequal_cores(runs: list[ComparedLaunch]) -> Iterator[Finding]:
    """Report ranks whose number of cores differs between the points of one machine.

    Otherwise the smallest point has the whole machine to itself, and every speedup is wrong. Points that divide a node
    differently on purpose, because that is swept, are not compared with each other.
    """

    def division(run: ComparedLaunch) -> tuple[Any, ...]:
        """Return how its experiment divides the cores of a node in this launch: swept values."""
        return tuple(run.record.config[key] for key in _DIVIDE if key in run.record.swept or key in run.record.arm_keys)

    for launches in chain.from_iterable(map(_by_machine, grouped(runs, division).values())):
        cores = sorted({number for run in launches for number in run.cores_per_rank})
        if len(cores) > 1:
            stated = f"{', '.join(map(str, cores))} cores a rank"
            machine = " and ".join(kind.cpu_model for kind in launches[0].machine) or "an unknown machine"
            meaning = f"On {machine}: a speedup between them compares cores."
            yield finding(launches[0].record.experiment, "serious", stated, "one number", None, meaning)


def _repeats(runs: list[ComparedLaunch]) -> list[list[ComparedLaunch]]:
    """Return the launches of each point, without curves in rounds and the single points launched beside them."""
    curves = {run.curve for run in runs if run.in_rounds}
    return [*grouped([run for run in runs if run.curve not in curves], lambda run: run.point).values()]


def _curves_in_rounds(runs: list[ComparedLaunch]) -> list[list[ComparedLaunch]]:
    """Return the launches of each curve in rounds."""
    return [*grouped([run for run in runs if run.in_rounds], lambda run: run.point).values()]
