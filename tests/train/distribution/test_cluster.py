import json
import re
import signal
import socket
import subprocess
import sys
import threading
import types
import urllib.request
from contextlib import suppress

import pytest
from horovod.runner.http.http_server import RendezvousServer

from tests.helpers import ROOT
from tests.helpers.ports import free_ports
from train.config.checks import ConfigError
from train.config.compose import load
from train.distribution import cluster
from train.distribution.cluster import Cluster, Peer, Store
from train.transport import RankUnresponsive, connections
from train.transport.tcp_group import TcpGroup

KEY = b"k" * 64


def worker(port=1, host="n1"):
    return Peer(host, "127.0.0.1", {"worker": port})


def settings(*overrides):
    return load(["nodes=4", *overrides]).distribution


@pytest.fixture(scope="module")
def server():
    """Horovod's launcher, and its port: one for all tests, as it takes half a second to stop."""
    server = RendezvousServer()
    port = server.start()
    yield server, port
    server.stop()


@pytest.fixture
def store(server):
    """The empty store of Horovod's launcher."""
    launcher, port = server
    launcher.init([])
    return Store({"HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port)})


@pytest.fixture
def ranks_of_two(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")


def test_all_workers_are_found_once_they_have_come(store):
    store.put(0, worker(1), KEY)
    threading.Timer(0.2, store.put, (1, worker(2, "n2"), KEY)).start()
    assert cluster.wait_for_peers(store, 2, KEY) == [worker(1), worker(2, "n2")]


def test_a_rank_that_does_not_come_is_named(store, monkeypatch):
    monkeypatch.setattr(cluster, "COME_WITHIN_S", 0.1)
    store.put(0, worker(), KEY)
    store.put(2, worker(), KEY)
    with pytest.raises(ConfigError, match="rank 1, 3 did not come within 0 s: see its log and its host"):
        cluster.wait_for_peers(store, 4, KEY)


def test_what_somebody_else_left_in_the_store_does_not_count(store):
    store.put(0, worker(1), b"x" * 64)
    store.put(1, worker(2), KEY)
    assert store.get(0, KEY) is None
    request = urllib.request.Request(f"http://{store.address}/workers/1", b'{"host": "evil"}', method="PUT")
    urllib.request.urlopen(request).close()
    assert store.get(1, KEY) is None
    with urllib.request.urlopen(f"http://{store.address}/workers/0") as answer:
        assert KEY not in answer.read()
    store.put(1, worker(1), KEY)
    with urllib.request.urlopen(f"http://{store.address}/workers/1") as answer:
        copy = urllib.request.Request(f"http://{store.address}/workers/0", answer.read(), method="PUT")
    urllib.request.urlopen(copy).close()
    assert store.get(0, KEY) is None  # what rank 1 signed is not rank 0's


def test_ranks_without_a_launcher_share_a_secret_by_a_folder(tmp_path):
    folder = tmp_path / "results/.private"
    with cluster.shared_secret(folder, 0) as first, cluster.shared_secret(folder, 1) as second:
        assert first == second
    with cluster.shared_secret(folder, 0) as another:
        assert another != first
    assert not folder.exists()


def test_a_port_that_is_taken_is_named(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "3")
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"distribution\.port={port - 1}: rank 3 cannot have port {port} of .*in use"
        ):
            cluster.task_listeners(
                settings("distribution=mwms", f"distribution.port={port - 1}"), ("worker",), "127.0.0.1"
            )


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
        gathered = {}

        def connect(rank, listener):
            gathered[rank] = cluster.connect_group(rank, workers, listener, KEY).gather(f"rank {rank}", str)

        other = threading.Thread(target=connect, args=(1, second))
        other.start()
        connect(0, first)
        other.join(240)
        assert gathered == {0: ["rank 0", "rank 1"], 1: ["rank 0", "rank 1"]}


def test_tensorflow_gets_all_addresses_and_which_worker_this_is():
    made = Cluster([worker(1), worker(2)], TcpGroup(0, 2, []))
    assert json.loads(made.config()) == {
        "cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
        "task": {"type": "worker", "index": 0},
    }


def test_the_first_ranks_hold_the_parameter_servers_and_rank_0_their_coordinator():
    ps = settings("distribution=ps", "distribution.servers=2")
    assert [cluster.rank_tasks(ps, rank, 3) for rank in range(3)] == [
        ("worker", "ps", "chief"),
        ("worker", "ps"),
        ("worker",),
    ]
    workers = [
        Peer("n", "10.0.0.1", {"worker": 1, "ps": 2, "chief": 3}),
        Peer("n", "10.0.0.2", {"worker": 4, "ps": 5}),
        Peer("n", "10.0.0.3", {"worker": 6}),
    ]
    assert Cluster(workers, TcpGroup(0, 3, [])).spec() == {
        "worker": ["10.0.0.1:1", "10.0.0.2:4", "10.0.0.3:6"],
        "ps": ["10.0.0.1:2", "10.0.0.2:5"],
        "chief": ["10.0.0.1:3"],
    }


def test_servers_on_separate_nodes_are_ranks_after_the_workers():
    ps = settings("distribution=ps", "distribution.servers=2", "distribution.servers_on=nodes")
    assert [cluster.rank_tasks(ps, rank, 2) for rank in range(4)] == [
        ("worker", "chief"),
        ("worker",),
        ("ps",),
        ("ps",),
    ]
    workers = [
        Peer("n1", "10.0.0.1", {"worker": 1, "chief": 3}),
        Peer("n2", "10.0.0.2", {"worker": 4}),
        Peer("n3", "10.0.0.3", {"ps": 5}),
        Peer("n4", "10.0.0.4", {"ps": 6}),
    ]
    here = Cluster(workers, types.SimpleNamespace(rank=3))
    assert json.loads(here.config()) == {
        "cluster": {
            "worker": ["10.0.0.1:1", "10.0.0.2:4"],
            "chief": ["10.0.0.1:3"],
            "ps": ["10.0.0.3:5", "10.0.0.4:6"],
        },
        "task": {"type": "ps", "index": 1},
    }


def test_servers_on_separate_nodes_are_processes_beside_the_ranks(ranks_of_two, tmp_path):
    apart = settings("distribution=ps", "distribution.servers_on=nodes")
    with pytest.raises(ConfigError, match=r"ranks_per_node=2 \+ distribution\.servers=1: this is process 1 of 2"):
        cluster.connect(apart, 2, None, tmp_path)


def test_each_task_has_another_port_after_the_first(monkeypatch):
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
    ps = settings("distribution=ps", "distribution.servers=2", f"distribution.port={(first := free_ports(5))}")
    listeners = cluster.task_listeners(ps, ("worker", "ps"), "127.0.0.1")
    assert {task: listener.getsockname()[1] for task, listener in listeners.items()} == {
        "worker": first + 3,  # those of rank 0 come before
        "ps": first + 4,
    }
    for listener in listeners.values():
        listener.close()


def test_another_number_of_processes_than_ranks_is_an_error(ranks_of_two, tmp_path):
    with pytest.raises(ConfigError, match=r"nodes x ranks_per_node=3: this is process 1 of 2\. Start as many"):
        cluster.connect(settings("distribution=mwms"), 3, None, tmp_path)


def test_a_process_that_no_launcher_started_is_an_error(ranks_of_two, monkeypatch, tmp_path):
    monkeypatch.delenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", raising=False)
    with pytest.raises(ConfigError, match="no launcher told this process of the other ranks; start them by"):
        cluster.connect(settings("distribution=mwms"), 2, None, tmp_path)


# Any call of PyDLL keeps other threads of Python from running, as TensorFlow's does.
HANGS = """
import ctypes, socket, sys
from pathlib import Path
from train.transport import connections
from train.distribution import cluster, strategies
from train.transport.tcp_group import TcpGroup
from train.distribution.cluster import Peer

stopped = socket.create_server(("127.0.0.1", 0))  # the kernel accepts, and nobody answers
workers = [Peer(f"n{n}", "127.0.0.1", {"worker": stopped.getsockname()[1]}) for n in range(2)]
made = cluster.Cluster(workers, TcpGroup(0, 2, []))
with strategies.time_limited(made, print):
    pass
strategies.READY_WITHIN_S, connections.SILENCE_S = 0.5, 0.3
with strategies.time_limited(made, lambda why: Path(sys.argv[1]).write_text(why)):
    ctypes.PyDLL(None).sleep(60)
"""


@pytest.mark.slow
def test_a_rank_that_hangs_while_a_strategy_is_made_is_named_by_the_rank_that_waits(tmp_path):
    output = tmp_path / "said"
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


@pytest.mark.slow
@pytest.mark.parametrize(("longest_s", "limit_s"), [(None, 300), (0.5, 40), (10, 40), (20, 80)])
def test_a_step_may_take_four_times_as_long_as_any_before_and_the_first_one_minutes(longest_s, limit_s):
    from train.distribution.parameter_servers import step_limit_s

    assert step_limit_s(longest_s) == limit_s
