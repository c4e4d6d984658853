"""Training over epochs that goes on when hosts die or come back: Horovod's elastic mode.

Every rank keeps the state that was last committed: variables and progress. When ranks are lost those that are left
return to it, share the rest of the epoch out among themselves, and go on; a host that comes is told the state first.
The batch of a rank stays as it is, so that the global batch changes with the ranks, and the learning rate with it where
it is scaled.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
import tf_keras
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError

from train.config.schema import Config
from train.datasets import Data
from train.distribution.backends import Horovod, LeftBehind
from train.loop import measure, step
from train.rank.phases import PhaseClock
from train.record.record import Resize

_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
MEET_WITHIN_S = 120  # ranks that come late are still importing TensorFlow
LOST_AFTER_S = 10  # a rank that is silent for so long during an exchange is lost


@contextmanager
def _exchange_errors() -> Iterator[None]:
    """What TensorFlow raises where an exchange between ranks failed, in Horovod's words, which elastic mode acts on.

    The message tells what has failed: by its type, or within a compiled step by its name, which so begins with Horovod.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if "Horovod" not in str(error.message):
            raise
        raise HorovodInternalError(str(error.message)) from error


class ElasticHorovod(Horovod):
    """Ranks that may become fewer or more."""

    def meet(self) -> None:
        """Meet the other ranks: patiently, then once more, with as little patience as the training needs.

        Horovod has one timeout for the meeting and for all exchanges after it; it reads it when it starts.
        """
        os.environ[_TIMEOUT] = str(MEET_WITHIN_S)
        super().meet()
        self._hvd.shutdown()
        os.environ[_TIMEOUT] = str(LOST_AFTER_S)
        super().meet()

    def meet_again(self) -> None:
        """Meet those that there are now. Raises LeftBehind where they go on without this rank."""
        self._hvd.shutdown()
        try:
            self.meet()
        except ValueError as error:
            raise LeftBehind(f"rank {self.rank} cannot meet the others: {error}") from error

    def tell(self, value: Any) -> Any:
        """The value of rank 0, on every rank."""
        from horovod.tensorflow.functions import broadcast_object

        with _exchange_errors():
            return broadcast_object(value)


class _State(ObjectState):
    """What is committed: the variables, the progress, the host of each rank, and every change of these."""

    def __init__(self, joined: ElasticHorovod, variables: Callable[[], Sequence[tf.Variable]]) -> None:
        self._joined, self._variables = joined, variables
        self.progress = measure.Progress()
        self.hosts: tuple[str, ...] = ()
        self.resizes: tuple[Resize, ...] = ()
        self._keep()
        super().__init__(joined.tell, lambda: joined.rank, progress=self.progress, hosts=(), resizes=())

    def _keep(self) -> None:
        self._kept = [tf.identity(variable) for variable in self._variables()]

    def save(self) -> None:
        self._keep()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self._variables(), self._kept, strict=True):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        with _exchange_errors():
            self._joined.broadcast(self._variables())
        self._keep()
        super().sync()


def change(before: Sequence[str], after: Sequence[str]) -> str:
    """What happened between two lists of the hosts of all ranks, in words."""
    lost, came = Counter(before) - Counter(after), Counter(after) - Counter(before)
    words = [f"lost {host}" for host in sorted(lost)] + [f"{host} came" for host in sorted(came)]
    return ", ".join(words)


class _Learner:
    """The model with what depends on the number of ranks: optimizer, compiled step, share of the data."""

    def __init__(self, config: Config, joined: ElasticHorovod, data: Data, model: tf_keras.Model) -> None:
        self._config, self._joined, self._data, self.model = config, joined, data, model
        self._build()

    def _build(self) -> None:
        config, joined = self._config, self._joined
        self._data.share_out(joined.rank, joined.size)
        self.optimizer = step.make_optimizer(
            config.optimizer, joined.size, config.precision, self.model, self._data.steps_left(0)
        )
        self.train_step = step.make_train_step(self.model, self.optimizer, joined, config.optimizer.label_smoothing)

    def variables(self) -> list[tf.Variable]:
        return [*self.model.variables, *self.optimizer.variables()]

    def adapt(self) -> None:
        """Begin again with as many ranks as there are now; what the optimizer has gathered stays."""
        gathered = [tf.identity(variable) for variable in self.optimizer.variables()]
        self._build()
        for variable, value in zip(self.optimizer.variables(), gathered, strict=True):
            variable.assign(value)


def train_epochs(
    config: Config,
    joined: ElasticHorovod,
    data: Data,
    model: tf_keras.Model,
    clock: PhaseClock,
    introduce: Callable[[], None],
) -> tuple[measure.Measurement, list[Resize]]:
    """Train whole epochs on as many ranks as there are: what this rank measured, and when their number changed.

    introduce: exchanges what ranks must know of each other. Called whenever the ranks have changed.
    Raises measure.NotFinite, LeftBehind.
    """
    learner = _Learner(config, joined, data, model)
    evaluation_step = step.make_evaluation_step(model)
    state = _State(joined, learner.variables)
    state.register_reset_callbacks([learner.adapt])
    step_times_s: list[float] = []

    def commit(progress: measure.Progress) -> None:
        clock.enter("checkpoint")
        state.progress = progress
        state.commit()

    def meet_again() -> None:
        clock.enter("init")
        joined.meet_again()
        clock.enter("broadcast")

    def go_on(state: _State) -> measure.Measurement:
        with _exchange_errors():
            introduce()
            hosts = tuple(joined.gather(socket.gethostname()))
            if state.hosts and hosts != state.hosts:
                resize = Resize(
                    at_s=clock.elapsed_s(),
                    epoch=len(state.progress.epochs) + 1,
                    step=state.progress.steps_before,
                    ranks_before=len(state.hosts),
                    ranks_after=len(hosts),
                    cause=change(state.hosts, hosts),
                )
                state.resizes = (*state.resizes, resize)
                print(f"{resize.cause}: going on with {resize.ranks_after} ranks from step {resize.step}", flush=True)
            state.hosts = hosts
            state.save()
            return measure.train_epochs(
                learner.train_step,
                evaluation_step,
                model,
                data,
                config.measure.epochs,
                joined,
                clock,
                state.progress,
                commit,
                config.distribution.commit_steps,
                step_times_s,
                ordered=config.dataset.ordered,
            )

    clock.enter("broadcast")
    measured = run_fn(go_on, meet_again)(state)
    return measured, list(state.resizes)
