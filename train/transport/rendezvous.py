"""The rendezvous of the ranks of a job: by files in a folder that all hosts see, and by Horovod's rendezvous server.

Horovod's launcher starts the server, on the host where it is called. Ranks that Slurm's srun started need no Slurm
plugin for MPI: rank 0 runs the server, and writes its address into a file. Each rank gets its number from Slurm's
environment variables.
"""

import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import HTTPServer
from pathlib import Path
from typing import Any

from record import protocol
from record import run_files as files
from train.config.checks import ConfigError
from train.rank import placement, process

# Ranks wait this long for those that are still importing TensorFlow: on shared cores that takes minutes.
IMPORT_WITHIN_S = 300
_POLL_S = 0.1
_SECRET_BYTES = 32
# Of a value in Horovod's store, which holds a rank's addresses towards all others: 136 bytes each.
_VALUE_BYTES, _VALUE_BYTES_PER_RANK = 1 << 16, 256
_VALUES_PER_RANK = 4  # of that length, in the whole store
_KEY_BYTES = 1 << 10  # the memory of a key, at most
_PATH = re.compile(r"/([^/]{1,200})/([^/]{1,200})")  # scope and key

_servers: list[Any] = []  # a server lives as long as its process
_written_files: list[Path] = []


def write_file(path: Path, text: str) -> None:
    """Write a file for the other ranks, which other users cannot read. Raises OSError."""
    files.write_file(path, text.encode(), mode=0o600, replace=True)


def wait_for_file(path: Path, hint: str) -> str:
    """Return the content of a file that rank 0 writes, once it is there.

    hint: the possible cause if the file does not appear, and what to do.
    Raises ConfigError if rank 0 does not write it within IMPORT_WITHIN_S.
    """
    end = time.monotonic() + IMPORT_WITHIN_S
    while not path.exists():
        if time.monotonic() > end:
            raise ConfigError(f"{path}: rank 0 did not write this within {IMPORT_WITHIN_S} s: {hint}")
        time.sleep(_POLL_S)
    return path.read_text()


@dataclass(frozen=True)
class Secret:
    """The secret by which the processes of a job authenticate each other, in a folder that only their user can read."""

    folder: Path

    @property
    def _path(self) -> Path:
        return self.folder / "secret"

    def create(self) -> None:
        """Draw the secret and write it. Raises OSError."""
        self.folder.mkdir(mode=0o700)
        write_file(self._path, secrets.token_hex(_SECRET_BYTES))

    def key(self) -> bytes:
        """Return the secret. Raises OSError."""
        return self._path.read_bytes()

    def wait(self, hint: str) -> bytes:
        """Return the secret once rank 0 has created it. Raises ConfigError, with the hint, if it does not."""
        return wait_for_file(self._path, hint).encode()

    def remove(self) -> None:
        """Remove the secret."""
        shutil.rmtree(self.folder, ignore_errors=True)


def prepare_server(ranks: int, host: str) -> None:
    """Prepare the server that this process starts next for so many ranks, which connect at once, at this address alone.

    It has no authentication: whoever can reach it can write to it, but not fill the memory.
    """
    from horovod.runner.http.http_server import KVStoreHandler, RendezvousHTTPServer

    process.allow_open_files(ranks)
    # Its default queue has 5 connections: with some hundred ranks the kernel refuses the others.
    RendezvousHTTPServer.server_bind = lambda server: _bind(server, host)
    RendezvousHTTPServer.request_queue_size = max(ranks, RendezvousHTTPServer.request_queue_size)
    KVStoreHandler.do_PUT = lambda handler: _put(handler, ranks)
    KVStoreHandler.do_HEAD = lambda handler: handler.send_status_code(400)  # else Python's, which looks up files


def _put(handler: Any, ranks: int) -> None:
    """Store the value of a request as Horovod's handler does, if it is no more than so many ranks need."""
    path, length = _PATH.fullmatch(handler.path), handler.headers.get("Content-Length", "")
    max_bytes, store = _VALUE_BYTES + _VALUE_BYTES_PER_RANK * ranks, handler.server
    if not path or not re.fullmatch("[0-9]{1,9}", length) or int(length) > max_bytes:
        handler.send_status_code(400)
        return
    value = handler.rfile.read(int(length))
    with store.cache_lock:
        stored_bytes = sum(_KEY_BYTES * len(scope) + sum(map(len, scope.values())) for scope in store.cache.values())
    if len(value) < int(length) or stored_bytes > _VALUES_PER_RANK * ranks * max_bytes:
        handler.send_status_code(400)
        return
    handler._put_value(*path.groups(), value)
    handler.send_status_code(200)


