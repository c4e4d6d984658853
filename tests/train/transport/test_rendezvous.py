import os
import socket
import stat
import threading
import urllib.error
import urllib.request
from contextlib import suppress

import psutil
import pytest
from horovod.runner.http.http_server import RendezvousHTTPServer

from tests.helpers.kit import TIMEOUT_S
from train.transport import rendezvous
from train.transport.rendezvous import Secret, gloo_variables, is_started_by_srun, tasks_per_node


def test_only_its_user_can_read_a_secret_in_a_folder_that_nobody_else_made(tmp_path):
    before = os.umask(0)
    Secret(tmp_path / "private").create()
    os.umask(before)
    with pytest.raises(FileExistsError):
        Secret(tmp_path / "private").create()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "private", *tmp_path.glob("*/*"))}
    assert modes == {"private": 0o700, "secret": 0o600}


def test_other_ranks_wait_until_the_256_bits_of_the_secret_are_there(tmp_path):
    secret = Secret(tmp_path / "private")
    threading.Timer(0.2, secret.create).start()
    assert secret.wait("see its log") == secret.key()
    assert len(bytes.fromhex(secret.key().decode())) == 32
    secret.remove()
    assert not secret.folder.exists()
    secret.remove()


def test_the_queue_of_the_server_holds_all_ranks(monkeypatch):
    monkeypatch.setattr(RendezvousHTTPServer, "request_queue_size", 5)
    monkeypatch.setattr(RendezvousHTTPServer, "server_bind", RendezvousHTTPServer.server_bind)
    rendezvous.prepare_server(2, "127.0.0.1")
    assert RendezvousHTTPServer.request_queue_size == 5  # Horovod's default is enough
    rendezvous.prepare_server(300, "127.0.0.1")
    assert RendezvousHTTPServer.request_queue_size == 300


@pytest.mark.slow
def test_a_server_process_has_no_rank_and_ends_with_its_input(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "0")
    server, port = rendezvous.start_server(2, "127.0.0.1")
    assert "HOROVOD_RANK" not in psutil.Process(server.pid).environ()
    [listener] = psutil.Process(server.pid).net_connections()
    assert listener.laddr == ("127.0.0.1", port)
    address = f"http://localhost:{port}/global/0"
    urllib.request.urlopen(urllib.request.Request(address, b"here", method="PUT"), timeout=TIMEOUT_S)
    assert urllib.request.urlopen(address, timeout=TIMEOUT_S).read() == b"here"
    store = psutil.Process(server.pid)
    before = store.memory_info().rss
    for length in ("-1", "1000000000", "1_0", ""):
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as stranger:
            stranger.sendall(f"PUT /global/1 HTTP/1.0\r\nContent-Length: {length}\r\n\r\n".encode())
            with suppress(ConnectionError):  # it has closed the connection
                stranger.sendall(bytes(1 << 26))
            with suppress(ConnectionError):
                assert b" 400 " in stranger.recv(100)
    refused = 0
    for number in range(50):
        try:
            put = urllib.request.Request(f"http://localhost:{port}/mine/{number}", bytes(1 << 16), method="PUT")
            urllib.request.urlopen(put, timeout=TIMEOUT_S).close()
        except urllib.error.HTTPError as error:
            refused += error.code == 400
    assert refused > 40
    assert store.memory_info().rss - before < 1 << 25
    with pytest.raises(urllib.error.HTTPError, match="400"):  # whether a file is in the launcher's folder
        urllib.request.urlopen(
            urllib.request.Request(f"http://localhost:{port}/README.md", method="HEAD"), timeout=TIMEOUT_S
        )
    server.stdin.close()
    assert server.wait(TIMEOUT_S) == 0


# Rank 3 of 2 + 2 + 1 ranks on three nodes.
STEP = {
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURMD_NODENAME": "n2",
}


def test_the_variables_of_a_rank_follow_from_those_of_slurm():
    assert [tasks_per_node(text) for text in ("4", "3,2(x2)")] == [[4], [3, 2, 2]]
    variables = gloo_variables(STEP)
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    # It is on the second of the two nodes that have a local rank 1.
    assert [variables[f"HOROVOD_{name}"] for name in names] == ["3", "5", "1", "2", "1", "2"]


def test_only_ranks_that_srun_alone_started_need_a_server():
    assert is_started_by_srun(STEP)
    inside = [{**STEP, name: "0"} for name in ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK")]  # horovodrun in a step
    assert not any(map(is_started_by_srun, [{}, {"SLURM_PROCID": "0"}, *inside]))  # the second one is in a batch script
