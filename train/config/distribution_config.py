"""How ranks are joined: the section of the configuration, and the values that each backend requires of other keys."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from record.recorded_config import ASYNCHRONOUS, STRATEGIES, TOWERS
from train.config.checks import LeftOut, Rule, allow

FUSION_THRESHOLD_BYTES = 128 << 20  # Horovod's default

# Key of `distribution` -> the values that a backend allows, and the reason.
Needs = Mapping[str, tuple[tuple[Any, ...], str]]

_LAUNCHED_BY_GLOO = "needs gloo: its launcher starts the ranks, and tells them of others"
_NO_CONTROL = "there is none to leave out; set true, or take another backend"


def _strategy(name: str, backend: str, controller: str, **own_needs: tuple[tuple[Any, ...], str]) -> Needs:
    """Return the needs of a strategy of TensorFlow: its own and those of all. controller: why it needs gloo."""
    cannot, with_it = f"{name} cannot", f"with backend={backend}"
    needs = {
        "compression": (("none",), f"{cannot} compress gradients; {with_it} set none"),
        "op": (("average",), f"{cannot} combine gradients by Adasum; {with_it} set average"),
        "autotune": ((False,), f"it is Horovod's; {with_it} set false"),
        "controller": (("gloo",), f"backend={backend} {controller}"),
    }
    return needs | own_needs


BACKENDS: Mapping[str, Needs] = {
    "horovod": {},
    "mwms": _strategy(
        "MultiWorkerMirroredStrategy",
        "mwms",
        _LAUNCHED_BY_GLOO,
        gradients=(("grouped", "flat"), "with backend=mwms allowed are grouped (TensorFlow's own way), flat"),
    ),
    "ps": _strategy(
        "ParameterServerStrategy",
        "ps",
        _LAUNCHED_BY_GLOO,
        allreduce=((True,), f"with backend=ps {_NO_CONTROL}"),
        gradients=(("separate",), "servers take gradients variable by variable; with backend=ps set separate"),
    ),
    "ps_cpu": _strategy(
        "CentralStorageStrategy",
        "ps_cpu",
        "starts one process, and no ranks that have to join; set gloo, the default",
        allreduce=((True,), f"with backend=ps_cpu {_NO_CONTROL}"),
        gradients=(("separate",), "the CPU averages variable by variable; with backend=ps_cpu set separate"),
        backward_passes_per_step=((1,), "batch normalisation on several devices cannot be in a loop; set 1"),
    ),
    "none": {},
}


@dataclass(frozen=True)
class DistributionConfig:
    """The backend that joins the ranks, how they exchange gradients, and Horovod's settings."""

    # mwms: TensorFlow's MultiWorkerMirroredStrategy; ps: its ParameterServerStrategy; ps_cpu: one process with a tower
    # for each rank, and variables on the CPU
    backend: str = field(metadata=allow(names=tuple(BACKENDS)))
    allreduce: bool  # false: the ranks run side by side without exchanging gradients, as a control
    controller: str = field(metadata=allow(names=("gloo", "mpi")))
    # flat: as one tensor; grouped: as one group of tensors; separate: one by one
    gradients: str = field(metadata=allow(names=("flat", "grouped", "separate")))
    # Between two cycles of Horovod's background thread.
    cycle_time_ms: float = field(metadata=allow(above=0, unit="ms"))
    fusion_threshold_bytes: int = field(metadata=allow(minimum=0, unit="bytes"))
    # fp16: gradients are cast to 16 bits, summed in 16 bits, and cast back.
    compression: str = field(default="none", metadata=allow(names=("none", "fp16")))
    # The number of batches whose local gradients are averaged, then exchanged and applied, in one step.
    backward_passes_per_step: int = field(default=1, metadata=allow(minimum=1))
    # average | adasum (Maleki et al. 2020, 2006.02924), for each tensor
    op: str = field(default="average", metadata=allow(names=("average", "adasum")))
    # Horovod tries cycle times and fusion thresholds in the first steps, and keeps the best: give it enough warm-up.
    autotune: bool = False
    # Horovod writes what happens to each tensor, which makes each exchange slower: for `make timeline` alone.
    timeline: bool = False
    # always: oneDNN also on processors where TensorFlow leaves it off; tensorflow: its own choice
    onednn: str = field(default="always", metadata=allow(names=("always", "tensorflow")))
    # ps: how many parameter servers
    servers: int = field(default=1, metadata=allow(minimum=1))
    # workers: in the processes of the first ranks, on their cores; nodes: each on a separate node
    servers_on: str = field(default="workers", metadata=allow(names=("workers", "nodes")))
    # mwms, ps: the port of the first rank of a host; the next ranks take the ports after it, with ps three each.
    port: int | None = field(default=None, metadata=allow(minimum=1024, maximum=65535, null="free ones"))

    def rules(self) -> Iterator[Rule]:
        """Yield what Adasum needs, and what a strategy of TensorFlow cannot do."""
        for key, (allowed, why) in BACKENDS[self.backend].items():
            yield getattr(self, key) in allowed, key, why
        if self.op == "adasum" and self.backend == "horovod":
            why = "op=adasum needs another; "
            yield self.controller == "mpi", "controller", why + "set mpi: Gloo has no Adasum"
            yield self.gradients == "separate", "gradients", why + "set separate: it weighs tensor by tensor"

    @property
    def is_strategy(self) -> bool:
        """Return whether TensorFlow joins the ranks, which exchange addresses before it is imported."""
        return self.backend in STRATEGIES

    @property
    def asynchronous(self) -> bool:
        """Return whether each rank applies its gradients by itself: not synchronous SGD."""
        return self.backend in ASYNCHRONOUS

    @property
    def server_nodes(self) -> int:
        """Return the number of nodes that hold nothing but a parameter server."""
        return self.servers if self.asynchronous and self.servers_on == "nodes" else 0

    @property
    def in_one_process(self) -> bool:
        """Return whether one process computes for all ranks of a point, each on a separate device."""
        return self.backend in TOWERS

    def rules_with(self, run: Any) -> Iterator[Rule]:
        """Yield which ranks a backend joins, and what servers and timelines need of other sections."""
        ranks = run.ranks
        why = f"{ranks} ranks need distribution.backend=horovod, mwms, ps or ps_cpu"
        yield self.backend != "none" or ranks == 1, "distribution.backend", why
        why = f"needs a power of two of ranks, not {ranks}; change nodes or ranks_per_node, or set op=average"
        yield self.op != "adasum" or ranks.bit_count() == 1, "distribution.op", why
        if self.asynchronous:
            yield from self._server_rules(run)
        if self.timeline:
            yield from self._timeline_rules(run)

    def _server_rules(self, run: Any) -> Iterator[Rule]:
        """Yield what parameter servers need: asynchronous training has no epochs that all ranks end together."""
        why = f"allowed are 1 to the number of ranks, {run.ranks} with nodes={run.nodes}"
        yield self.servers <= run.ranks, "distribution.servers", why, LeftOut
        why = f"distribution.backend={self.backend} needs another; "
        yield run.measure.epochs == 0, "measure.epochs", why + "it measures timed steps: give 0"
        synthetic = run.dataset.name == "synthetic"
        yield synthetic, "dataset", why + "its coordinator gives each rank one batch: give synthetic"
        yield not run.measure.split, "measure.split", why + "no exchange can be measured by itself: give false"
        if self.server_nodes:  # each is the only process of a node, on all of its cores
            why = "distribution.servers_on=nodes needs "
            yield run.ranks_per_node == 1, "ranks_per_node", why + "1: all nodes have as many processes"
            yield run.device == "cpu", "device", why + "cpu: a server computes nothing on a GPU"

    def _timeline_rules(self, run: Any) -> Iterator[Rule]:
        """Yield what a timeline needs: timed steps of ranks that exchange, in a launch that measures nothing else."""
        why = "distribution.timeline=true needs another; "
        yield self.backend == "horovod", "distribution.backend", why + "it is Horovod's: give horovod"
        yield run.ranks >= 2, "nodes", why + "it shows exchanges: give 2 ranks or more"
        yield run.measure.epochs == 0, "measure.epochs", why + "it shows timed steps: give 0"
        yield run.measure.design == "launches", "measure.design", why + "give launches: make timeline"
        yield run.allreduce_sweep is None, "allreduce_sweep", why + "it shows training: make timeline"
