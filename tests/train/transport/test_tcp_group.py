import os
import shutil
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from record import protocol
from tests.helpers import ROOT
from tests.helpers.kit import wait_for
from tests.helpers.needs import needs
from tests.helpers.thread_ranks import on_all_ranks
from train.config.checks import ConfigError
from train.transport import PeerLost, RankUnresponsive, connections, rendezvous, tcp_group
from train.transport.connections import Address
from train.transport.rendezvous import Secret
from train.transport.tcp_group import connect_joined, connect_on_machine, group_from_connections

KEY = b"k" * 64
# Another user, who may not be allowed to run the Python of this environment.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
THEIR_PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable


@pytest.fixture
def folder(tmp_path):
    """The folder of a run, with the secret of its job."""
    Secret(protocol.secret_folder(tmp_path)).create()
    return tmp_path


def together(work, size):
    """Call `work(rank)` on so many ranks at once; return the result or the error of each."""
    with ThreadPoolExecutor(size) as pool:
        calls = [pool.submit(work, rank) for rank in range(size)]
    return [call.exception() or call.result() for call in calls]


def on_machine(folder):
    def work(rank):
        group = connect_on_machine(folder, rank, 3)
        addresses = [channel.socket.getsockname()[0] for channel in group._channels]
        assert {*addresses} == {"127.0.0.1"}  # no other host can reach them
        return exchange(group)

    return together(work, 3)


def joined(folder):
    return on_all_ranks(3, lambda thread: exchange(connect_joined(thread, lambda: KEY)))


def exchange(group):
    group.barrier()
    return [group.gather((group.rank, number), tuple[int, int]) for number in range(2)]


@pytest.mark.parametrize("connected", [on_machine, joined])
def test_every_rank_gets_the_values_of_all_in_the_order_of_ranks(folder, connected):
    assert connected(folder) == [[[(rank, number) for rank in range(3)] for number in range(2)]] * 3


@pytest.mark.usefixtures("no_connections")
def test_ranks_that_cannot_reach_the_first_one_by_tcp_are_lost():
    def work(thread):
        with pytest.raises(PeerLost, match=f"rank {thread.rank}: the ranks that Horovod joined did not connect by TCP"):
            connect_joined(thread, lambda: KEY)

    on_all_ranks(2, work)


@pytest.mark.parametrize("lost", [0, 2])
def test_a_rank_that_is_gone_is_missed_by_the_others(folder, lost):
    def work(rank):
        group = connect_on_machine(folder, rank, 3)
        group.barrier()
        if rank != lost:
            return group.gather(rank, int)
        for channel in group._channels:
            channel.close()

    assert [type(error) for error in together(work, 3) if error] == [PeerLost] * 2


def test_two_connections_of_the_same_rank_are_refused():
    with pytest.raises(PeerLost, match=r"ranks \[1, 1\] came, of 3"):
        group_from_connections(0, 3, [(1, None) for _ in range(2)])


@pytest.mark.parametrize(
    ("rank", "problem"),
    [
        (0, r"/rendezvous: of the other ranks 0 of 2 came within 0\.1 s"),
        (1, "/rendezvous: rank 0 did not write this within 0.1 s: see its log"),
    ],
)
def test_ranks_that_never_come_are_an_error_that_names_them_and_the_file(folder, monkeypatch, rank, problem):
    monkeypatch.setattr(tcp_group, "IMPORT_WITHIN_S", 0.1)
    monkeypatch.setattr(rendezvous, "IMPORT_WITHIN_S", 0.1)
    with pytest.raises(ConfigError, match=f"{folder}{problem}"):
        connect_on_machine(folder, rank, 3)


def test_ranks_may_take_a_time_limit_and_the_first_one_twice_that():
    on_first, on_second = (tcp_group.time_limit(40, rank, ["n0", "n1"], "come") for rank in (0, 1))
    on_first(1, 39.0)
    on_second(0, 79.0)
    with pytest.raises(RankUnresponsive, match=r"rank 1 \(n1\) did not come within 40 s") as late:
        on_first(1, 41.0)
    assert (late.value.rank, late.value.host) == (1, "n1")
    with pytest.raises(RankUnresponsive, match=r"rank 0 \(n0\) did not come within 80 s"):
        on_second(0, 81.0)


@pytest.mark.parametrize("end", [None, RankUnresponsive("rank 2")], ids=["waited for", "dropped"])
def test_a_late_rank_is_waited_for_as_long_as_on_wait_allows(folder, monkeypatch, end):
    monkeypatch.setattr(connections, "LOOK_EVERY_S", 0.05)
    missed = threading.Event()

    def on_wait(rank, waited_s):
        missed.set()  # rank 2 comes only then
        if end:
            raise end

    def work(rank):
        group = connect_on_machine(folder, rank, 3)
        if rank == 0:
            group.on_wait = on_wait
        if rank == 2:
            missed.wait(30)
        return group.gather(rank, int)

    result = together(work, 3)
    assert result[0] is end if end else result == [[0, 1, 2]] * 3


