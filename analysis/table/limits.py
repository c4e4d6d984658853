"""What limited the throughput of a launch, or of an arm of one in rounds, as its record measured it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis import metrics
from train.record import rounds
from train.record.record import Rank, RunRecord

COMPUTE, LINK = "compute_limit_images_per_s", "link_limit_images_per_s"
_COMPRESSED = {"none": 1.0, "fp16": 0.5}  # share of the bytes of fp32


def of(run: RunRecord, place: int | None = None) -> dict[str, float]:
    """The limits that are known, in images/s of the whole job, by quantity.

    COMPUTE: all ranks together, each as fast as in its fastest product of matrices. LINK: of the slowest link between
    neighbours in a ring of the ranks; only where gradients are exchanged over TCP, by Gloo.

    place: of an arm, in a launch in rounds.
    """
    if run.work is None:
        return {}
    config = run.config if place is None else rounds.config_of(run.config, place)
    ranks = run.ranks if place is None else [run.ranks[rank] for rank in rounds.ranks_of(run.config, place)]
    arm = None if place is None else _measured_at(run.config, place)
    found = {}
    if run.work.operations_per_image and (speed := _operations_per_s(ranks, arm)):
        found[COMPUTE] = metrics.compute_limit(speed, run.work.operations_per_image)
    exchange = config["distribution"]
    if exchange["allreduce"] and len(ranks) > 1 and (speed := _bytes_per_s(ranks, arm)):
        sent = run.work.gradient_bytes * _COMPRESSED[exchange.get("compression", "none")]
        found[LINK] = metrics.link_limit(config["global_batch"], sent, len(ranks), speed)
    return found


def _measured_at(config: Mapping[str, Any], place: int) -> int:
    """The arm with which the limits of this one were measured: the first of its world, ranks and links."""

    def alike(arm: Mapping[str, Any]) -> tuple[Any, ...]:
        return arm["world"], arm["ranks"], arm["link_mbit_per_s"]

    arms = config["rounds"]
    return next(nth for nth, arm in enumerate(arms) if alike(arm) == alike(arms[place]))


def _operations_per_s(ranks: Sequence[Rank], arm: int | None) -> float:
    """Of all ranks together; 0 where one has none."""
    fastest = [
        max(
            (metrics.operations_per_s(of.rows, min(of.times_s)) for of in rank.matrix_products if of.arm == arm),
            default=0,
        )
        for rank in ranks
    ]
    return sum(fastest) if all(fastest) else 0.0


def _bytes_per_s(ranks: Sequence[Rank], arm: int | None) -> float:
    """Of the slowest link; 0 where one is not known."""
    received = [
        [
            metrics.bandwidth(of.transferred_bytes, of.time_s)
            for of in rank.transfers
            if of.arm == arm and of.what == "tcp_ring"
        ]
        for rank in ranks
    ]
    return min(max(speeds) for speeds in received) if all(received) else 0.0
