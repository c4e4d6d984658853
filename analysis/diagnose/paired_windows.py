"""The times of the arms of a curve over nodes in one round, or in one repeat of launches."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import labels, speedups
from common.typed_commands import changed
from record import recorded_config
from record.disturbance import run_selection
from record.rounds import complete_rounds, windows_by_turn
from record.schema import Role, RunRecord, Window

Times = NDArray[np.float64]


@dataclass(frozen=True)
class ArmKey:
    """The identity of an arm of a curve."""

    nodes: int
    batch_per_rank: int
    role: Role = "point"  # the base of a curve is one of its points


@dataclass(frozen=True, eq=False)
class ArmTimes:
    """The times of an arm in one round or repeat, in seconds."""

    window_s: float  # between the barriers around the steps, on the slowest rank
    steps_s: Times  # (ranks, steps)
    computing_s: Times | None  # (ranks, steps), until the local gradients are ready; None: not known
    # (2, ranks), a step: how long others ran on a rank's cores while it was ready, and how long the hypervisor withheld
    # them; mean over the cores. None: not known.
    taken_s: Times | None
    synchronous: bool = True  # every step ends for all ranks together
    ranks_per_process: int = 1  # ranks of one process have one time for all of them

    @property
    def ranks(self) -> int:
        """The number of ranks that share the batch."""
        return len(self.steps_s) * self.ranks_per_process

    @property
    def waits(self) -> bool:
        """Whether ranks wait for each other in every step."""
        return self.synchronous and self.ranks_per_process == 1

    @property
    def measured_s(self) -> float:
        """Seconds a step, barrier at the end included: throughput is the batch over it."""
        return self.window_s / self.steps_s.shape[1]

    @property
    def step_s(self) -> float:
        """Seconds a step without that barrier, mean over ranks and steps."""
        return float(np.mean(self.steps_s))

    @property
    def preempted_s(self) -> Times | None:
        """(ranks,), a step: how long a rank's cores did not work for the job, mean over them."""
        return None if self.taken_s is None else self.taken_s.sum(axis=0)

    def scaled(self, factor: float) -> "ArmTimes":
        """Return the times of steps that take so many times as long, as with a larger batch."""
        computing_s, taken_s = (None if s is None else s * factor for s in (self.computing_s, self.taken_s))
        window_s, steps_s = self.window_s * factor, self.steps_s * factor
        return replace(self, window_s=window_s, steps_s=steps_s, computing_s=computing_s, taken_s=taken_s)


@dataclass(frozen=True, eq=False)
class PairedWindows:
    """The times of each arm in one round, or one repeat."""

    arms: Mapping[ArmKey, ArmTimes]
    exchanges_s: Mapping[int, float] = field(default_factory=dict)  # by nodes: the exchange of the gradients by itself
    repeat: tuple[int, ...] = ()  # of launches: seed and repeat, which other curves share; empty in rounds


@dataclass(frozen=True, eq=False)
class LaunchWindows:
    """The rounds or repeats of a launch, and the host and cores of each rank of its largest point."""

    paired_windows: Sequence[PairedWindows]
    locations: Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True, eq=False)
class CurveTimes:
    """The measurements of one model over nodes."""

    model: str
    series: str  # a label that distinguishes it from other curves of the model
    machine: str
    in_rounds: bool
    launches: Sequence[LaunchWindows]
    records: Sequence[str]  # paths
    command: Sequence[str] = ()  # of make, which measures it
    launch_s: float = 0.0  # wall time of a launch, or of those of one repeat, on average
    arm: str = ""  # its name among the arms of its experiment
    is_base: bool = False  # the other arms of its experiment are compared with it
    arms: str = ""  # shared by all arms that it can be compared with; empty in rounds, and without arms
    flat: bool = True  # gradients are exchanged as one tensor, once all of them are ready
    servers: str = ""  # "+2 cores for servers", if parameter servers had additional cores

    @property
    def _times(self) -> list[ArmTimes]:
        return [times for launch in self.launches for paired in launch.paired_windows for times in paired.arms.values()]

    @property
    def waits(self) -> bool:
        """Whether ranks wait for each other in every step."""
        return all(times.waits for times in self._times)

    @property
    def synchronous(self) -> bool:
        """Whether every step ends for all ranks together."""
        return all(times.synchronous for times in self._times)

    @property
    def points(self) -> list[ArmKey]:
        """The arms that are points of the curve, from the fewest nodes on."""
        arms = {arm for launch in self.launches for paired in launch.paired_windows for arm in paired.arms}
        points = [arm for arm in arms if arm.role == "point"]
        return sorted(points, key=lambda arm: (arm.nodes, arm.batch_per_rank))


