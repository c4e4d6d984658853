"""The work of one rank: take its cores, meet the others, hold the roll call, measure."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from train import distribution, startup
from train.config import identity
from train.config.identity import config_hash, values
from train.distribution import Distribution
from train.rank import counters, environment, gpus, placement, process, roll_call
from train.rank.phases import PhaseClock
from train.rank.quota_gate import QuotaGate
from train.rank.sampler import Sampler
from train.record import files, paths, predictions, protocol
from train.record.parts import PartWriter
from train.record.record import Failure
from train.standalone import Standalone
from train.task import Context, Task
from train.transport import tcp_group
from train.transport.rendezvous import Secret
from train.transport.tcp_group import AllRanks


class Worker:
    """One rank of a job, from its task to its measurements."""

    def __init__(self, task: Task, part: PartWriter, clock: PhaseClock, standalone: Standalone | None) -> None:
        """Note what the rank runs, before what it finds on its host is added to the configuration.

        part: takes what the rank measures.
        standalone: keeps the record, where there is no launcher.
        """
        self._task, self._part, self._clock, self._standalone = task, part, clock, standalone
        self._config = identity.config_of(task.config, placement.rank_group())
        self._config_hash = config_hash(task.config)
        self._details = roll_call.Details(values(task.config), files.source_files(), environment.versions())
        self._cores = placement.usable_cores()  # before this process is bound
        self._host, self._steal = environment.host(self._cores), counters.steal(self._cores)

    def work(self) -> Distribution:
        """Measure and record all that was asked for; returns the ranks, which are still joined.

        Raises ConfigError, PeerLost, RankDropped, and what training and allreduce sweeps raise.
        """
        part, clock = self._part, self._clock
        self._config, self._core_sets = startup.bind_cores(self._config, part.part.local_rank)
        config = self._config
        part.add(cores=self._core_sets[0], workers=config.workers_of(placement.global_rank()))
        shared = self._task.folder or Path(config.results)
        secret = Secret(protocol.secret_folder(self._task.folder)) if self._task.folder else None
        gpu = startup.start_tensorflow(config, part.part.local_rank, len(part.part.cores), shared, secret)
        part.add(gpu=gpu.name if gpu else None)
        # The sampler is a process: some MPIs forbid to start one when the ranks have met.
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

    def _measure(self, ranks: Distribution, gpu: startup.Gpu | None) -> None:
        """Measure with these ranks, and record it. Raises ConfigError if other rank groups of the job do not come."""
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
            core_sets=self._core_sets,
            meter=counters.Meter(ranks.local_rank == 0, gpus.count_reader(gpu.identity) if gpu else None),
            gate=QuotaGate(task.folder, ranks.rank) if task.quotas else QuotaGate(),
            folder=task.folder,
            checkpoints=paths.checkpoints(task.folder) if task.folder and config.measure.epochs else None,
            key=self._key,
            hold_roll_call=lambda: self._hold_roll_call(ranks, all_ranks, gpu),
        )
        if not config.distribution.elastic:  # there it comes later: ranks that are already training take part in it
            context.hold_roll_call()
        answers = _run(context)
        folder = task.folder or (self._standalone and self._standalone.folder)
        if answers and folder and ranks.rank == 0:
            self._part.add(attachments=predictions.write(folder, answers))

    def _key(self) -> bytes:
        """Return the secret of the job. Raises OSError."""
        folder = self._task.folder or (self._standalone and self._standalone.folder)
        assert folder, "the ranks have not met"
        return Secret(protocol.secret_folder(folder)).key()

    def _hold_roll_call(self, ranks: Distribution, all_ranks: AllRanks, gpu: startup.Gpu | None) -> None:
        """Hold the roll call; rank 0 records what it tells of the hosts. Raises ConfigError."""
        config, part = self._config, self._part
        part.add(rank=all_ranks.rank, local_rank=ranks.local_rank, node=ranks.rank // config.ranks_per_node)
        if self._standalone:
            self._standalone.agree_on_folder(config, self._task.sweep, ranks)
        if self._host.state:
            self._host.state.steal_fraction = counters.steal_fraction(
                self._steal, counters.steal(self._cores), len(self._cores)
            )
        library = environment.mpi_library()
        me = roll_call.Present(
            rank=all_ranks.rank,
            host=self._host,
            cores=tuple(part.part.cores),
            gpu=gpu.identity if gpu else None,
            mpi=library.version if library else None,
            config_hash=self._config_hash,
            source_digest=files.source_digest(self._details.source),
            packages=self._details.packages,
        )
        present = roll_call.hold(me, self._details, self._task.expected, config, all_ranks.gather)
        if all_ranks.rank == 0:
            hosts = list({one.host.host: one.host for one in present}.values())
            notes = [note for note in roll_call.remarks(hosts, config) if note not in part.part.notes]
            part.add(environment=environment.collect(hosts), notes=notes)
            for note in notes:
                print(f"note: {note}", flush=True)


def _run(context: Context) -> predictions.Predictions | None:
    """Sweep allreduces, or train; returns what the model answered at the end, where there is something to answer."""
    if context.config.allreduce_sweep:
        from train.loop import allreduce_sweep

        allreduce_sweep.run(context)
        return None
    if context.config.distribution.asynchronous:
        from train.loop import asynchronous

        asynchronous.train(context)
        return None
    from train.loop import training

    return training.train(context)


@contextmanager
def sampling(period_s: float | None, gpu: str | None, clock: PhaseClock, part: PartWriter) -> Iterator[None]:
    """Sample what this process uses while the block runs, and record it; without a period nothing.

    The samples so far are recorded after a timed phase: who watches a training over epochs sees them.
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
