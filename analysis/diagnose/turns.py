"""Records as turns: what was measured of each arm of a curve over nodes in one round, or in one repeat of launches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import labels, speedups
from train.record import backends
from train.record.record import Rank, Role, RunRecord, Window

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Arm:
    """What tells the arms of a curve apart."""

    nodes: int
    batch_per_rank: int
    role: Role = "point"  # the base of a curve is one of its points


@dataclass(frozen=True, eq=False)
class Measured:
    """An arm in one turn. Times in seconds."""

    window_s: float  # between the barriers around the steps, on the slowest rank
    steps_s: Times  # (ranks, steps)
    computing_s: Times | None  # (ranks, steps), until the local gradients are ready; None: not known
    others_s: Times | None  # (ranks,), a step: that others ran on a rank's cores while it was ready, mean over them
    stolen_s: Times | None  # (ranks,), a step: that the hypervisor withheld them. Both None: not known
    synchronous: bool = True  # every step ends for all ranks together
    in_one_process: int = 1  # ranks that are one process, whose times are those of all together

    @property
    def ranks(self) -> int:
        """How many share the batch."""
        return len(self.steps_s) * self.in_one_process

    @property
    def waits(self) -> bool:
        """Whether ranks wait for each other in every step."""
        return self.synchronous and self.in_one_process == 1

    @property
    def measured_s(self) -> float:
        """Seconds a step, barrier at the end included: throughput is the batch over it."""
        return self.window_s / self.steps_s.shape[1]

    @property
    def lost_s(self) -> Times | None:
        """(ranks,), a step: that a rank's cores did not work for the job, mean over them."""
        return None if self.others_s is None or self.stolen_s is None else self.others_s + self.stolen_s


@dataclass(frozen=True, eq=False)
class Turn:
    """What was measured in one round, or one repeat."""

    arms: Mapping[Arm, Measured]
    exchanges_s: Mapping[int, float] = field(default_factory=dict)  # by nodes: the exchange of the gradients by itself
    repeat: tuple[int, ...] = ()  # of launches: seed and repeat, which other curves share; empty in rounds


@dataclass(frozen=True, eq=False)
class Launch:
    """Turns that belong together, and where the ranks of the largest point were: (host, cores), by rank."""

    turns: Sequence[Turn]
    places: Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True, eq=False)
class Curve:
    """What was measured of one model over nodes."""

    model: str
    series: str  # what tells it from other curves of the model, in words
    machine: str
    device: str
    dataset: str
    in_rounds: bool
    launches: Sequence[Launch]
    records: Sequence[str]  # paths
    target: str = "diagnose"  # of make, which measures it
    arm: str = ""  # its name among the arms of its experiment
    is_base: bool = False  # the other arms of its experiment are compared with it
    arms: str = ""  # shared by all arms that it can be compared with; empty in rounds, and without arms
    flat: bool = True  # gradients are exchanged as one tensor, once all of them are ready
    servers: str = ""  # "+2 cores for servers", where parameter servers had cores beside those of the ranks

    @property
    def waits(self) -> bool:
        """Whether ranks wait for each other in every step."""
        return all(of.waits for launch in self.launches for turn in launch.turns for of in turn.arms.values())

    @property
    def synchronous(self) -> bool:
        """Whether every step ends for all ranks together."""
        return all(of.synchronous for launch in self.launches for turn in launch.turns for of in turn.arms.values())

    @property
    def points(self) -> list[Arm]:
        """The arms that are points of the curve, from the fewest nodes on."""
        arms = {arm for launch in self.launches for turn in launch.turns for arm in turn.arms if arm.role == "point"}
        return sorted(arms, key=lambda arm: (arm.nodes, arm.batch_per_rank))


def curves(local: pd.DataFrame, records: Mapping[str, RunRecord]) -> list[Curve]:
    """The curves over nodes in the rows of one experiment, by model and series; records: by path.

    An arm that is on several nodes only begins with the arm that is on fewer (`speedups.base_of`), which is then none
    by itself.
    """
    rows = local[local["axis"].eq("nodes") & local["quantity"].eq("images_per_s")]
    measured = rows[rows["kind"].eq("measured")]
    of_series = dict(list(measured.groupby(["model", "series"], sort=False)))
    bases = {series: base for series, points in of_series.items() if (base := _base(points, measured)) is not None}
    alone = {(base["model"].iloc[0], base["series"].iloc[0]) for base in bases.values()}
    found = []
    for series, points in of_series.items():
        if series in alone and points["nodes"].nunique() == 1:
            continue
        beside = rows[rows["kind"].eq("control") & rows["arms"].isin(points["arms"])]
        paths = [*_with_controls(points, beside), *(bases[series]["record"].unique() if series in bases else ())]
        runs = {path: records[path] for path in paths}
        found.append(_curve(points, ", ".join(labels.told_apart(points, measured)), runs))
    return found


