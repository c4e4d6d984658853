"""The energy that an image took in timed steps, where the counters of all hosts, or of all GPUs, could be read."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import metrics
from train.record import batch
from train.record.record import CoreUse, Rank, RunRecord, Server, Window

PROCESSORS, GPUS = "joules_per_image", "gpu_joules_per_image"


def of(run: RunRecord) -> dict[str, float]:
    """Joules an image in the timed steps of a launch of one point, as far as known, by quantity.

    PROCESSORS: of all packages of all hosts of the job, whatever ran on them. GPUS: of those of the ranks.
    """
    images = run.config["global_batch"] * len(run.ranks[0].step_times_s)
    return _per_image([(one, one.timed_cores) for one in run.processes], images)


def of_windows(run: RunRecord) -> dict[tuple[int, int], dict[str, float]]:
    """The same of each round and arm of a launch in rounds: of the hosts of the ranks that took part.

    Empty where no rank counts: one that does counts from its first window on.
    """
    if not any(_counts(window.cores) for rank in run.ranks for window in rank.windows[:1]):
        return {}
    found: dict[tuple[int, int], list[tuple[Rank, Window]]] = {}
    for rank in run.ranks:
        for window in rank.windows:
            found.setdefault((window.round, window.arm), []).append((rank, window))
    return {
        place: _per_image(
            [(rank, window.cores) for rank, window in of],
            batch.of_arm(run.config["rounds"][place[1]]) * sum(len(window.step_times_s) for _, window in of),
        )
        for place, of in found.items()
    }


def _counts(use: CoreUse | None) -> bool:
    return use is not None and (use.energy_j is not None or use.gpu_energy_j is not None)


def _per_image(uses: Sequence[tuple[Rank | Server, CoreUse | None]], images: int) -> dict[str, float]:
    hosts = {rank.host for rank, _ in uses}
    of_hosts = {rank.host: use.energy_j for rank, use in uses if use and use.energy_j is not None}
    of_gpus = [use.gpu_energy_j for _, use in uses if use and use.gpu_energy_j is not None]
    found = {}
    if of_hosts.keys() == hosts:
        found[PROCESSORS] = metrics.joules_per_image(sum(of_hosts.values()), images)
    if len(of_gpus) == len(uses):
        found[GPUS] = metrics.joules_per_image(sum(of_gpus), images)
    return {name: value for name, value in found.items() if value > 0}  # a counter that stands still counts nothing