# Another user of the machine tries to read the secret and the port, then to connect without the secret. It prints what
# it gets.
ATTACK = """
import pickle, os, socket, sys
port, folder = int(sys.argv[1]), sys.argv[2]
for name in ("rendezvous", ".private/secret"):
    try:
        print("read", name, open(os.path.join(folder, name)).read())
    except PermissionError:
        pass
class Payload:
    def __reduce__(self):
        return os.system, ("touch " + sys.argv[3],)
pickled = pickle.dumps(Payload())
for frame in (len(pickled).to_bytes(4, "big"), len(pickled).to_bytes(8, "big"), b"\\0" * 200, b""):
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(frame + pickled)
        connection.settimeout(10)
        try:
            while answer := connection.recv(1000):
                if len(answer) > 32:
                    print("was answered", answer)
        except ConnectionResetError:
            pass
"""


@pytest.mark.slow
@needs(root=True)
def test_another_user_of_the_machine_learns_nothing_and_runs_nothing(folder, monkeypatch):
    monkeypatch.setattr(connections, "PROOF_WITHIN_S", 0.5)  # for the attacker's silence
    for parent in (folder, *folder.parents[:-2]):  # as results folders, which all users may list
        parent.chmod(0o755)
    loot, port = Path(f"/tmp/kit-test-{os.getpid()}"), protocol.rendezvous_path(folder)

    def gathered(rank):
        return connect_on_machine(folder, rank, 2).gather(rank, int)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gathered, 0)
        wait_for(port.exists)
        command = [*NOBODY, THEIR_PYTHON, "-c", ATTACK, port.read_text(), str(folder), str(loot)]
        attacker = subprocess.run(command, capture_output=True, text=True, cwd="/")
        assert (gathered(1), first.result()) == ([0, 1], [0, 1])
    assert (attacker.returncode, attacker.stdout, attacker.stderr) == (0, "", "")
    assert not loot.exists()


# Another user holds thousands of connections, sends nothing, and connects again where one was closed.
FLOOD = """
import resource, select, socket, sys
port, count = map(int, sys.argv[1:])
poll, held = select.epoll(), {}
def call():
    caller = socket.socket()
    caller.setblocking(False)
    caller.connect_ex(("127.0.0.1", port))
    held[caller.fileno()] = caller
    poll.register(caller, select.EPOLLRDHUP)
for _ in range(count):
    call()
print("done", flush=True)
while True:
    for descriptor, _ in poll.poll():
        held.pop(descriptor).close()
        call()
"""


@pytest.mark.slow
@pytest.mark.on_change_of("train/transport/")
@needs(root=True)
def test_sixteen_thousand_silent_callers_of_another_user_keep_no_rank_out(folder):
    callers = 8000
    with connections.listen("127.0.0.1") as listener, ThreadPoolExecutor() as pool:
        address = Address(*listener.getsockname())
        accepting = pool.submit(connections.accept, listener, KEY, 1, 60.0)
        command = [*NOBODY, "prlimit", f"--nofile={callers + 100}", THEIR_PYTHON, "-c", FLOOD]
        command += [str(address.port), str(callers)]
        strangers = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/") for _ in range(2)]
        try:
            assert [stranger.stdout.readline() for stranger in strangers] == [b"done\n"] * 2
            channel = connections.connect(address, KEY, 1)  # within connections.SILENCE_S
            [(_, accepted)] = accepting.result()
            channel.send(b"here")
            assert accepted.receive() == b"here"
            channel.close(), accepted.close()
        finally:
            for stranger in strangers:
                stranger.kill()
                stranger.wait()
                stranger.stdout.close()


@pytest.mark.slow
@needs("ip", "unshare", root=True)
def test_nobody_reaches_the_loopback_of_a_user_s_own_network_as_docs_security_says():
    listen = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); s.accept()"
    )
    inside = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", THEIR_PYTHON, "-c", listen]
    command = [*NOBODY, "unshare", "--map-current-user", "--keep-caps", "--net", *inside]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/") as listener:
        if not (port := listener.stdout.readline()):
            pytest.skip(f"users of this machine may not make a network: {listener.stderr.read().strip()}")
        try:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int(port)), 5)
        finally:
            listener.kill()


def test_no_module_of_the_ranks_unpickles_data_of_another_process():
    # Pickles of a data set, and of this process; the third one explains why it has none.
    allowed = {"train/datasets/cifar10.py", "train/config/compose.py", "train/distribution/horovod.py"}
    modules = ("import pickle", "cloudpickle", "allgather_object", "broadcast_object", "multiprocessing")
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "train").rglob("*.py")}
    assert {path for path, text in texts.items() if any(name in text for name in modules)} <= allowed
