"""Training over epochs that continues when hosts are lost or return: Horovod's elastic mode.

Every rank keeps the last committed state: variables and progress. When ranks are lost, the others return to it, divide
the rest of the epoch among themselves, and continue; new ranks get the state first. The batch of a rank does not
change. So the global batch changes with the ranks, and the learning rate too if it is scaled.
"""

import socket
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypedDict

import tensorflow as tf
from horovod.runner.elastic.worker import HostUpdateResult

from record.schema import GroupChange
from train.distribution.horovod import ElasticHorovod, State
from train.loop.epochs import Progress, train_epochs
from train.loop.learner import Learner
from train.predictions import Predictions
from train.task import Context


class _Values(TypedDict):
    """The committed values beside the variables."""

    progress: Progress
    hosts: tuple[str, ...]
    resizes: tuple[GroupChange, ...]


_Exchanged = _Values | tuple[int, int, int]  # or the latest change of the hosts, from rank 0


class Committed(State):
    """The committed state: the variables, the progress, the host of each rank, and every change of these."""

    def __init__(self, ranks: ElasticHorovod, variables: Callable[[], Sequence[tf.Variable]]) -> None:
        """Commit the variables as they are, before any progress.

        ranks: exchange the state.
        variables: returns those of model and optimizer, which change when ranks change.
        """
        self._ranks, self._variables = ranks, variables
        self.progress = Progress()
        self.hosts: tuple[str, ...] = ()
        self.resizes: tuple[GroupChange, ...] = ()
        self._copy()
        super().__init__(
            lambda value: ranks.from_rank_0(value, _Exchanged),
            lambda: ranks.rank,
            progress=self.progress,
            hosts=self.hosts,
            resizes=self.resizes,
        )
        self._last_updated_timestamp = ranks.hosts_change().at_s  # this rank was started after it

    def _copy(self) -> None:
        self._copies = [tf.identity(variable) for variable in self._variables()]

    def check_host_updates(self) -> None:
        """Raise Horovod's HostsUpdatedInterrupt, on all ranks, if the launcher has noted a change of the hosts."""
        change = self._ranks.hosts_change()
        self.on_hosts_updated(change.at_s, HostUpdateResult(change.kind))
        super().check_host_updates()

    def save(self) -> None:
        """Commit the present state."""
        self._copy()
        super().save()

    def restore(self) -> None:
        """Return to the last commit."""
        for variable, value in zip(self._variables(), self._copies, strict=True):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        """Take and commit the state of rank 0."""
        with self._ranks.exchanges():
            self._ranks.broadcast(self._variables())
        self._copy()
        super().sync()


def resized(state: Committed, hosts: tuple[str, ...], at_s: float) -> tuple[GroupChange, ...]:
    """Return all changes of the ranks until they are on these hosts, `at_s` seconds after the launch of the job."""
    if not state.hosts or hosts == state.hosts:
        return state.resizes
    lost, added = Counter(state.hosts) - Counter(hosts), Counter(hosts) - Counter(state.hosts)
    changes = [*(f"lost {host}" for host in sorted(lost)), *(f"{host} came" for host in sorted(added))]
    latest = GroupChange(
        at_s=at_s,
        epoch=len(state.progress.epochs) + 1,
        step=state.progress.steps_before,
        ranks_before=len(state.hosts),
        ranks_after=len(hosts),
        cause=", ".join(changes),
    )
    return (*state.resizes, latest)


def train_elastically(
    context: Context, ranks: ElasticHorovod, learner: Learner, check_in: Callable[[], None]
) -> Predictions | None:
    """Train whole epochs on as many ranks as there are; returns the model's answers after the last one.

    check_in: checks what the ranks must agree on; called whenever they have changed.
    Raises NotFinite, RankDropped, and the errors of `check_in`.
    """
    state = Committed(ranks, learner.variables)
    state.register_reset_callbacks([learner.adapt])

    def commit(progress: Progress) -> None:
        context.clock.enter("checkpoint")
        state.progress = progress
        state.commit()

    def rejoin() -> None:
        context.clock.enter("init")
        ranks.rejoin()
        context.clock.enter("broadcast")

    def train(state: Committed) -> Predictions | None:
        check_in()
        _note_hosts(context, ranks, state)
        return train_epochs(context, learner, state.progress, commit)

    context.clock.enter("broadcast")
    return ranks.run(train, state, rejoin)


def _note_hosts(context: Context, ranks: ElasticHorovod, state: Committed) -> None:
    """Commit the hosts of the ranks; rank 0 records the changes that its part does not have yet."""
    hosts = tuple(ranks.gather(socket.gethostname(), str))
    state.resizes = resized(state, hosts, context.clock.elapsed_s())
    state.hosts = hosts
    state.save()
    if ranks.rank == 0:
        context.part.add(resizes=list(state.resizes[len(context.part.part.resizes) :]))
