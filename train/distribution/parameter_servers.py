"""Ranks joined by TensorFlow's ParameterServerStrategy: workers, of which the first also hold the parameter servers.

With distribution.servers_on=nodes each server is in a separate process, a rank after the workers.

Rank 0 coordinates: it makes the variables on the servers, and gives each worker its steps. A worker applies its
gradients without waiting for others. Worker and server of a rank are servers of TensorFlow in its process, whose
threads share its cores; their work needs no Python.

As TensorFlow's ClusterCoordinator does, rank 0 has a thread for each worker, which starts one step after the other
there. The ClusterCoordinator itself is not used: it does not say which worker made a step, and it waits without a limit
for a worker that is gone.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise

import tensorflow as tf

from train.distribution import Result
from train.distribution.cluster import (
    COORDINATOR,
    SERVER,
    WORKER,
    Cluster,
    Report,
    check_servers,
    time_limited,
    while_servers_answer,
)
from train.distribution.strategies import StrategyRanks, taking_port
from train.transport import PeerLost, RankUnresponsive

ASK_EVERY_S = 10.0  # whether all tasks still answer
_STEP_WITHIN_S = 40.0
_FIRST_STEP_WITHIN_S = 300.0  # it is traced, which takes minutes on shared cores
_TIMES_LONGER = 4  # than the longest step before: how long a step may take


def step_limit_s(longest_s: float | None) -> float:
    """Return how long a step may take, in s. longest_s: the longest one of the phase before; None: it is the first."""
    return _FIRST_STEP_WITHIN_S if longest_s is None else max(_STEP_WITHIN_S, _TIMES_LONGER * longest_s)


class ParameterServers(StrategyRanks):
    """Ranks joined by parameter servers. The methods that make or run something are for rank 0 alone."""

    def __init__(self, cluster: Cluster, report: Report) -> None:
        """Start the servers of this rank; on rank 0 make the strategy when those of all ranks run.

        Raises ConfigError if a port is taken.
        """
        super().__init__(cluster)
        self._cluster, self.workers = cluster, len(cluster.ranks_with(WORKER))
        self._longest_s: float | None = None  # step of the last `run`
        self._servers = [_serve(cluster, task) for task in (WORKER, SERVER) if task in self._peer.ports]
        self.barrier()
        self._group.on_wait = while_servers_answer(self._peers)
        if COORDINATOR in self._peer.ports:
            self._strategy = _strategy(cluster, report)
            self._threads = ThreadPoolExecutor(self.workers)
        self.barrier()

    def exchange(self, gradients: list[tf.Tensor], variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
        """Return the gradients unchanged: each worker applies its own."""
        return gradients

    def on(self, rank: int) -> AbstractContextManager[None]:
        """Return a context whose operations run on the worker of a rank."""
        return tf.device(f"/job:{WORKER}/task:{rank}")

    def run(self, step: Callable[[int], Result], count: int) -> list[list[Result]]:
        """Return the results of `step` on each worker, by rank: each makes `count` steps at its own pace.

        step: is called with the rank; its operations run on that rank's worker.
        Raises RankUnresponsive, and the errors of a step.
        """
        ends = {rank: [time.monotonic()] for rank in range(self.workers)}  # the begin of the first, the end of each

        def steps(rank: int) -> list[Result]:
            results = []
            with self.on(rank):
                for _ in range(count):
                    results.append(step(rank))
                    ends[rank].append(time.monotonic())
            return results

        futures = [self._threads.submit(steps, rank) for rank in range(self.workers)]
        busy = {*futures}
        while busy:
            done, busy = wait(busy, ASK_EVERY_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            if busy:
                check_servers(self._peers, range(self.size))
                self._check_steps({rank: ends[rank][-1] for rank, future in enumerate(futures) if future in busy})
        durations_s = (end - begin for times in ends.values() for begin, end in pairwise(times))
        self._longest_s = max(durations_s, default=self._longest_s)
        return [future.result() for future in futures]

    def _check_steps(self, busy: Mapping[int, float]) -> None:
        """Raise RankUnresponsive if a rank answers, but has made no step for too long.

        busy: the ranks that have not made all steps yet -> the time of their last one.
        """
        limit_s = step_limit_s(self._longest_s)
        if slow := [rank for rank, at in busy.items() if time.monotonic() - at > limit_s]:
            ranks = ", ".join(f"rank {rank} ({self._peers[rank].host})" for rank in slow)
            raise RankUnresponsive(f"{ranks} made no step within {limit_s:.0f} s, though it answers")

    @contextmanager
    def exchanges(self) -> Iterator[None]:
        """Return a context in which an error of TensorFlow that says that a task is gone raises PeerLost."""
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            message = str(error.message)
            tasks = re.findall(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)", message)
            ranks = sorted({self._cluster.ranks_with(task)[int(index)] for task, index in tasks})
            lost = [f"rank {rank} ({self._peers[rank].host})" for rank in ranks]
            raise PeerLost(f"an exchange with {', '.join(lost) or 'the other ranks'} failed: {message}") from error

    # The methods below need ranks that agree on something. These never do, and asynchronous training calls none.

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Raise NotImplementedError: a variable has one value."""
        raise NotImplementedError("parameter servers have one value of each variable")

    average = broadcast

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Raise NotImplementedError."""
        raise NotImplementedError("the workers of parameter servers exchange nothing with each other")


def _serve(cluster: Cluster, task: str) -> tf.distribute.Server:
    """Return TensorFlow's server for a task of this rank. Raises ConfigError if its port is taken meanwhile."""
    settings = tf.compat.v1.ConfigProto(  # a server does not use the settings of its process
        intra_op_parallelism_threads=tf.config.threading.get_intra_op_parallelism_threads(),
        inter_op_parallelism_threads=tf.config.threading.get_inter_op_parallelism_threads(),
    )
    spec = tf.train.ClusterSpec(cluster.spec())
    index = cluster.ranks_with(task).index(cluster.group.rank)
    with taking_port(cluster, task):
        return tf.distribute.Server(spec, task, index, protocol="grpc", config=settings)


def _strategy(cluster: Cluster, report: Report) -> tf.distribute.Strategy:
    """Return the strategy, once the servers of all ranks run."""
    spec = tf.train.ClusterSpec(cluster.spec())
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec, task_type=COORDINATOR, task_id=0, rpc_layer="grpc"
    )
    with time_limited(cluster, report):
        return tf.distribute.ParameterServerStrategy(resolver)
