"""The hardware: upper bounds on the throughput of a launch or arm, and the energy per image."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis import metrics
from common.grouping import grouped
from record import recorded_config, rounds
from record.schema import CoreUse, Rank, RunRecord, Server

COMPUTE, LINK = "compute_limit_images_per_s", "link_limit_images_per_s"
_COMPRESSED = {"none": 1.0, "fp16": 0.5}  # share of the bytes of fp32


def throughput_bounds(run: RunRecord, arm_index: int | None = None) -> dict[str, float]:
    """Return the known upper bounds, in images/s of the whole job, by quantity.

    COMPUTE: all ranks, each as fast as in its fastest matrix product. LINK: the slowest link between neighbours in a
    ring of the ranks; only if Gloo exchanges gradients over TCP. arm_index: an arm of a launch in rounds.
    """
    if run.work is None:
        return {}
    config = run.config if arm_index is None else rounds.config_of(run.config, arm_index)
    ranks = run.ranks if arm_index is None else [run.ranks[rank] for rank in rounds.ranks_of(run.config, arm_index)]
    measured_arm = None if arm_index is None else _measured_at(run.config, arm_index)
    bounds = {}
    if run.work.operations_per_image and (speed := _operations_per_s(ranks, measured_arm)):
        bounds[COMPUTE] = metrics.compute_limit(speed, run.work.operations_per_image)
    exchange = config["distribution"]
    if exchange["allreduce"] and len(ranks) > 1 and (speed := _bytes_per_s(ranks, measured_arm)):
        sent = run.work.gradient_bytes * _COMPRESSED[exchange.get("compression", "none")]
        bounds[LINK] = metrics.link_limit(config["global_batch"], sent, len(ranks), speed)
    return bounds


def _measured_at(config: Mapping[str, Any], index: int) -> int:
    """Return the arm with which the bounds of this arm were measured: the first with its ranks and links."""
    alike = [(arm["rank_group"], arm["ranks"], arm["link_mbit_per_s"]) for arm in config["rounds"]]
    return alike.index(alike[index])


def _operations_per_s(ranks: Sequence[Rank], arm: int | None) -> float:
    """Return the operations/s of all ranks; 0 if one has no measurement."""
    products = [[product for product in rank.matrix_products if product.arm == arm] for rank in ranks]
    speeds = [[metrics.operations_per_s(p.rows, min(p.times_s)) for p in rank_products] for rank_products in products]
    return sum(map(max, speeds)) if all(speeds) else 0.0


def _bytes_per_s(ranks: Sequence[Rank], arm: int | None) -> float:
    """Return the bytes/s of the slowest link; 0 if one has no measurement."""
    links = [[link for link in rank.transfers if link.arm == arm and link.what == "tcp_ring"] for rank in ranks]
    speeds = [[metrics.bandwidth(link.transferred_bytes, link.time_s) for link in rank_links] for rank_links in links]
    return min(map(max, speeds)) if all(speeds) else 0.0


PROCESSORS, GPUS = "joules_per_image", "gpu_joules_per_image"
PER_EPOCH = {PROCESSORS: "joules_per_epoch", GPUS: "gpu_joules_per_epoch"}


def energy(run: RunRecord) -> dict[str, float]:
    """Return the known joules per image in the timed steps of a launch of one point, and per epoch, by quantity.

    PROCESSORS: all packages of all hosts of the job, with everything that ran on them. GPUS: those of the ranks. An
    epoch has those of its images, without evaluation.
    """
    batch = run.config["global_batch"]
    processes = [(process, process.timed_cores) for process in run.processes]
    joules_per_image = _per_image(processes, batch * len(run.ranks[0].step_times_s))
    images = batch * run.epochs[-1].steps if run.epochs else 0
    return joules_per_image | {PER_EPOCH[name]: joules * images for name, joules in joules_per_image.items() if images}


def window_energy_per_image(run: RunRecord) -> dict[tuple[int, int], dict[str, float]]:
    """Return the joules per image by round and arm of a launch in rounds, of the hosts whose ranks took part.

    Empty if no rank has counters in its first window.
    """
    first = [window.cores for rank in run.ranks for window in rank.windows[:1] if window.cores]
    if all(counted.energy_j is None and counted.gpu_energy_j is None for counted in first):
        return {}
    every = ((rank, window) for rank in run.ranks for window in rank.windows)
    windows = grouped(every, lambda pair: (pair[1].round, pair[1].arm))
    energies = {}
    for turn, pairs in windows.items():
        steps = sum(len(window.step_times_s) for _, window in pairs)
        images = recorded_config.arm_step_batch(run.config["rounds"][turn[1]]) * steps
        energies[turn] = _per_image([(rank, window.cores) for rank, window in pairs], images)
    return energies


def _per_image(pairs: Sequence[tuple[Rank | Server, CoreUse | None]], images: int) -> dict[str, float]:
    hosts = {rank.host for rank, _ in pairs}
    host_joules = {rank.host: counted.energy_j for rank, counted in pairs if counted and counted.energy_j is not None}
    gpu_joules = [counted.gpu_energy_j for _, counted in pairs if counted and counted.gpu_energy_j is not None]
    quantities = {}
    if host_joules.keys() == hosts:
        quantities[PROCESSORS] = metrics.joules_per_image(sum(host_joules.values()), images)
    if len(gpu_joules) == len(pairs):
        quantities[GPUS] = metrics.joules_per_image(sum(gpu_joules), images)
    # A counter that stands still counts nothing.
    return {name: value for name, value in quantities.items() if value > 0}