def _base(points: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame | None:
    """The launches of another arm that a curve of launches begins with; None where it begins by itself."""
    if points["round"].notna().any() or not points["allreduce"].all():
        return None
    return speedups.base_of(points, measured)


def _with_controls(points: pd.DataFrame, controls: pd.DataFrame) -> list[str]:
    """The records of a curve: of its rounds alone where it has any, else those of its points and of their controls."""
    in_rounds = points[points["round"].notna()]
    if len(in_rounds):
        return list(in_rounds["record"].unique())
    return list(dict.fromkeys([*points["record"], *controls["record"]]))


def _curve(points: pd.DataFrame, words: str, by_path: Mapping[str, RunRecord]) -> Curve:
    first, runs = points.iloc[0], [*by_path.values()]
    in_rounds = bool(runs[0].config.get("rounds"))
    launches = [of_rounds(run) for run in runs] if in_rounds else [of_repeats(runs)]
    made = Curve(
        str(first["model"]), words, str(first["machine"]), str(first["device"]), str(first["dataset"]), in_rounds,
        launches, [*by_path], flat=first["gradients"] in ("", "flat"),
    )  # fmt: skip
    if in_rounds or not first["arm"]:
        return made
    target = str(first["experiment"]).replace("_", "-")
    servers = ", ".join(labels.servers(points))
    is_base = bool(points["role"].eq("base").any())
    return replace(
        made, target=target, arm=str(first["arm"]), is_base=is_base, arms=str(first["arms"]), servers=servers
    )


def _arm(nodes: int, batch_per_rank: int, role: Role | None) -> Arm:
    return Arm(nodes, batch_per_rank, role if role in ("control", "in-memory") else "point")


def of_rounds(run: RunRecord) -> Launch:
    """The turns of a launch in rounds: those that have all arms."""
    arms = [_arm(arm["nodes"], arm["batch_per_rank"], arm["role"]) for arm in run.config["rounds"]]
    windows = _by_turn(rank.windows for rank in run.ranks)
    exchanges = _by_turn(rank.exchanges for rank in run.ranks)
    turns = []
    for number in sorted({number for number, _ in windows}):
        made = {place: windows[number, place] for place in range(len(arms)) if (number, place) in windows}
        if len(made) < len(arms) - len(run.arms_left_out):
            continue  # the round of a launch that failed
        if any(len(made[place]) != run.config["rounds"][place]["ranks"] for place in made):
            continue
        alone = {arms[place].nodes: exchange_s(of) for (n, place), of in exchanges.items() if n == number}
        turns.append(Turn({arms[place]: _of_windows(of, run) for place, of in made.items()}, alone))
    return Launch(turns, [(rank.host, rank.cores) for rank in run.ranks])


def _by_turn(windows_of_ranks: Iterable[Sequence[Window]]) -> dict[tuple[int, int], list[Window]]:
    found: dict[tuple[int, int], list[Window]] = defaultdict(list)
    for windows in windows_of_ranks:
        for window in windows:
            found[window.round, window.arm].append(window)
    return found


def exchange_s(windows: Sequence[Window]) -> float:
    """Seconds of one exchange of gradients by itself, mean over those of a round.

    Of each the shortest over the ranks: the one that came last did not wait for another.
    """
    return float(np.mean(np.min([window.step_times_s for window in windows], axis=0)))


def of_repeats(runs: Sequence[RunRecord]) -> Launch:
    """The turns of launches of single points: runs of one repeat and seed belong together."""
    turns: dict[tuple[int, int], dict[Arm, Measured]] = defaultdict(dict)
    largest = max(runs, key=lambda run: run.workers)
    for run in runs:
        steps = min(len(rank.step_times_s) for rank in run.ranks)
        arm = _arm(run.config["nodes"], run.config["batch_per_rank"], run.role)
        if steps:
            turns[run.config["seed"], run.repeat][arm] = _of_ranks(run, steps)
    in_order = [Turn(turns[key], repeat=key) for key in sorted(turns)]
    return Launch(in_order, [(rank.host, rank.cores) for rank in largest.ranks])


def _of_ranks(run: RunRecord, steps: int) -> Measured:
    def window(rank: Rank) -> Window:
        computing = rank.compute_times_s[:steps]
        return Window(0, 0, rank.phases_s["timed"], rank.step_times_s[:steps], computing, rank.timed_cores)

    return _of_windows([window(rank) for rank in run.ranks], run)


def _of_windows(windows: Sequence[Window], run: RunRecord) -> Measured:
    """One arm in one turn, from the window of each of its ranks."""
    steps = len(windows[0].step_times_s)
    known = all(len(window.compute_times_s) == steps for window in windows)
    # Where ranks share cores, the others of a core are mostly ranks, as the configuration says.
    own = not run.cores_shared and run.config["system"].get("cpus_per_node") is None
    taken = [
        (use.delay_s / cores, use.steal_s / cores)
        for window, rank in zip(windows, run.ranks, strict=False)
        if own and (use := window.cores) and use.delay_s is not None
        for cores in [max(1, len(rank.cores))]
    ]
    others, stolen = np.array(taken).T / steps if len(taken) == len(windows) else (None, None)
    return Measured(
        max(window.window_s for window in windows),
        np.array([window.step_times_s for window in windows]),
        np.array([window.compute_times_s for window in windows]) if known else None,
        others,
        stolen,
        run.config["distribution"]["backend"] not in backends.ASYNCHRONOUS,
        max((rank.workers for rank in run.ranks), default=1),
    )
