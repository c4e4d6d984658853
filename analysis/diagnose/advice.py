"""What a large part of a step means, what to try first, and the command that tries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.diagnose.paired_windows import Curve
from analysis.diagnose.split import Part, Split
from analysis.diagnose.verdicts import SlowestRank

Command = Literal["larger batch", "again", "diagnose", "input-bench"]


@dataclass(frozen=True)
class Advice:
    """The advice on one part of a step."""

    meaning: str
    action: str
    command: Sequence[str] = ()


# By case: meaning, action, the command that takes it.
_ADVICE: dict[str, tuple[str, str, Command]] = {
    "slower": (
        "also without any exchange every rank computes more slowly than one node alone. What ranks of one machine "
        "share is short: memory bandwidth, cache, the clocks and power of the processor.",
        "a larger batch per rank, which reuses what it loads; on the nodes of a cluster fewer ranks with more threads "
        "each.",
        "larger batch",
    ),
    "shared": (
        "other processes ran on cores that ranks are bound to, and every rank waits for the one that lost most.",
        "find them on that host (`top`, column P: the core) and end them, or leave these cores to them; then measure "
        "again.",
        "again",
    ),
    "stolen": (
        "the hypervisor ran other machines on cores that ranks are bound to, and every rank waits for the one that "
        "lost most.",
        "a machine, or an instance type, with dedicated cores; then measure again.",
        "again",
    ),
    "waiting": (
        "an allreduce ends when the last rank has begun it, and from step to step that is another one: the machine "
        "disturbs all ranks alike.",
        "leave the operating system a core of each node that no rank computes on: one thread less a rank. More work a "
        "step also makes the disturbance smaller beside it.",
        "larger batch",
    ),
    "slow rank": (
        "an allreduce ends when the last rank has begun it. It is the same rank in round after round.",
        "leave out {host}, or look there for what holds up rank {rank}: heat and clocks, a failing disk or memory, a "
        "slower slot; then measure again.",
        "again",
    ),
    "exchange": (
        "each rank's gradients are ready, and the step waits until they are summed.",
        "fewer exchanges for as many images: a larger batch per rank. The share of the exchange halves with each "
        "doubling.",
        "larger batch",
    ),
    "slower_or_exchange": (
        "without an arm without allreduce, slower computing and exchange cannot be separated.",
        "measure that arm too.",
        "diagnose",
    ),
    "input": (
        "the step waits for its images, or decoding them takes the cores that compute.",
        "see which stage of the input is the slowest: decoding, resizing or augmentation. Smaller or already resized "
        "images, or more cores a rank, then help.",
        "input-bench",
    ),
}


def advice(curve: Curve, split: Split, part: Part, slowest: SlowestRank | None) -> Advice:
    """Return what to try first against a part of the step of a point."""
    case: str = part
    if slowest and part == "waiting" and slowest.certain:
        case = "slow rank"
    if slowest and part == "shared" and (slowest.stolen_fraction or 0) > (slowest.others_fraction or 0):
        case = "stolen"
    meaning, action, command = _ADVICE[case]
    if slowest:
        action = action.format(host=slowest.host, rank=slowest.rank)
    if part == "exchange":
        meaning += _hidden(split)
    return Advice(meaning, action, _command(command, curve, split))


def _hidden(split: Split) -> str:
    """Return how much of the exchange is hidden, where it was also measured by itself."""
    alone, hidden = split.exchange_alone, split.hidden
    if not alone:
        return ""
    if hidden and hidden.high < 0:
        return (
            " More is exposed than the exchange takes by itself: computing and exchange are in each other's way, as "
            "where Horovod's threads share cores with them."
        )
    alone_text = f" By itself the exchange takes {alone.value * 1e3:.0f} ms"
    if hidden and hidden.low > 0:
        return f"{alone_text}; {hidden.value * 1e3:.0f} ms are hidden."
    return f"{alone_text}: that any of it is hidden is not significant."


def _command(command: Command, curve: Curve, split: Split) -> list[str]:
    data = [f"MODELS={curve.model}"]
    data += ["DEVICE=gpu"] if curve.device == "gpu" else []
    data += [f"DATASET={curve.dataset}"] if curve.dataset != "synthetic" else []
    nodes = f"NODES={split.point.nodes}"
    return {
        "larger batch": ["make", curve.target, nodes, *data, f"ARGS=batch_per_rank={2 * split.point.batch_per_rank}"],
        "again": ["make", curve.target, nodes, *data, "FORCE=1"],
        "diagnose": ["make", "diagnose", nodes, *data],
        "input-bench": ["make", "input-bench", *data],
    }[command]
