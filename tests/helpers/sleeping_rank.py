"""A rank without TensorFlow and Horovod, which takes a second to start instead of ten: it computes nothing, and sleeps.

All else is real: the process with its cores, its connections to the other ranks, the loop with its barriers, the part
that it writes, its end. `patched_ranks.SLEEPING` makes the ranks of a launch such ranks; their records say so.

It has only what a launch with synthetic images needs, on the CPU. Exchanges are gathers over TCP, by a `TcpGroup`.
"""

import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np

from record.schema import MatrixProduct
from train import distribution
from train.config.run_config import RunConfig
from train.distribution import Distribution, Single
from train.rank import placement
from train.transport import connections, rendezvous, tcp_group
from train.transport.connections import Address
from train.transport.rendezvous import IMPORT_WITHIN_S, Secret
from train.transport.tcp_group import TcpGroup

STEP_S = 0.004
NOTE = "a rank of a test: instead of computing, a step sleeps"


class Weight:
    """A variable with four values, which no step changes."""

    shape, dtype, handle = (4,), types.SimpleNamespace(size=4, is_floating=True), None

    def numpy(self) -> np.ndarray:
        """Return the values."""
        return np.zeros(4, np.float32)


class Model:
    """A model of one weight, without layers."""

    layers = submodules = ()

    def __init__(self) -> None:
        self.variables = self.trainable_variables = [Weight()]


class TcpRanks(Distribution):
    """Ranks that a `TcpGroup` joins."""

    def __init__(self, group: TcpGroup, allreduce: bool = True) -> None:
        self._group, self.allreduces = group, allreduce
        self.rank, self.size, self.local_rank = group.rank, group.size, placement.local_rank()

    def group(self, ranks: int, allreduce: bool) -> Distribution:
        """Return the first ranks of these."""
        if ranks == 1:
            return Single()
        channels = self._group._channels
        return TcpRanks(TcpGroup(self.rank, ranks, channels if self.rank else channels[: ranks - 1]), allreduce)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the element-wise sum over ranks."""
        return np.sum(self.gather(values.tolist(), list[float]), axis=0)

    def broadcast(self, variables: object) -> None:
        """Wait for all ranks: all have the same values."""
        self.barrier()

    average = broadcast

    def gather(self, value: object, kind: object) -> list:
        """Return the values of all ranks."""
        return self._group.gather(value, kind)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._group.barrier()

    exchange = allreduce = None  # nobody calls them: there are no gradients


def _joined(folder: Path, secret: Secret | None, size: int) -> TcpGroup:
    """Return the ranks of a job, which find each other by a file in the run folder."""
    rank, path = placement.global_rank(), folder / "sleeping-ranks"
    key = secret.key() if secret else b"k" * 64  # started by hand
    if rank:
        host, port = rendezvous.wait_for_file(path, "see its log").split()
        channel = connections.connect(Address(host, int(port)), key, rank)
        return tcp_group.group_from_connections(rank, size, [(0, channel)])
    with connections.listen(connections.bind_host([])) as listener:
        rendezvous.write_file(path, " ".join(map(str, listener.getsockname())))
        accepted = connections.accept(listener, key, size - 1, IMPORT_WITHIN_S)
    path.unlink()
    return tcp_group.group_from_connections(0, size, accepted)


def _sleeping_steps(_model: Model, _optimizer: object, groups: list[Distribution], *_: object) -> list[Callable]:
    """Return a step for each group of ranks, in which those that exchange gradients wait for each other."""

    def step_of(ranks: Distribution) -> Callable:
        def step(_images: object, _labels: object) -> tuple[float, float, float]:
            time.sleep(STEP_S)
            computed_at = time.time()
            if isinstance(ranks, TcpRanks) and ranks.allreduces:
                ranks.barrier()
            return 1.0, 0.0, computed_at

        return step

    return [step_of(ranks) for ranks in groups]


def _multiply(*_: object) -> MatrixProduct:
    """Return how long NumPy multiplies two small matrices."""
    matrix, begin = np.ones((64, 64)), time.perf_counter()
    matrix @ matrix
    return MatrixProduct(64, [time.perf_counter() - begin])


def changed(_start_tensorflow: Callable) -> Callable:
    """Return what is called in place of `train.worker.start_tensorflow`."""

    def start(config: RunConfig, _local_rank: int, _threads: int, folder: Path, secret: Secret | None) -> None:
        distribution.prepare(config, folder, secret)
        for name in ("tensorflow", "tf_keras", "horovod"):
            sys.modules[name] = MagicMock()
        hvd = sys.modules["horovod.tensorflow"] = types.ModuleType("horovod.tensorflow")
        hvd.__file__ = __file__
        hvd.mpi_built = hvd.gloo_built = hvd.nccl_built = hvd.cuda_built = lambda: False
        sys.modules["horovod"].tensorflow = hvd
        distribution._join_horovod = lambda config: TcpRanks(_joined(folder, secret, config.ranks))

        from train.loop import devices, step

        devices._local_devices = list
        step.make_train_steps = _sleeping_steps
        step.make_exchange_step = lambda _model, ranks: ranks.barrier
        step.make_optimizer = lambda *_: types.SimpleNamespace(variables=list)

        from train.loop import roofline, training

        roofline.multiply = _multiply
        training.make_model = lambda context: context.part.add(notes=[NOTE]) or Model()

    return start
