"""The work of one rank: take cores and GPU, start TensorFlow on them, join the others, hold the roll call, measure.

Cores, threads and GPU are set before TensorFlow starts its threads.
"""

import gc
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common import affinity
from record import protocol
from record import run_files as files
from record.parts import PartWriter
from record.schema import Failure
from train import distribution, predictions
from train.config import identity
from train.config.checks import ConfigError
from train.config.identity import config_hash, values
from train.config.run_config import RunConfig
from train.rank import counters, environment, gpus, placement, process, roll_call
from train.rank.gpus import visible_gpu
from train.rank.phases import PhaseClock
from train.rank.quota_gate import QuotaGate
from train.rank.sampler import Sampler
from train.standalone import Standalone
from train.task import Context, Task
from train.transport import tcp_group
from train.transport.rendezvous import Secret
from train.transport.tcp_group import AllRanks

# tf_keras imports these, if installed, for data and layers that the kit does not use: a fifth of TensorFlow's import.
_NOT_NEEDED = ("pandas", "scipy")


@dataclass(frozen=True)
class RankGpu:
    """The GPU of a rank, or those of its towers."""

    name: str
    identity: str  # index or UUID, which differs from those of others of its host; several are separated by commas


def bind_cores(config: RunConfig, local_rank: int) -> tuple[RunConfig, list[list[int]]]:
    """Bind this process to its cores; return them, and if rank groups swap cores, then those of the other groups.

    A process with several towers has the cores of all of them; no tower is bound to its own. The returned configuration
    has cores per node and threads per rank, even if no launcher has set them.
    """
    available = affinity.usable_cores()
    nodes_here = max(1, placement.local_size() * config.towers // config.ranks_per_node)
    per_node = config.system.cores_per_node or placement.share(len(available), nodes_here)
    config = config.on_cores(per_node, placement.share(per_node, config.ranks_per_node))
    shape = config.ranks_per_node, per_node, config.threads_per_rank or 1
    groups = len(config.launch.rank_groups) if config.launch.rank_groups_at_once else 1  # side by side, all of one size
    group_order = [(placement.rank_group() + number) % groups for number in range(groups)]
    firsts = [local_rank + number * config.ranks for number in group_order]
    core_sets = [
        sorted({core for n in range(config.towers) for core in placement.cores_of_rank(available, first + n, *shape)})
        for first in firsts
    ]
    placement.bind(core_sets[0])
    return config, core_sets


def start_tensorflow(
    config: RunConfig, local_rank: int, threads: int, folder: Path, secret: Secret | None
) -> RankGpu | None:
    """Return the GPU of this rank, if any, with TensorFlow imported and limited to it and to so many threads.

    folder, secret: as `distribution.prepare` takes them.
    Raises ConfigError if device=gpu and there is no GPU.
    """
    # TensorFlow loads a Keras itself. The kit uses tf_keras; loading Keras 3 too would take 2 s.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # TensorFlow leaves oneDNN off on CPUs without AVX-512, where it makes VGG16 1.5 and AlexNet 3.6 times faster.
    if config.distribution.onednn == "always":
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    if config.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    distribution.prepare(config, folder, secret)
    with without(_NOT_NEEDED):
        import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(distribution.inter_op_threads(config))
    gpu = None if config.device == "cpu" else _rank_gpus(local_rank, config.towers)
    if config.device == "cpu" and config.towers > 1:
        [processor] = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(config.towers)]
        tf.config.set_logical_device_configuration(processor, parts)
    if config.distribution.backend == "horovod":
        import horovod.tensorflow  # noqa: F401  here, so that its time counts as import
    gc.freeze()  # modules stay until the end; to search them for garbage would pause a timed step for 0.4 s
    return gpu


