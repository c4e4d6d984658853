"""The configuration of a run, composed of the sections that features have in modules beside this one.

A section is a data class. A field's metadata states its allowed values (train/config/checks.py); the method `rules`
checks several fields of a section, `rules_with` those of other sections. record/recorded_config.py lists the fields
that do not change what is measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Self, get_type_hints

from record.recorded_config import is_measured
from train.config.checks import LeftOut, Rule, allow, check, check_section
from train.config.distribution_config import DistributionConfig
from train.config.machine_config import ContainerConfig, LauncherConfig, SystemConfig, default_image
from train.config.measure_config import AllreduceSweep, LaunchPlan, MeasureConfig
from train.config.program import ProgramConfig
from train.config.tracking_config import TrackingConfig
from train.config.training_config import DatasetConfig, ModelConfig, OptimizerConfig
from train.models.applications import PRETRAINED

STATED_ROLES = ("base", "control", "point")  # those that the file of an experiment can give an arm


@dataclass(frozen=True)
class Reproduced:
    """The part of a report that an experiment reproduces: figures or models by their numbers; neither: a text."""

    report: str  # 000 to 004
    figures: tuple[int, ...] = ()
    models: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunConfig:
    """One run of one point of an experiment."""

    experiment: str
    model: ModelConfig
    dataset: DatasetConfig
    optimizer: OptimizerConfig
    distribution: DistributionConfig
    measure: MeasureConfig
    tracking: TrackingConfig
    launcher: LauncherConfig
    container: ContainerConfig
    system: SystemConfig
    device: str = field(metadata=allow(names=("cpu", "gpu")))
    precision: str = field(metadata=allow(names=("fp32", "bf16", "fp16")))
    nodes: int = field(metadata=allow(minimum=1))
    ranks_per_node: int = field(metadata=allow(minimum=1))
    threads_per_rank: int | None = field(metadata=allow(minimum=1, null="the node's cores // its ranks"))
    # The user gives one of these two, the other is derived.
    batch_per_rank: int | None = field(metadata=allow(minimum=1))
    global_batch: int | None = field(metadata=allow(minimum=1))  # of a step: of all ranks and passes
    seed: int = field(metadata=allow(minimum=0))
    results: str
    # Initial weights: none (random, from the seed) | imagenet | path of an HDF5 file
    weights: str = "none"
    # Keys whose value the report behind an experiment does not state.
    assumed: tuple[str, ...] = ()
    # Keys that the kit derived from others.
    derived: tuple[str, ...] = ()
    allreduce_sweep: AllreduceSweep | None = None  # null: the run trains
    program: ProgramConfig | None = None  # null: the kit's own training; else the user's command
    launch: LaunchPlan = field(default_factory=LaunchPlan)  # not from conf/: the launcher's plan

    @property
    def ranks(self) -> int:
        """Return the ranks of a point, which share its global batch: all of the job, unless it has rank groups."""
        return self.nodes * self.ranks_per_node

    @property
    def emulated(self) -> bool:
        """Return whether the nodes are emulated: each is limited to a CPU quota while it measures."""
        return self.system.cpu_quota_per_node is not None

    @property
    def towers(self) -> int:
        """Return the ranks that one process computes for: one, unless all share a process."""
        return self.ranks if self.distribution.in_one_process else 1

    @property
    def processes(self) -> int:
        """Return the processes of a point: its ranks, or one for all; and parameter servers that are no ranks."""
        return self.ranks // self.towers + self.distribution.server_nodes

    def workers_of(self, rank: int) -> int:
        """Return the number of workers, which share the global batch, in a process; 0: it holds a server."""
        return 0 if self.distribution.server_nodes and rank >= self.ranks else self.towers

    @property
    def all_nodes(self) -> int:
        """Return the nodes that a point needs: those of its ranks, and of parameter servers that are no ranks."""
        return self.nodes + self.distribution.server_nodes

    @property
    def step_batch(self) -> int:
        """Return the images that a process takes in a step: the batches of its ranks, for each backward pass."""
        return (self.batch_per_rank or 0) * self.distribution.backward_passes_per_step * self.towers

    @property
    def ranks_of_job(self) -> int:
        """Return the ranks of the whole job, and parameter servers that are no ranks."""
        return sum(group.ranks for group in self.launch.rank_groups) or self.ranks + self.distribution.server_nodes

    def __post_init__(self) -> None:
        """Check each value and each combination, here and in all sections."""
        check_section(self)
        for key in self.assumed:
            value: object = self
            for name in key.split("."):
                check(value is None or hasattr(value, name), "assumed", key, "no such key of the configuration")
                value = getattr(value, name, None)

    def rules(self) -> Iterator[Rule]:
        """Yield the rules between values of different sections: each section's `rules_with` this configuration."""
        why = "fp16 has no fast path on a CPU; with device=cpu allowed are fp32, bf16"
        yield self.device != "cpu" or self.precision != "fp16", "precision", why
        for item in fields(self):
            if rules_with := getattr(getattr(self, item.name), "rules_with", None):
                yield from rules_with(self)
        yield from self._weight_rules()
        yield from self._batch_rules()

    def _weight_rules(self) -> Iterator[Rule]:
        why = (
            f"with distribution.backend={self.distribution.backend} allowed is none: rank 0 alone would assign "
            "variables that all ranks share"
        )
        yield self.weights == "none" or not self.distribution.is_strategy, "weights", why
        if self.weights == "imagenet":
            why = "a container has no folder for them; give the path of a file, or container=none"
            yield self.container.name == "none", "weights", why
            why = (
                f"there are such weights for three channels and {', '.join(sorted(PRETRAINED))}, not for "
                f"{self.model.name} with {self.dataset.channels}. Allowed are none, the path of a file of weights"
            )
            yield self.model.name in PRETRAINED and self.dataset.channels == 3, "weights", why

    def _batch_rules(self) -> Iterator[Rule]:
        passes, total = self.distribution.backward_passes_per_step, self.measure.total_steps
        times = f" x {passes} backward passes" if passes > 1 else ""
        if self.batch_per_rank is None:
            yield self.global_batch is not None, "batch_per_rank", "give batch_per_rank or global_batch"
            why = f"must be a multiple of {self.ranks} ranks{times} "
            why += f"(nodes={self.nodes}, ranks_per_node={self.ranks_per_node})"
            yield (self.global_batch or 0) % (self.ranks * passes) == 0, "global_batch", why, LeftOut
        elif self.global_batch is not None:
            why = f"contradicts batch_per_rank={self.batch_per_rank} on {self.ranks} ranks{times}; "
            fits = self.global_batch == self.step_batch * (self.ranks // self.towers)
            yield fits, "global_batch", why + "set one of the two to null"
        enough = total is None or total >= self.ranks
        yield enough, "measure.total_steps", f"{self.ranks} ranks need at least one step each"

    def completed(self) -> Self:
        """Return this configuration with the values that are derived from others; `derived` names their keys."""
        completed: dict[str, Any] = {}
        derived: list[str] = []
        if self.batch_per_rank is None:
            assert self.global_batch is not None
            completed["batch_per_rank"] = self.global_batch // (self.ranks * self.distribution.backward_passes_per_step)
            derived.append("batch_per_rank")
        elif self.global_batch is None:
            completed["global_batch"] = self.step_batch * (self.ranks // self.towers)
            derived.append("global_batch")
        if self.measure.total_steps is not None:
            completed["measure"] = replace(self.measure, timed_steps=self.measure.total_steps // self.ranks)
            derived.append("measure.timed_steps")
        if self.container.name != "none" and self.container.image is None:
            image = default_image(self.container.name, self.device, self.container.mpi_home)
            completed["container"] = replace(self.container, image=image)
        return replace(self, **completed, derived=tuple(dict.fromkeys([*self.derived, *derived])))

    def on_cores(self, cores_per_node: int, threads_per_rank: int) -> Self:
        """Return this configuration on nodes with so many cores; threads_per_rank is used if none is configured."""
        system = replace(self.system, cores_per_node=cores_per_node)
        if self.threads_per_rank is not None:
            return replace(self, system=system)
        derived = (*self.derived, "threads_per_rank")
        return replace(self, system=system, threads_per_rank=threads_per_rank, derived=derived)


@dataclass(frozen=True)
class ExperimentConfig:
    """The keys that an experiment varies, and its purpose: only its file sets them, and no record has them."""

    description: str = ""  # on one line: make help ALL=1 prints it
    reproduces: tuple[Reproduced, ...] = ()
    when_emulated: tuple[str, ...] = ()  # overrides that apply if nodes are emulated
    sweep: dict[str, str] = field(default_factory=dict)  # key -> Hydra's comma-separated choices, or a ${rule}
    arms: dict[str, list[str]] = field(default_factory=dict)  # name of an arm -> its overrides
    # Name of an arm -> base (the others are compared with it) or control (without allreduce); of other arms: point.
    roles: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the roles."""
        for arm, role in self.roles.items():
            check(arm in self.arms, f"roles.{arm}", role, f"no such arm; the arms are {', '.join(self.arms) or 'none'}")
            check(role in STATED_ROLES, f"roles.{arm}", role, f"allowed are {', '.join(STATED_ROLES)}")


def is_free_text(key: str) -> bool:
    """Return whether a key, as tracking.notes, holds any text, and changes nothing that is measured."""
    section: Any = RunConfig
    limited = False
    for name in key.split("."):
        metadata = {item.name: item.metadata for item in fields(section)} if is_dataclass(section) else {}
        if name not in metadata:
            return False
        limited = "allowed" in metadata[name]
        section = get_type_hints(section)[name]
    return not is_measured(key) and not limited and section in (str, str | None)