def curves(local: pd.DataFrame, records: Mapping[str, RunRecord]) -> list[CurveTimes]:
    """Return the curves over nodes in the rows of one experiment, by model and series; records: by path.

    An arm that is only on several nodes begins with the arm on fewer (`speedups.base_of`), which then is no curve.
    """
    rows = local[local["axis"].eq("nodes") & local["quantity"].eq("images_per_s")]
    measured = rows[rows["kind"].eq("measured")]
    points_by_series = dict(list(measured.groupby(["model", "series"], sort=False)))
    bases = {
        series: base for series, points in points_by_series.items() if (base := _base(points, measured)) is not None
    }
    bases_alone = {(base["model"].iloc[0], base["series"].iloc[0]) for base in bases.values()}
    results = []
    for series, points in points_by_series.items():
        if series in bases_alone and points["nodes"].nunique() == 1:
            continue
        in_rounds = points[points["round"].notna()]
        controls = rows[rows["kind"].eq("control") & rows["arms"].isin(points["arms"])]
        paths = [*in_rounds["record"]] or [*points["record"], *controls["record"]]
        paths += [*bases[series]["record"]] if series in bases else []
        label = ", ".join(labels.distinctions(points, measured))
        results.append(_curve(points, label, {path: records[path] for path in paths}))
    return results