def _bind(server: HTTPServer, host: str) -> None:
    """Bind Horovod's server to one address: by default it uses all."""
    server.server_address = (host, server.server_address[1])
    HTTPServer.server_bind(server)


def start_server(ranks: int, host: str) -> tuple[subprocess.Popen[str], int]:
    """Start a server at this address in a separate process, which ends with this one. Returns it, and its port.

    It has no rank, so it uses no node's quota: serving eight ranks takes half a second of CPU time.
    """
    command = [sys.executable, "-m", __name__, str(ranks), host]
    server = subprocess.Popen(
        command, env=placement.without_rank(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    if not (line := server.stdout.readline()):
        raise OSError(f"{' '.join(command)} ended with exit code {server.wait()} before it served")
    return server, int(line)


def _serve(ranks: int, host: str) -> None:
    """Print the port, and serve until standard input ends."""
    from horovod.runner.http.http_server import RendezvousServer

    prepare_server(ranks, host)
    server = RendezvousServer()
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop()


def tasks_per_node(text: str) -> list[int]:
    """Return SLURM_STEP_TASKS_PER_NODE as one number per node: "2(x3),1" -> 2, 2, 2, 1."""
    runs = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(tasks) for tasks, times in runs for _ in range(int(times or 1))]


def is_started_by_srun(variables: Mapping[str, str]) -> bool:
    """Return whether srun started this process, and no other launcher did within its step."""
    launchers = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK")
    return "SLURM_STEP_NUM_TASKS" in variables and not any(name in variables for name in launchers)


def gloo_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tell Horovod's Gloo which rank this is, from those of a Slurm step."""
    nodes = tasks_per_node(variables["SLURM_STEP_TASKS_PER_NODE"])
    node, local = int(variables["SLURM_NODEID"]), int(variables["SLURM_LOCALID"])
    nodes_with_rank = [number for number, tasks in enumerate(nodes) if tasks > local]  # nodes with this local rank
    return {
        "HOROVOD_RANK": variables["SLURM_PROCID"],
        "HOROVOD_SIZE": variables["SLURM_STEP_NUM_TASKS"],
        "HOROVOD_LOCAL_RANK": str(local),
        "HOROVOD_LOCAL_SIZE": str(nodes[node]),
        "HOROVOD_CROSS_RANK": str(nodes_with_rank.index(node)),
        "HOROVOD_CROSS_SIZE": str(len(nodes_with_rank)),
        "HOROVOD_HOSTNAME": variables["SLURMD_NODENAME"],
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


def set_gloo_variables(folder: Path) -> None:
    """Set all environment variables that Horovod's Gloo needs; call it before Horovod is imported.

    folder: one that all hosts see. Raises ConfigError if the file that rank 0 writes there does not appear.
    """
    variables = os.environ
    variables.update(gloo_variables(variables))
    step = [variables.get(f"SLURM_{name}", "0") for name in ("JOB_ID", "RESTART_COUNT", "STEP_ID")]
    path = folder.resolve() / f".rendezvous-{'.'.join(step)}"
    if variables["HOROVOD_RANK"] == "0":
        peers = variables.get(protocol.PEERS, variables.get("SLURM_SRUN_COMM_HOST", "")).split(",")
        folder.mkdir(parents=True, exist_ok=True)
        host = placement.address_towards(peers)
        write_file(path, f"{host} {_serve_srun_step(variables, host)}")
        _written_files.append(path)
    hint = "it died, or the hosts do not share the folder; see rank 0's output, or give another folder: results=..."
    address, port = wait_for_file(path, hint).split()
    variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"], variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] = address, port


def remove_files() -> None:
    """Remove the files that this process wrote for the others, once all have joined."""
    while _written_files:
        _written_files.pop().unlink(missing_ok=True)


def _serve_srun_step(variables: Mapping[str, str], host: str) -> int:
    """Start Horovod's rendezvous server in a thread of this process, and return its port."""
    from horovod.runner.common.util.hosts import HostInfo, get_host_assignments
    from horovod.runner.http.http_server import RendezvousServer

    nodes = tasks_per_node(variables["SLURM_STEP_TASKS_PER_NODE"])
    prepare_server(sum(nodes), host)
    plan = get_host_assignments([HostInfo(f"node{number}", tasks) for number, tasks in enumerate(nodes)], sum(nodes))
    server = RendezvousServer()
    port = server.start()
    server.init(plan)
    _servers.append(server)
    return port


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
