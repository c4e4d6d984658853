"""The energy that an image took in timed steps, where the counters of all hosts, or of all GPUs, could be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis import metrics
from train.record import batch
from train.record import rounds as of_rounds
from train.record.record import CoreUse, Rank, RunRecord

PROCESSORS, GPUS = "joules_per_image", "gpu_joules_per_image"


def of(run: RunRecord) -> dict[str, float]:
    """Joules an image in the timed steps of a launch of one point, as far as known, by quantity.

    PROCESSORS: of all packages of all hosts of the job, whatever ran on them. GPUS: of those of the ranks.
    """
    images = run.config["global_batch"] * len(run.ranks[0].step_times_s)
    return _per_image([(rank, rank.timed_cores) for rank in run.ranks], images)


def of_windows(run: RunRecord, place: int) -> Mapping[int, dict[str, float]]:
    """The same for each round of a launch in rounds, in the window of the arm at `place`: of the hosts of its ranks."""
    ranks = of_rounds.ranks_of(run.config, place)
    step_batch = batch.of_arm(run.config["rounds"][place]) * len(ranks)
    found: dict[int, list[tuple[Rank, CoreUse | None]]] = {}
    steps: dict[int, int] = {}
    for rank in (run.ranks[number] for number in ranks):
        for window in (window for window in rank.windows if window.arm == place):
            found.setdefault(window.round, []).append((rank, window.cores))
            steps[window.round] = len(window.step_times_s)
    return {number: _per_image(uses, step_batch * steps[number]) for number, uses in found.items()}


def _per_image(uses: Sequence[tuple[Rank, CoreUse | None]], images: int) -> dict[str, float]:
    hosts = {rank.host for rank, _ in uses}
    of_hosts = {rank.host: use.energy_j for rank, use in uses if use and use.energy_j is not None}
    of_gpus = [use.gpu_energy_j for _, use in uses if use and use.gpu_energy_j is not None]
    found = {}
    if of_hosts.keys() == hosts:
        found[PROCESSORS] = metrics.joules_per_image(sum(of_hosts.values()), images)
    if len(of_gpus) == len(uses):
        found[GPUS] = metrics.joules_per_image(sum(of_gpus), images)
    return {name: value for name, value in found.items() if value > 0}  # a counter that stands still counts nothing
