"""Allreduce alone: times and bandwidths over message sizes, from one's own tidy table."""

from __future__ import annotations

import pandas as pd
from tabulate import tabulate

from analysis import metrics, plots
from analysis.metrics import Estimate

_POINT = ["operations", "cycle_time_ms", "ranks", "series"]
LIMITS = {"tcp_ring_bytes_per_s": "TCP ring", "tcp_stream_bytes_per_s": "TCP stream", "memory_copy_bytes_per_s": "copy"}
_UNITS = ("B", "KiB", "MiB", "GiB")


def size_words(message_bytes: float) -> str:
    """A message size for people: 1 KiB, 512 MiB."""
    power = min(int(message_bytes).bit_length() // 10, len(_UNITS) - 1)
    while power and message_bytes < 1 << 10 * power:
        power -= 1
    return f"{message_bytes / (1 << 10 * power):g} {_UNITS[power]}"


def points(own: pd.DataFrame) -> pd.DataFrame:
    """One row a run and message size: the columns of its identity, `time_s`, and `rate`, the bus bandwidth in bytes/s.

    time_s: the median over the timed allreduces, each taken as its slowest rank saw it.
    """
    rows = own[own["quantity"] == "allreduce_s"]
    rate = [
        metrics.bus_bandwidth(size, time_s, ranks)
        for size, time_s, ranks in zip(rows["message_bytes"], rows["value"], rows["ranks"], strict=True)
    ]
    return rows.assign(time_s=rows["value"], rate=rate)


def limits(own: pd.DataFrame) -> dict[str, Estimate]:
    """What the link and the memory carried, in bytes/s, mean over runs, by quantity; what was not measured is left out.

    `tcp_ring_bytes_per_s` is what the slowest rank received while all ranks sent to their next one.
    """
    values = own[own["quantity"].isin(LIMITS)].groupby("quantity")["value"]
    found = {str(quantity): metrics.estimate(group.tolist()) for quantity, group in values}
    return {quantity: found[quantity] for quantity in LIMITS if quantity in found}


def _digits(value: float) -> str:
    """Three digits, without an exponent for what is large."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _words(values: pd.Series, unit: float) -> str:
    e = metrics.scaled(metrics.estimate(values.tolist()), 1 / unit)
    return f"{_digits(e.value)}" + ("" if e.n == 1 else f" ± {e.half_width:.2g}")


def rows(own: pd.DataFrame) -> pd.DataFrame:
    """One row a point: time of the smallest message, bus bandwidth of the largest and of the best one, and the limits.

    With 95 % intervals over n runs. `of the TCP ring`: the largest message's bus bandwidth over the ring's.
    """
    found = []
    runs = points(own)
    for (operations, cycle_ms, ranks, _), at in runs.groupby(_POINT):
        of_point = own[own["record"].isin(at["record"])]
        sizes = {int(str(size)): group for size, group in at.groupby("message_bytes")}
        best = max(sizes, key=lambda size: sizes[size]["rate"].mean())
        small, large = sizes[min(sizes)], sizes[max(sizes)]
        row = {
            "backend": operations,
            "cycle\n[ms]": f"{cycle_ms:g}",
            "ranks": ranks,
            "series": " ".join(plots.told_apart(at, runs, "cycle_time_ms")),
            "n": at["record"].nunique(),
            f"{size_words(min(sizes))}\n[ms]": _words(small["time_s"], 1e-3),
            f"{size_words(max(sizes))}\n[ms]": _words(large["time_s"], 1e-3),
            f"{size_words(max(sizes))}: bus\n[GB/s]": _words(large["rate"], 1e9),
            "best bus\n[GB/s]": f"{_words(sizes[best]['rate'], 1e9)} at {size_words(best)}",
        }
        limit = limits(of_point)
        row |= {f"{LIMITS[name]}\n[GB/s]": f"{e.value / 1e9:.3g}" for name, e in limit.items()}
        if ring := limit.get("tcp_ring_bytes_per_s"):
            row["of the\nTCP ring"] = f"{large['rate'].mean() / ring.value:.0%}"
        notes = [*dict.fromkeys(note for note in at["note"] if note)]
        notes += ["shared cores"] if at["cores_shared"].any() else []
        found.append(row | {"note": "; ".join(notes)})
    table = pd.DataFrame(found).fillna("")
    return table[[column for column in table if not table[column].eq("").all()]]


def by_size(own: pd.DataFrame) -> str:
    """A table for people: one row a message size, for each point its time in ms and its bus bandwidth in GB/s."""
    runs = points(own)
    cells: dict[str, dict[int, str]] = {}
    for (operations, cycle_ms, ranks, _), at in runs.groupby(_POINT):
        name = "\n".join(
            [f"{operations}, {cycle_ms:g} ms,", f"{ranks} ranks", *plots.told_apart(at, runs, "cycle_time_ms")]
        )
        cells[name] = {
            int(str(size)): f"{_digits(of['time_s'].mean() * 1e3)} ms {of['rate'].mean() / 1e9:.2g}"
            for size, of in at.groupby("message_bytes")
        }
    table = pd.DataFrame(cells).sort_index().fillna("")
    table.index = pd.Index([size_words(size) for size in table.index], name="message")
    return tabulate(table, headers="keys", disable_numparse=True, stralign="right")
