import json
import re
import signal
import socket
import subprocess
import sys
import threading
import types
from contextlib import suppress

import msgspec
import pytest

from tests.helpers import ROOT
from tests.helpers.thread_ranks import on_all_ranks
from train.config.checks import ConfigError
from train.config.compose import load
from train.distribution import cluster
from train.distribution.cluster import Cluster, Peer
from train.transport import RankUnresponsive, connections
from train.transport.rendezvous import write_file

KEY = b"k" * 64


def worker(port=1, host="n1"):
    return Peer(host, "127.0.0.1", {"worker": port})


def settings(*overrides):
    return load(["nodes=4", *overrides]).distribution


def announce(folder, rank, peer):
    write_file(folder / f"rank-{rank}", msgspec.json.encode(peer).decode())


def test_all_workers_are_returned_when_they_have_come(tmp_path):
    announce(tmp_path, 0, worker(1))
    threading.Timer(0.2, announce, (tmp_path, 1, worker(2, "n2"))).start()
    assert cluster.wait_for_peers(tmp_path, 2) == [worker(1), worker(2, "n2")]


def test_a_rank_that_does_not_come_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "START_WITHIN_S", 0.1)
    announce(tmp_path, 0, worker())
    announce(tmp_path, 2, worker())
    with pytest.raises(ConfigError, match="rank 1, 3 did not come within 0 s: see its log and its host"):
        cluster.wait_for_peers(tmp_path, 4)


def test_ranks_without_a_launcher_share_a_secret_by_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", "7")
    folder = tmp_path / "results"
    with cluster.shared_secret(folder, 0) as first, cluster.shared_secret(folder, 1) as second:
        assert (key := first.key()) == second.key()
    with cluster.shared_secret(folder, 0) as another:
        assert another.key() != key
    assert not [*folder.iterdir()]


def test_each_task_has_a_port_after_the_first_and_one_that_is_taken_is_named(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "3")
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        mwms = settings("distribution=mwms", f"distribution.port={port - 1}")
        with pytest.raises(ConfigError, match=rf"port={port - 1}: rank 3 cannot have port {port} of .*in use"):
            cluster.task_listeners(mwms, ("worker",), "127.0.0.1")
        monkeypatch.setattr(cluster.connections, "listen", lambda host, port: port)
        ports = cluster.task_listeners(settings(*PS, "distribution.port=20000"), ("worker", "ps"), "127.0.0.1")
        assert ports == {"worker": 20_003, "ps": 20_004}  # those of rank 0 come before


def test_a_worker_that_does_not_answer_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, and nobody listens there
        workers = [worker(listener.getsockname()[1]), worker(9), worker(closed.getsockname()[1], "n3")]
        with pytest.raises(ConfigError, match=r"rank 1 \(n1\) cannot reach rank 2 \(n3\) at 127.0.0.1:\d+: is there"):
            cluster.connect_group(1, workers, listener, KEY)


def test_ranks_connect_at_the_port_of_the_first_though_strangers_knock():
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        workers = [worker(listener.getsockname()[1]) for listener in (first, second)]
        socket.create_connection(first.getsockname()).close()

        def work(thread):
            listener = (first, second)[thread.rank]
            return cluster.connect_group(thread.rank, workers, listener, KEY).gather(f"rank {thread.rank}", str)

        assert on_all_ranks(2, work) == [["rank 0", "rank 1"]] * 2


PS = ["distribution=ps", "distribution.servers=2"]