@contextmanager
def without(packages: Iterable[str]) -> Iterator[None]:
    """Within this context these packages seem not installed, except those that are imported already."""
    hidden = [package for package in packages if package not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: an import raises ModuleNotFoundError
    try:
        yield
    finally:
        for package in hidden:
            del sys.modules[package]


def _rank_gpus(local_rank: int, towers: int) -> RankGpu:
    """Limit TensorFlow to the GPU of this rank, or to one for each of its towers, and return it.

    Raises ConfigError if there are too few.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) < towers:
        raise ConfigError(
            f"device=gpu: TensorFlow finds {len(gpus) or 'no'} GPU{'s' * (len(gpus) > 1)} on {socket.gethostname()}, "
            f"{towers} needed; under Slurm request them (--gpus-per-node), in Singularity they need --nv; or use "
            "device=cpu"
        )
    # Slurm may show each rank only its own GPU. The roll call detects two ranks with the same one.
    indices = range(towers) if towers > 1 else [local_rank % len(gpus)]
    tf.config.set_visible_devices([gpus[index] for index in indices], "GPU")
    for index in indices:
        tf.config.experimental.set_memory_growth(gpus[index], True)
    name = tf.config.experimental.get_device_details(gpus[indices[0]]).get("device_name", "GPU")
    return RankGpu(name, ",".join(map(visible_gpu, indices)))


class Worker:
    """One rank of a job, from its task to its measurements."""

    def __init__(self, task: Task, part: PartWriter, clock: PhaseClock, standalone: Standalone | None) -> None:
        """Note configuration and code of the rank, before values of its host are added to the configuration.

        part: takes the rank's measurements.
        standalone: writes the record if there is no launcher.
        """
        self._task, self._part, self._clock, self._standalone = task, part, clock, standalone
        self._config = identity.config_of(task.config, placement.rank_group())
        self._config_hash = config_hash(task.config)
        launcher = task.expected.launcher
        source = files.digests(launcher.source) if launcher else files.source_files()
        self._details = roll_call.Details(values(task.config), source, environment.versions())
        conf = task.expected.conf
        self._other_conf = tuple(files.differing(conf, files.digests(conf)))
        affinity.use(task.config.system.smt)
        self._cores, self._throttling = affinity.usable_cores(), affinity.throttling()  # before it is bound to its own
        self._host, self._steal = environment.host(self._cores), counters.steal(self._cores)

    def work(self) -> distribution.Distribution:
        """Measure and record all of the task; returns the ranks, which are still joined.

        Raises ConfigError, PeerLost, and the errors of training and allreduce sweeps.
        """
        part, clock = self._part, self._clock
        self._config, self._core_sets = bind_cores(self._config, part.part.local_rank)
        config = self._config
        part.add(cores=self._core_sets[0], workers=config.workers_of(placement.global_rank()))
        shared = self._task.folder or Path(config.results)
        secret = Secret(protocol.secret_folder(self._task.folder)) if self._task.folder else None
        gpu = start_tensorflow(config, part.part.local_rank, len(part.part.cores), shared, secret)
        part.add(gpu=gpu.name if gpu else None)
        # The sampler is a process: some MPIs forbid starting one after the ranks have joined.
        with sampling(config.measure.usage_period_s, gpu.identity if gpu else None, clock, part):
            clock.enter("init")
            process.allow_open_files(config.ranks_of_job)
            ranks = distribution.join(config, shared, self._report)
            with ranks.exchanges():
                self._measure(ranks, gpu)
        return ranks

    def _report(self, reason: str) -> None:
        """Record why this process was ended."""
        part = self._part.part
        print(reason, file=sys.stderr, flush=True)
        self._part.add(failure=Failure(reason=reason, rank=part.rank, host=part.host, phase=self._clock.phase))

    def _measure(self, ranks: distribution.Distribution, gpu: RankGpu | None) -> None:
        """Measure with these ranks, and record the results. Raises ConfigError if other rank groups do not come."""
        task, config = self._task, self._config
        environment.check_mpi(config.container.mpi_home)
        all_ranks: AllRanks = ranks
        if task.config.launch.rank_groups and task.folder:
            rank = placement.first_rank() + ranks.rank
            all_ranks = tcp_group.connect_on_machine(task.folder, rank, task.config.ranks_of_job)
        elif config.launch.rounds:
            all_ranks = tcp_group.connect_joined(ranks, self._key)
        context = Context(
            config=config,
            distribution=ranks,
            all_ranks=all_ranks,
            clock=self._clock,
            part=self._part,
            repeat=task.repeat,
            rounds=task.rounds,
            core_sets=self._core_sets,
            meter=counters.Meter(ranks.local_rank == 0, gpus.reader(gpu.identity) if gpu else None),
            gate=QuotaGate(task.folder, ranks.rank) if task.quotas else QuotaGate(),
            folder=task.folder,
            checkpoints=files.checkpoints(task.folder) if task.folder and config.measure.epochs else None,
            key=self._key,
        )
        self._hold_roll_call(ranks, all_ranks, gpu)
        answers = _run(context)
        if note := affinity.throttling_note(self._throttling):
            self._part.add(notes=[note])
            print(f"note: {note}", flush=True)
        folder = task.folder or (self._standalone and self._standalone.folder)
        if answers and folder and ranks.rank == 0:
            self._part.add(attachments=predictions.write_predictions(folder, answers))

    def _key(self) -> bytes:
        """Return the secret of the job. Raises OSError."""
        folder = self._task.folder or (self._standalone and self._standalone.folder)
        assert folder, "the ranks have not joined"
        return Secret(protocol.secret_folder(folder)).key()

    def _hold_roll_call(self, ranks: distribution.Distribution, all_ranks: AllRanks, gpu: RankGpu | None) -> None:
        """Hold the roll call; rank 0 records the hosts. Raises ConfigError."""
        config, part = self._config, self._part
        part.add(rank=all_ranks.rank, local_rank=ranks.local_rank, node=ranks.rank // config.ranks_per_node)
        if self._standalone:
            self._standalone.agree_on_folder(config, self._task.sweep, ranks)
        if self._host.state:
            withheld = counters.steal(self._cores)
            self._host.state.steal_fraction = counters.steal_fraction(self._steal, withheld, len(self._cores))
        library = environment.mpi_library()
        answer = roll_call.Present(
            rank=all_ranks.rank,
            host=self._host,
            cores=tuple(part.part.cores),
            gpu=gpu.identity if gpu else None,
            mpi=library.version if library else None,
            config_hash=self._config_hash,
            source_digest=files.source_digest(self._details.source),
            packages=self._details.packages,
            other_conf=self._other_conf,
        )
        present = roll_call.hold(answer, self._details, self._task.expected, config, all_ranks.gather)
        if all_ranks.rank == 0:
            hosts = list({answer.host.host: answer.host for answer in present}.values())
            remarks = [*roll_call.remarks(hosts, config), *roll_call.other_conf(present)]
            notes = [note for note in remarks if note not in part.part.notes]
            part.add(environment=environment.collect(hosts), notes=notes)
            for note in notes:
                print(f"note: {note}", flush=True)


def _run(context: Context) -> predictions.Predictions | None:
    """Sweep allreduces, or train; returns the model's answers at the end, if there are any."""
    if context.config.allreduce_sweep:
        from train.allreduce import sweep

        sweep.run(context)
        return None
    if context.config.distribution.asynchronous:
        from train.loop import asynchronous

        asynchronous.train(context)
        return None
    from train.loop import training

    return training.train(context)


@contextmanager
def sampling(period_s: float | None, gpu: str | None, clock: PhaseClock, part: PartWriter) -> Iterator[None]:
    """Sample the resource use of this process within this context, and record it; without a period nothing.

    The samples so far are recorded after a timed phase, for watchers of training over epochs.
    """
    if period_s is None:
        yield
        return
    sampler = Sampler(period_s, gpu)

    def record_samples(phase: str, _seconds: Mapping[str, float]) -> None:
        if phase == "evaluate" and (samples := sampler.new_samples(clock.started_at)):
            part.add(samples=samples)

    clock.listen(record_samples)
    try:
        yield
    finally:
        part.add(samples=sampler.stop(clock.started_at))
