"""Curves in rounds on 1, 2, 4 and 8 nodes, with known efficiencies."""

from pathlib import Path

from tests.helpers.own_records import Arm, make_rounds, save

NODES = (1, 2, 4, 8)
_SCATTER = (0.0, 0.004, -0.003, 0.002, -0.004, 0.001, 0.003, -0.001, -0.002, 0.004, 0.0, -0.004)


def long_curve(results: Path, experiment: str, efficiencies, strong: bool = False, **more: object) -> None:
    """Save two launches of twelve rounds: a step takes 0.5 s on one node, and efficiencies scatter by 0.4 %.

    The batch is 32 a rank, in strong scaling 32 in all: 64 images/s on one node.
    """
    arms = [Arm(nodes, batch_per_rank=32 // nodes if strong else 32) for nodes in NODES]
    kept = {"derived": ("batch_per_rank", "threads_per_rank"), "global_batch": 32} if strong else {}
    for launch in range(2):
        rounds = []
        for number, off in enumerate(_SCATTER):
            alone = 0.5 * (1 + 0.01 * (number % 3))
            shares = [1.0, *(share * (1 + off) for share in efficiencies[1:])]
            rounds.append(
                [alone / (share * (nodes if strong else 1)) for nodes, share in zip(NODES, shares, strict=True)]
            )
        run = make_rounds(rounds, arms, repeat=launch, experiment=experiment, **kept, **more)
        save(run, results)
