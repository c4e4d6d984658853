"""A timeline in words: what a step of rank 0 took, the ranks beside each other, and how far their clocks are known."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from analysis import plots
from analysis.timeline.joined import Joined, OfRank
from analysis.timeline.split import PARTS, Part
from train.record import batch, intervals

WIDTH = 110

_OF_THE_EXCHANGE = ("negotiation", "late", "queue", "copy", "wire", "unmarked")
_APART = ("copy", "wire", "unmarked")  # parts of one operation: they do not overlap each other
_LIBRARY = {"gloo": "Gloo", "mpi": "MPI on CPUs"}
_SHOWN_RANKS = 16
_NONE = "none here"


Steps = Sequence[dict[str, Part]]  # the parts of each timed step, as `split.timed` gives them


def report(joined: Joined, steps: Steps) -> str:
    """The tables and sentences of one launch; steps: none where nobody knows their parts."""
    sections = [_title(joined)]
    if steps:
        sections += [_parts(steps), _ranks(joined)]
    sections.append("\n".join(textwrap.fill(sentence, WIDTH) for sentence in _sentences(joined, steps)))
    return "\n\n".join(sections)


def _title(joined: Joined) -> str:
    config = joined.run.config
    exchange = config["distribution"]
    hosts = len({of.rank.host for of in joined.ranks})
    cycle = f", cycle {exchange['cycle_time_ms']:g} ms" if "cycle_time_ms" in exchange else ""
    where = f"{len(joined.ranks)} ranks on {hosts} host{'s' * (hosts > 1)}, batch {batch.of_step(config)}"
    how = f"{exchange['gradients']} gradients, {exchange['controller']}{cycle}"
    steps = sum(step.phase == "timed" for step in joined.ranks[0].steps)
    return f"== {plots.name(config['model']['name'])}, {where}, {how}: {steps} timed steps"


def _ms(values: Sequence[float]) -> str:
    """The median in ms, with its interval where there are enough values for one."""
    found = intervals.of_median(values)
    if found is None:
        return _plain(statistics.median(values))
    return f"{_plain(found.value)} ({_plain(found.low)} to {_plain(found.high)})"


def _plain(time_s: float) -> str:
    return f"{1e3 * time_s:.0f}" if abs(time_s) >= 0.1 else f"{1e3 * time_s:.3g}"


def _seen(steps: Steps, name: str) -> bool:
    """Whether any step had this part."""
    return any(step[name].time_s for step in steps)


def _parts(steps: Steps) -> str:
    rows = []
    for name, words in PARTS.items():
        if name in _OF_THE_EXCHANGE and not _seen(steps, name):
            rows.append([words, _NONE, ""])
            continue
        meanwhile = _ms([step[name].overlapped_s for step in steps]) if name in _OF_THE_EXCHANGE else ""
        rows.append([words, _ms([step[name].time_s for step in steps]), meanwhile])
    return tabulate(rows, headers=["[ms a step of rank 0]", "median", "while it computed"], disable_numparse=True)


def _ranks(joined: Joined) -> str:
    """When each rank's gradients were ready, for those ranks that are last most often."""
    timed = [[step for step in of.steps if step.phase == "timed"] for of in joined.ranks]
    first = [min(step.computed_at or 0.0 for step in steps) for steps in zip(*timed, strict=True)]
    rows = []
    for of, steps in zip(joined.ranks, timed, strict=True):
        computing = [(step.computed_at or 0.0) - step.begun_at for step in steps]
        behind = [(step.computed_at or 0.0) - since for step, since in zip(steps, first, strict=True)]
        rows.append((statistics.median(behind), [f"{of.rank.rank} on {of.rank.host}", _ms(computing), _ms(behind)]))
    if len(rows) > _SHOWN_RANKS:
        rows = sorted(rows, key=lambda row: -row[0])[:_SHOWN_RANKS]
    heads = ["rank", "computing [ms a step]", "ready after the first rank [ms]"]
    return tabulate([cells for _, cells in rows], headers=heads, disable_numparse=True)


def _sentences(joined: Joined, steps: Steps) -> Iterator[str]:
    if not steps:
        yield "A GPU computes, and tells nobody when gradients are ready: nothing is said of what overlapped."
    elif not _seen(steps, "negotiation"):
        yield "Horovod exchanged nothing in these steps."
    else:
        yield from _of_exchange(joined, steps)
    yield _clocks(joined.ranks)
    yield (
        "Horovod is slower with its timeline: these times say what happens within a step, not how fast steps are. No "
        "other figure or table has them."
    )


def _of_exchange(joined: Joined, steps: Steps) -> Iterator[str]:
    took = [sum(step[name].time_s for name in _APART) for step in steps]
    beside = [sum(step[name].overlapped_s for name in _APART) for step in steps]
    share = statistics.median(beside) / statistics.median(took) if statistics.median(took) else 0.0
    yield f"Of {_ms(took)} ms of copies and wire a step, rank 0 computed during {_ms(beside)} ms: {100 * share:.0f} %."
    exchange = joined.run.config["distribution"]
    if not _seen(steps, "queue") and exchange["controller"] in _LIBRARY:
        yield f"{_LIBRARY[exchange['controller']]} has no queue: Horovod's own thread does the exchange."
    if not _seen(steps, "copy") and exchange["gradients"] == "flat":
        yield (
            "One flat tensor needs no fusion buffer, so no copy is marked: the copy of the tensor, and its division by "
            "the number of ranks, are in what is not marked."
        )


def _clocks(ranks: Sequence[OfRank]) -> str:
    """How far the places of the ranks on the common clock are known."""
    unknown = [str(of.rank.rank) for of in ranks if of.error_s is None]
    if unknown:
        return (
            f"How far the clocks of ranks {', '.join(unknown)} are from rank 0's could not be measured: they are "
            "placed by their own."
        )
    error_s = max(of.error_s or 0.0 for of in ranks)
    if error_s == 0:
        return "All ranks are on one host, and have one clock."
    return f"The clocks of the hosts are known to ± {1e3 * error_s:.2g} ms, by the quickest of 100 questions to rank 0."
