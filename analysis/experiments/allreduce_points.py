"""Allreduce alone: times and bandwidths over message sizes, and the rates of link and memory."""

from typing import Annotated, Literal

import pandas as pd

from analysis import labels, metrics
from analysis.documents import Document, NumberField, about, filled
from analysis.speedups import by_record
from analysis.stats import Number, repeats, significant
from common.terminal import text_table

_POINT = ["operations", "cycle_time_ms", "ranks", "series"]
HARDWARE_RATES = {
    "tcp_ring_bytes_per_s": "TCP ring",
    "tcp_stream_bytes_per_s": "TCP stream",
    "memory_copy_bytes_per_s": "copy",
}
_UNITS = ("B", "KiB", "MiB", "GiB")


class AllreducePoint(Document):
    """A message size at one point of a sweep over allreduces."""

    operations: Annotated[Literal["gloo", "mpi", "nccl"], about("what carried the allreduce")]
    cycle_time_ms: Annotated[float, about("of Horovod")]
    ranks: Annotated[int, about("of the job")]
    message_bytes: Annotated[int, about("of one rank")]
    launches: int
    allreduce_s: Annotated[NumberField, about("mean over rounds")]
    bus_bandwidth_bytes_per_s: Annotated[NumberField, about("harmonic mean over rounds")]


def size_label(message_bytes: float) -> str:
    """Return a message size with its unit: 1 KiB, 512 MiB."""
    power = min(int(message_bytes).bit_length() // 10, len(_UNITS) - 1)
    while power and message_bytes < 1 << 10 * power:
        power -= 1
    return f"{message_bytes / (1 << 10 * power):g} {_UNITS[power]}"


def rounds(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each round and message size: its identity, `time_s`, and `rate`, the bus bandwidth in bytes/s.

    time_s: the median over the timed allreduces, each as measured on its slowest rank.
    """
    rows = local[local["quantity"] == "allreduce_s"]
    size, ranks = rows["message_bytes"].astype(float), rows["ranks"].astype(float)
    return rows.assign(time_s=rows["value"], rate=metrics.bus_bandwidth(size, rows["value"], ranks))


def hardware_rates(local: pd.DataFrame) -> dict[str, Number]:
    """Return the measured rates of link and memory, in bytes/s, mean over runs, by quantity.

    `tcp_ring_bytes_per_s` is the rate at which the slowest rank received while all ranks sent to their next one.
    """
    values = local[local["quantity"].isin(HARDWARE_RATES)].groupby("quantity")["value"]
    rates = {str(quantity): repeats.arithmetic_mean(repeats.singles(group.tolist())) for quantity, group in values}
    return {quantity: rates[quantity] for quantity in HARDWARE_RATES if quantity in rates}


def answer(local: pd.DataFrame) -> list[AllreducePoint]:
    """Return each point and message size, ascending by size."""
    return [
        filled(
            AllreducePoint,
            at.iloc[0],
            launches=at["record"].nunique(),
            allreduce_s=time(at),
            bus_bandwidth_bytes_per_s=bandwidth(at),
        )
        for _, at in rounds(local).groupby([*_POINT, "message_bytes"])
    ]


def time(runs: pd.DataFrame) -> Number:
    """Return the mean time of an allreduce over rounds, in s."""
    return repeats.arithmetic_mean(by_record(runs, "time_s"))


def bandwidth(runs: pd.DataFrame) -> Number:
    """Return the harmonic mean of the bus bandwidth over rounds, in bytes/s."""
    return repeats.harmonic_mean(by_record(runs, "rate"))


def rows(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each point: the smallest message's time, the largest and best bus bandwidth, and the bounds.

    They have 95 % intervals over the rounds. `of the TCP ring`: the largest message's bus bandwidth over the ring's.
    """
    points = []
    runs = rounds(local)
    for (operations, cycle_ms, ranks, _), at in runs.groupby(_POINT):
        sizes = {int(str(size)): group for size, group in at.groupby("message_bytes")}
        best = max(sizes, key=lambda size: bandwidth(sizes[size]).value)
        small, large = sizes[min(sizes)], sizes[max(sizes)]
        row = {
            "backend": operations,
            "cycle\n[ms]": f"{cycle_ms:g}",
            "ranks": ranks,
            "series": " ".join(labels.distinctions(at, runs, "cycle_time_ms")),
            "rounds": len(at) // at["message_bytes"].nunique(),
            "launches": at["record"].nunique(),
            f"{size_label(min(sizes))}\n[ms]": time(small).over(1e-3).text(".3g"),
            f"{size_label(max(sizes))}\n[ms]": time(large).over(1e-3).text(".3g"),
            f"{size_label(max(sizes))}: bus\n[GB/s]": bandwidth(large).over(1e9).text(".3g"),
            "best bus\n[GB/s]": f"{bandwidth(sizes[best]).over(1e9).text('.3g')} at {size_label(best)}",
        }
        bounds = hardware_rates(local[local["record"].isin(at["record"])])
        row |= {f"{HARDWARE_RATES[name]}\n[GB/s]": f"{e.value / 1e9:.3g}" for name, e in bounds.items()}
        if ring := bounds.get("tcp_ring_bytes_per_s"):
            row["of the\nTCP ring"] = f"{bandwidth(large).value / ring.value:.0%}"
        notes = [*dict.fromkeys(note for note in at["note"] if note)]
        notes += ["shared cores"] if at["cores_shared"].any() else []
        points.append(row | {"note": "; ".join(notes)})
    table = pd.DataFrame(points).fillna("")
    return table[[column for column in table if not table[column].eq("").all()]]


def by_size(local: pd.DataFrame) -> str:
    """Return a text table: one row a message size, for each point its time in ms and its bus bandwidth in GB/s."""
    runs = rounds(local)
    cells: dict[str, dict[int, str]] = {}
    for (operations, cycle_ms, ranks, _), at in runs.groupby(_POINT):
        name = "\n".join(
            [f"{operations}, {cycle_ms:g} ms,", f"{ranks} ranks", *labels.distinctions(at, runs, "cycle_time_ms")]
        )
        cells[name] = {
            int(str(size)): f"{significant(time(at_size).value * 1e3, '.3g')} ms {bandwidth(at_size).value / 1e9:.2g}"
            for size, at_size in at.groupby("message_bytes")
        }
    table = pd.DataFrame(cells).sort_index().fillna("")
    table.insert(0, "message", [size_label(size) for size in table.index])
    return text_table(table, align="right")
