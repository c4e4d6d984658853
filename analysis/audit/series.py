"""Rules between the run records of an experiment: repeats, software, machines, and how records are read one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from analysis import metrics
from analysis.audit.finding import EXPERIMENT_RULES, RECORD_RULES, SEVERITIES, Finding, Severity, graded, rule
from analysis.audit.made import Made, made
from analysis.stats.repeats import MIN_VALUES
from analysis.stats.verdict import apart
from analysis.thresholds import limit
from train.record.record import RunRecord


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
    if worst and worst[0] > limit("spread"):
        yield Finding(
            "local", worst[1].path, "repeats_apart",
            graded(worst[0], warning=limit("spread"), serious=limit("apart_serious")),
            f"{worst[1].experiment}, {worst[1].point}: {worst[2]} repeats", "one number", worst[0],
            f"No difference below {worst[0]:.0%} means anything here. Is the machine otherwise idle?",
        )  # fmt: skip


# How much a difference means; of anything else it is serious. A commit may change what no run uses, the digest of
# train/ and conf/ only a comment in it.
_SOFTWARE: dict[str, Severity] = {"git commit": "note", "digest of the code": "warning"}


@rule(EXPERIMENT_RULES)
def launches_apart(runs: list[Made]) -> Iterator[Finding]:
    """Launches of one curve in rounds whose speedups differ by more than their rounds explain.

    The 95 % intervals of two launches do not overlap, on the arm where they are furthest apart. Fewer than six launches
    then say nothing of the next one.
    """
    for same in _by([run for run in runs if run.in_rounds], _point).values():
        for name in dict.fromkeys(name for run in same for name, _ in run.speedups):
            known = [(dict(run.speedups)[name], run) for run in same if name in dict(run.speedups)]
            (low, slow), (high, _) = min(known, key=lambda k: k[0].high), max(known, key=lambda k: k[0].low)
            if apart(low, high) and len(known) < MIN_VALUES:
                off = metrics.change_fraction(low.value, high.value)
                yield Finding(
                    "local", slow.path, "launches_apart", graded(off, serious=limit("apart_serious")),
                    f"{name}: {low.value:.3g}x in one launch", f"{high.value:.3g}x in another", off,
                    f"{len(known)} launches cannot tell what the next one gives: measure {MIN_VALUES} "
                    "(measure.launches).",
                )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_machines(runs: list[Made]) -> Iterator[Finding]:
    """A point, or a curve, of which some launches ran on other machines than the rest: they are series of their own.

    The fewest are named: without them the others would have as many points and repeats as were planned.
    """
    for same in _by(runs, lambda run: run.curve).values():
        machines = _by(same, lambda run: run.machine)
        if len(machines) > 1:
            (most, usual), *others = sorted(machines.items(), key=lambda item: -len(item[1]))
            for machine, strayed in others:
                more = f", and {len(strayed) - 1} more runs" if len(strayed) > 1 else ""
                yield Finding(
                    "local", strayed[0].path + more, "unequal_machines", "serious",
                    f"{strayed[0].point} r{strayed[0].repeat} on {machine or 'an unknown machine'}",
                    f"{most or 'an unknown machine'}, as {len(usual)} other runs", None,
                    "It is no repeat of the others and no point of their curve: measure it again where they ran.",
                )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_software(runs: list[Made]) -> Iterator[Finding]:
    """Points of one experiment measured with different software: the software may be the difference."""
    for name in sorted({key for run in runs for key, _ in run.software}):
        versions = sorted({dict(run.software).get(name, "none") for run in runs})
        if len(versions) > 1:
            yield Finding(
                "local", runs[0].experiment, "unequal_software", _SOFTWARE.get(name, "serious"),
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

    Records are taken one by one and not kept.
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