def _base(points: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame | None:
    """Return the launches of another arm with which a curve of launches begins; None if it begins with its own."""
    if points["round"].notna().any() or not points["allreduce"].all():
        return None
    return speedups.base_of(points, measured)


def _curve(points: pd.DataFrame, label: str, records: Mapping[str, RunRecord]) -> CurveTimes:
    first, runs = points.iloc[0], [*records.values()]
    in_rounds = bool(runs[0].config.get("rounds"))
    launches = [launch_of_rounds(run) for run in runs] if in_rounds else [launch_of_repeats(runs)]
    repeats = len(launches) if in_rounds else len(launches[0].paired_windows)
    has_arms = not in_rounds and bool(first["arm"])
    return CurveTimes(
        str(first["model"]), label, str(first["machine"]), in_rounds, launches, [*records],
        command=_command([*records][-1], runs[-1]), launch_s=math.fsum(run.job_s for run in runs) / max(1, repeats),
        arm=str(first["arm"]) if has_arms else "", is_base=has_arms and bool(points["role"].eq("base").any()),
        arms=str(first["arms"]) if has_arms else "", flat=first["gradients"] in ("", "flat"),
        servers=", ".join(labels.server_cores(points)) if has_arms else "",
    )  # fmt: skip


def _command(path: str, run: RunRecord) -> list[str]:
    """Return the command of make that measured a run, for its model alone, into the folder of its records."""
    target, results = run.experiment.replace("_", "-"), Path(path).parents[4]
    words = run.typed_command if run.typed_command[:2] == ["make", target] else ["make", target]
    model = {} if run.program else {"MODELS": run.config["model"]["name"]}
    if not run.typed_command and not run.program:
        words += ["DEVICE=gpu"] if run.config["device"] == "gpu" else []
        dataset = run.config["dataset"]["name"]
        words += [f"DATASET={dataset}"] if dataset != "synthetic" else []
    folder = "" if results == Path("results") else str(results)
    return changed(words, {"NODES": "", "ONLY": "", "RESULTS": folder, **model})


def _arm(nodes: int, batch_per_rank: int, role: Role | None) -> ArmKey:
    return ArmKey(nodes, batch_per_rank, role if role in ("control", "in-memory") else "point")


def _role(arm: Mapping[str, Any]) -> Role:
    """Return the role of an arm in rounds. One rank exchanges nothing: its control is its arm in memory."""
    role: Role = "in-memory" if arm["ranks"] == 1 and arm["role"] == "control" else arm["role"]
    return role


def launch_of_rounds(run: RunRecord) -> LaunchWindows:
    """Return the rounds of a launch that measured all arms but controls.

    A round without a control has that of the nearest round of its launch that counts.
    """
    arms = [_arm(arm["nodes"], arm["batch_per_rank"], _role(arm)) for arm in run.config["rounds"]]
    windows = windows_by_turn(rank.windows for rank in run.ranks)
    exchanges = windows_by_turn(rank.exchanges for rank in run.ranks)
    whole, exchanging = complete_rounds(run), {number for number, _ in exchanges}
    finished = whole.keys() & exchanging if exchanging else whole.keys()
    rounds, counting = [], [number for number in run_selection(run).counting if number in finished]
    for number in counting:
        times = {}
        for index in range(len(arms)):
            if measured := [n for n in counting if index in whole[n]]:
                nearest = min(measured, key=lambda n: abs(n - number))
                times[arms[index]] = _times_of_windows(windows[nearest, index], run)
        alone = {arms[i].nodes: exchange_s(exchange) for (n, i), exchange in exchanges.items() if n == number}
        rounds.append(PairedWindows(times, alone))
    return LaunchWindows(rounds, [(rank.host, rank.cores) for rank in run.ranks])


def exchange_s(windows: Sequence[Window]) -> float:
    """Return the seconds of one exchange of gradients by itself, mean over those of a round.

    The time on the rank where it is shortest counts: the rank that came last did not wait for another.
    """
    return float(np.mean(np.min([window.step_times_s for window in windows], axis=0)))


def launch_of_repeats(runs: Sequence[RunRecord]) -> LaunchWindows:
    """Return the repeats of launches of single points: runs of one repeat and seed belong together."""
    repeats: dict[tuple[int, int], dict[ArmKey, ArmTimes]] = defaultdict(dict)
    for run in runs:
        steps = min(len(rank.step_times_s) for rank in run.ranks)
        if not steps:
            continue
        arm = _arm(run.config["nodes"], run.config["batch_per_rank"], run.role)
        windows = [
            Window(
                0, 0, rank.phases_s["timed"], rank.step_times_s[:steps], rank.compute_times_s[:steps], rank.timed_cores
            )
            for rank in run.ranks
        ]
        repeats[run.config["seed"], run.repeat][arm] = _times_of_windows(windows, run)
    in_order = [PairedWindows(repeats[key], repeat=key) for key in sorted(repeats)]
    largest = max(runs, key=lambda run: run.workers)
    return LaunchWindows(in_order, [(rank.host, rank.cores) for rank in largest.ranks])


def _times_of_windows(windows: Sequence[Window], run: RunRecord) -> ArmTimes:
    """Return the times of one arm in one round, from the window of each of its ranks."""
    steps = len(windows[0].step_times_s)
    has_computing = all(len(window.compute_times_s) == steps for window in windows)
    # If ranks share cores, the other processes of a core are mostly ranks, as configured.
    own_cores = not (run.cores_shared or run.emulated)
    taken = [
        (counters.delay_s / cores, counters.steal_s / cores)
        for window, rank in zip(windows, run.ranks, strict=False)
        if own_cores and (counters := window.cores) and counters.delay_s is not None
        for cores in [max(1, len(rank.cores))]
    ]
    return ArmTimes(
        max(window.window_s for window in windows),
        np.array([window.step_times_s for window in windows]),
        np.array([window.compute_times_s for window in windows]) if has_computing else None,
        np.array(taken).T / steps if len(taken) == len(windows) else None,
        run.config["distribution"]["backend"] not in recorded_config.ASYNCHRONOUS,
        max((rank.workers for rank in run.ranks), default=1),
    )
