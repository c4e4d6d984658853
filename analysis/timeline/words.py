"""A timeline in words: what a step of rank 0 took, the ranks beside each other, and how far their clocks are known."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from analysis import labels
from analysis.stats.repeats import median
from analysis.timeline.joined import Joined, OfRank
from analysis.timeline.split import EXCHANGE, PARTS, Steps, of_ranks, seen, timed_steps
from train.record import batch

WIDTH = 110

_APART = ("copy", "wire", "unmarked")  # parts of one operation: they do not overlap each other
_LIBRARY = {"gloo": "Gloo", "mpi": "MPI on CPUs"}
_SHOWN_RANKS = 16
_NONE = "none here"


def report(joined: Joined, steps: Steps) -> str:
    """The tables and sentences of one launch; steps: none where nobody knows their parts."""
    sections = [_title(joined)]
    if steps:
        sections += [_parts(steps), _ranks(joined)]
    sections.append("\n".join(textwrap.fill(sentence, WIDTH) for sentence in sentences(joined, steps)))
    return "\n\n".join(sections)


def _title(joined: Joined) -> str:
    config = joined.run.config
    exchange = config["distribution"]
    hosts = len({of.rank.host for of in joined.ranks})
    cycle = f", cycle {exchange['cycle_time_ms']:g} ms" if "cycle_time_ms" in exchange else ""
    where = f"{len(joined.ranks)} ranks on {hosts} host{'s' * (hosts > 1)}, batch {batch.of_step(config)}"
    how = f"{exchange['gradients']} gradients, {exchange['controller']}{cycle}"
    steps = len(timed_steps(joined.ranks[0]))
    return f"== {labels.name(config['model']['name'])}, {where}, {how}: {steps} timed steps"


def _ms(values: Sequence[float]) -> str:
    """The median in ms, with its interval where there are enough values for one."""
    number = median([values])
    if not number.has_interval:
        return _plain(number.value)
    return f"{_plain(number.value)} ({_plain(number.low)} to {_plain(number.high)})"


def _plain(time_s: float) -> str:
    return f"{1e3 * time_s:.0f}" if abs(time_s) >= 0.1 else f"{1e3 * time_s:.3g}"


def _parts(steps: Steps) -> str:
    rows = []
    for name, words in PARTS.items():
        if name in EXCHANGE and not seen(steps, name):
            rows.append([words, _NONE, ""])
            continue
        meanwhile = _ms([step[name].overlapped_s for step in steps]) if name in EXCHANGE else ""
        rows.append([words, _ms([step[name].time_s for step in steps]), meanwhile])
    return tabulate(rows, headers=["[ms a step of rank 0]", "median", "while it computed"], disable_numparse=True)


def _ranks(joined: Joined) -> str:
    """When each rank's gradients were ready, for those ranks that are last most often."""
    found = of_ranks(joined)
    if len(found) > _SHOWN_RANKS:
        found = sorted(found, key=lambda one: -statistics.median(one.behind_s))[:_SHOWN_RANKS]
    rows = [[f"{one.of.rank.rank} on {one.of.rank.host}", _ms(one.computing_s), _ms(one.behind_s)] for one in found]
    heads = ["rank", "computing [ms a step]", "ready after the first rank [ms]"]
    return tabulate(rows, headers=heads, disable_numparse=True)


def sentences(joined: Joined, steps: Steps) -> Iterator[str]:
    """What follows from the tables, and how the times are to be read."""
    if not steps:
        yield "A GPU computes, and tells nobody when gradients are ready: nothing is said of what overlapped."
    elif not any(seen(steps, name) for name in EXCHANGE):
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
    if not seen(steps, "queue") and exchange["controller"] in _LIBRARY:
        yield f"{_LIBRARY[exchange['controller']]} has no queue: Horovod's own thread does the exchange."
    if not seen(steps, "copy") and exchange["gradients"] == "flat":
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
