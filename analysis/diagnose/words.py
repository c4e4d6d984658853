"""The diagnosis in words: a table of the parts of each point, and of the largest point what to try first."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from analysis import labels
from analysis.diagnose.advice import Advice, advice
from analysis.diagnose.job import Job
from analysis.diagnose.split import LOSSES, Part, Split
from analysis.diagnose.straggler import Straggler
from analysis.diagnose.turns import Curve
from analysis.diagnose.verdict import Verdict
from analysis.stats.number import Number
from analysis.stats.repeats import MIN_VALUES

WIDTH = 110
_FORM = ".3g"

NAMES: dict[Part, str] = {
    "alone": "computing, as one node alone does",
    "slower": "slower computing beside others",
    "shared": "cores shared with other processes",
    "waiting": "waiting for the slowest rank",
    "exchange": "exposed exchange",
    "slower_or_exchange": "slower computing or exchange",
    "input": "input",
    "rest": "barrier after the steps",
}

# What efficiency is left if one part took no time.
WITHOUT: dict[Part, str] = {
    "slower": "computing as fast as alone",
    "shared": "no core shared",
    "waiting": "no waiting",
    "exchange": "all exchange hidden",
    "slower_or_exchange": "neither of these",
    "input": "no time for input",
}


def milliseconds(value: Number) -> str:
    """A time in ms with its interval."""
    return value.over(1e-3).text(".0f" if abs(value.value) >= 0.1 else ".3g")


def report(curve: Curve, found: Sequence[Split], verdict: Verdict, late: Straggler | None) -> str:
    """The whole diagnosis of a curve: table and sentences."""
    what = ", ".join(part for part in (labels.name(curve.model), curve.series) if part)
    turns = sum(len(of) for of in found[-1].launches)
    how = f"{turns} rounds in {len(curve.launches)}" if curve.in_rounds else f"{turns} repeats of single"
    lines = [
        f"== {what} on {curve.machine}: {how} launch{'es' * (len(curve.launches) > 1 or not curve.in_rounds)}",
        "",
        table(found),
        "",
        *(textwrap.fill(sentence, WIDTH) for sentence in sentences(curve, found[-1], verdict, late)),
    ]
    return "\n".join(lines)


def table(found: Sequence[Split]) -> str:
    """The parts of the step of each point in ms, with their share; efficiency, and what bounds it."""
    rows: list[list[str]] = []
    parts = [part for part in NAMES if any(part in split.parts for split in found)]
    for part in parts:
        rows.append([NAMES[part], *(_part(split, part) for split in found)])
    rows.append(["measured step", *(milliseconds(split.measured) for split in found)])
    rows.append(["efficiency by throughput", *(split.efficiency.text(_FORM) for split in found)])
    for part in (part for part in parts if part in LOSSES):
        cells = [split.without(part).text(_FORM) if part in split.parts else "" for split in found]
        rows.append([f"efficiency, {WITHOUT[part]}", *cells])
    if any(split.exchange_alone for split in found):
        rows.append(["exchange by itself", *(_optional(split.exchange_alone) for split in found)])
        rows.append(["exchange hidden", *(_optional(split.hidden) for split in found)])
    heads = [
        f"{split.point.nodes} node{'s' * (split.point.nodes > 1)}, batch {split.point.batch_per_rank}"
        for split in found
    ]
    return tabulate(rows, headers=["[ms a step]", *heads], disable_numparse=True)


def _part(split: Split, part: Part) -> str:
    if part not in split.parts:
        return ""
    return f"{milliseconds(split.part(part))}, {100 * split.share(part).value:.0f} %"


def _optional(value: Number | None) -> str:
    return "" if value is None else milliseconds(value)


def sentences(curve: Curve, split: Split, verdict: Verdict, late: Straggler | None) -> Iterator[str]:
    """What the largest point shows, and what to do."""
    nodes = f"{split.point.nodes} node{'s' * (split.point.nodes > 1)}"
    if not verdict.enough:
        names = ", ".join(NAMES[part] for part in verdict.parts)
        yield (
            f"On {nodes}: fewer than {MIN_VALUES} rounds or repeats, so nothing is concluded. In the order "
            f"of their means: {names}. More rounds: the same command with ARGS=measure.budget_s=1200."
        )
    elif not verdict.parts:
        yield f"On {nodes} no part beside computing is surely more than nothing: there is nothing to win back."
    elif verdict.largest is None:
        names = " or ".join(NAMES[part] for part in verdict.parts)
        yield f"On {nodes} the largest loss is {names}: these rounds do not tell which. More rounds may."
    else:
        yield (
            f"On {nodes} the largest loss is {NAMES[verdict.largest]}: {milliseconds(split.part(verdict.largest))} ms "
            f"of a step of {milliseconds(split.measured)} ms."
        )
    for part in verdict.parts if verdict.enough else ():
        yield from _advice(advice(curve, split, part, late), split, part)
    if late and late.certain and "waiting" in split.parts:
        yield straggler(late)


def _advice(what: Advice, split: Split, part: Part) -> Iterator[str]:
    gain = split.without(part)
    yield f"{NAMES[part][0].upper()}{NAMES[part][1:]}: {what.means}"
    yield f"Try first: {what.do}" + (f" `{shlex.join(what.command)}`" if what.command else "")
    yield (
        f"What it could gain at most ({WITHOUT[part]}): a step of {milliseconds(split.left(part))} ms instead of "
        f"{milliseconds(split.measured)}, efficiency {gain.text(_FORM)} instead of {split.efficiency.text(_FORM)}."
    )


def straggler(late: Straggler) -> str:
    """Which rank is late, and what is known of why."""
    cores = f"core{'s' * (len(late.cores) > 1)} {', '.join(map(str, late.cores))}"
    said = (
        f"The slowest rank is rank {late.rank} on host {late.host}, {cores}: {milliseconds(late.behind)} ms behind the "
        "others."
    )
    if late.others_fraction is None or late.stolen_fraction is None:
        return said
    return (
        f"{said} Other processes took {100 * max(0.0, late.others_fraction):.0f} % of the time of its cores, the "
        f"hypervisor {100 * late.stolen_fraction:.0f} %."
    )


def job_table(found: Sequence[Job]) -> str:
    """Seconds of the parts of each job, and their share."""
    names = list(dict.fromkeys(name for job in found for name in job.parts))
    rows = [
        [labels.name(job.model), job.series, str(job.nodes), str(job.batch_per_rank), job.whole.text(_FORM)]
        + [_of_job(job, name) for name in names]
        for job in found
    ]
    heads = ["model", "series", "nodes", "batch\na rank", "job [s]", *(f"{name} [s]" for name in names)]
    if not any(job.series for job in found):
        heads, rows = [head for head in heads if head != "series"], [[row[0], *row[2:]] for row in rows]
    return tabulate(rows, headers=heads, disable_numparse=True)


def _of_job(job: Job, name: str) -> str:
    if name not in job.parts:
        return ""
    return f"{job.parts[name].text(_FORM)}, {100 * job.parts[name].value / job.whole.value:.0f} %"
