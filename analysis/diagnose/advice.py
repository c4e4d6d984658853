"""What a large part of a step means, what to try first, and the command that tries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.diagnose.split import Part, Split
from analysis.diagnose.straggler import Straggler
from analysis.diagnose.turns import Curve


@dataclass(frozen=True)
class Advice:
    """Words on one part."""

    means: str
    do: str
    command: Sequence[str] = ()


def advice(curve: Curve, split: Split, part: Part, late: Straggler | None) -> Advice:
    """What to try first against a part of the step of a point."""
    given = [curve.target, f"NODES={split.point.nodes}", f"MODELS={curve.model}"]
    given += ["DEVICE=gpu"] if curve.device == "gpu" else []
    given += [f"DATASET={curve.dataset}"] if curve.dataset != "synthetic" else []
    return {
        "slower": _slower,
        "shared": _shared,
        "waiting": _waiting,
        "exchange": _exchange,
        "slower_or_exchange": _untold,
        "input": _input,
    }[part](split, given, late)


def _larger_batch(split: Split, given: Sequence[str]) -> list[str]:
    """The same with twice the batch per rank."""
    return ["make", *given, f"ARGS=batch_per_rank={2 * split.point.batch_per_rank}"]


def _slower(split: Split, given: Sequence[str], late: Straggler | None) -> Advice:
    return Advice(
        "also without any exchange every rank computes more slowly than one node alone. What ranks of one machine "
        "share is short: memory bandwidth, cache, the clocks and power of the processor.",
        "a larger batch per rank, which reuses what it loads; on the nodes of a cluster fewer ranks with more threads "
        "each.",
        _larger_batch(split, given),
    )


def _shared(split: Split, given: Sequence[str], late: Straggler | None) -> Advice:
    if late and late.others_fraction is not None and (late.stolen_fraction or 0) > late.others_fraction:
        return Advice(
            "the hypervisor ran other machines on cores that ranks are bound to, and every rank waits for the one that "
            "lost most.",
            "a machine, or an instance type, with cores of its own; then measure again.",
            ["make", *given, "FORCE=1"],
        )
    return Advice(
        "other processes ran on cores that ranks are bound to, and every rank waits for the one that lost most.",
        "find them on that host (`top`, column P: the core) and end them, or leave these cores to them; then measure "
        "again.",
        ["make", *given, "FORCE=1"],
    )


def _waiting(split: Split, given: Sequence[str], late: Straggler | None) -> Advice:
    if late and late.certain:
        return Advice(
            "an allreduce ends when the last rank has begun it. It is the same rank in turn after turn.",
            f"leave out {late.host}, or look there for what holds up rank {late.rank}: heat and clocks, a failing disk "
            "or memory, a slower slot; then measure again.",
            ["make", *given, "FORCE=1"],
        )
    return Advice(
        "an allreduce ends when the last rank has begun it, and from step to step that is another one: the machine "
        "disturbs all ranks alike.",
        "leave the operating system a core of each node that no rank computes on: one thread less a rank. More work a "
        "step also makes the disturbance smaller beside it.",
        _larger_batch(split, given),
    )


def _exchange(split: Split, given: Sequence[str], late: Straggler | None) -> Advice:
    alone, hidden = split.exchange_alone, split.hidden
    more = ""
    if alone and hidden and hidden.high < 0:
        more = (
            " More is exposed than the exchange takes by itself: computing and exchange are in each other's way, as "
            "where Horovod's threads have no core of their own."
        )
    elif alone and hidden and hidden.low > 0:
        more = f" By itself the exchange takes {alone.value * 1e3:.0f} ms; {hidden.value * 1e3:.0f} ms are hidden."
    elif alone:
        more = f" By itself the exchange takes {alone.value * 1e3:.0f} ms: none of it is surely hidden."
    return Advice(
        "each rank's gradients are ready, and the step waits until they are summed." + more,
        "fewer exchanges for as many images: a larger batch per rank. The share of the exchange halves with each "
        "doubling.",
        _larger_batch(split, given),
    )


def _untold(split: Split, given: Sequence[str], late: Straggler | None) -> Advice:
    return Advice(
        "without an arm without allreduce, slower computing and exchange cannot be told apart.",
        "measure that arm too.",
        ["make", "diagnose", *given[1:]],
    )


def _input(split: Split, given: Sequence[str], late: Straggler | None) -> Advice:
    bench = [word for word in given[1:] if not word.startswith("NODES=")]
    return Advice(
        "the step waits for its images, or decoding them takes the cores that compute.",
        "see which stage of the input is the slowest: decoding, resizing or augmentation. Smaller or already resized "
        "images, or more cores a rank, then help.",
        ["make", "input-bench", *bench],
    )