@pytest.mark.parametrize(
    ("overrides", "ranks", "spec", "task"),
    [
        (["distribution=mwms"], 2, {"worker": ["a0:1", "a1:1"]}, {"type": "worker", "index": 1}),
        (  # the first ranks hold the parameter servers, and rank 0 their coordinator
            PS,
            3,
            {"worker": ["a0:1", "a1:1", "a2:1"], "ps": ["a0:2", "a1:2"], "chief": ["a0:3"]},
            {"type": "worker", "index": 2},
        ),
        (  # servers on separate nodes are ranks after the workers
            [*PS, "distribution.servers_on=nodes"],
            4,
            {"worker": ["a0:1", "a1:1"], "chief": ["a0:2"], "ps": ["a2:1", "a3:1"]},
            {"type": "ps", "index": 1},
        ),
    ],
)
def test_tensorflow_gets_the_addresses_of_all_tasks_and_which_one_this_is(overrides, ranks, spec, task):
    distribution = settings(*overrides)
    tasks = [cluster.rank_tasks(distribution, rank, ranks - distribution.server_nodes) for rank in range(ranks)]
    peers = [
        Peer("n", f"a{rank}", {task: port for port, task in enumerate(names, 1)}) for rank, names in enumerate(tasks)
    ]
    last = Cluster(peers, types.SimpleNamespace(rank=ranks - 1))
    assert json.loads(last.config()) == {"cluster": spec, "task": task}


@pytest.mark.parametrize(
    ("overrides", "workers", "problem"),
    [
        (["distribution=mwms"], 3, r"nodes x ranks_per_node=3: this is process 1 of 2\. Start as many"),
        ([*PS, "distribution.servers_on=nodes"], 2, r"ranks_per_node=2 \+ distribution\.servers=2: .* process 1 of 2"),
        (["distribution=mwms"], 2, "no launcher told this process of the other ranks; start them by"),
    ],
)
def test_processes_that_were_not_started_as_ranks_are_an_error(monkeypatch, tmp_path, overrides, workers, problem):
    monkeypatch.delenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", raising=False)
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    with pytest.raises(ConfigError, match=problem):
        cluster.connect(settings(*overrides), workers, None, tmp_path)


# A call of PyDLL keeps other Python threads from running, as TensorFlow's call does.
HANGS = """
import ctypes, socket, sys
from pathlib import Path
from train.transport import connections
from train.distribution import cluster
from train.transport.tcp_group import TcpGroup
from train.distribution.cluster import Peer

stopped = socket.create_server(("127.0.0.1", 0))  # the kernel accepts, and nobody answers
workers = [Peer(f"n{n}", "127.0.0.1", {"worker": stopped.getsockname()[1]}) for n in range(2)]
group = cluster.Cluster(workers, TcpGroup(0, 2, []))
with cluster.time_limited(group, print):
    pass
cluster.READY_WITHIN_S, connections.SILENCE_S = 0.5, 0.3
with cluster.time_limited(group, lambda why: Path(sys.argv[1]).write_text(why)):
    ctypes.PyDLL(None).sleep(60)
"""


@pytest.mark.slow
def test_a_rank_that_hangs_while_a_strategy_is_created_is_named_by_the_rank_that_waits(tmp_path):
    output = tmp_path / "message"
    done = subprocess.run([sys.executable, "-c", HANGS, str(output)], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, ""), done.stderr
    assert re.fullmatch(r"TensorFlow did not .* 0\.5 s: rank 1 \(n1\) at 127.* does not answer", output.read_text())


def test_a_rank_is_waited_for_as_long_as_all_its_servers_answer(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as answering, socket.create_server(("127.0.0.1", 0)) as stopped:
        threading.Thread(target=answer_all, args=(answering,), daemon=True).start()
        monkeypatch.setattr(connections, "SILENCE_S", 0.3)  # the kernel accepts, and nobody answers
        good, bad = (listener.getsockname()[1] for listener in (answering, stopped))
        wait_on = cluster.while_servers_answer([worker(good), Peer("n1", "127.0.0.1", {"worker": good, "ps": bad})])
        wait_on(0, 1000.0)
        with pytest.raises(RankUnresponsive, match=rf"^rank 1 \(n1\) at 127\.0\.0\.1:{bad} does not answer$"):
            wait_on(1, 0.0)


def answer_all(listener):
    with suppress(OSError):  # the listener is closed
        while True:
            listener.accept()[0].sendall(b"settings")
