"""How the ranks of a job find each other: by files in a folder that all hosts see, and by Horovod's rendezvous server.

Horovod's launcher starts the server, and under srun rank 0.
"""

import secrets
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from http.server import HTTPServer
from pathlib import Path

from train.config.checks import ConfigError
from train.rank import placement, process
from train.record import files

# Ranks wait this long for those that are still importing TensorFlow: on shared cores that takes minutes.
IMPORT_WITHIN_S = 300
_POLL_S = 0.1
_SECRET_BYTES = 32


def write_file(path: Path, text: str) -> None:
    """Write a file for the other ranks, which other users cannot read. Raises OSError."""
    files.write_whole(path, text.encode(), mode=0o600)


def wait_for_file(path: Path, hint: str) -> str:
    """Return the content of a file that rank 0 writes, once it is there.

    hint: what may be wrong if the file does not appear, and what to do.
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
    """The secret of one job, by which its processes know each other, in a folder that only their user can read."""

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
    """Let the server that this process starts next serve so many ranks, which all come at once, at this address alone.

    It asks nobody who he is: whoever reaches it may write to it.
    """
    from horovod.runner.http.http_server import RendezvousHTTPServer

    process.allow_open_files(ranks)
    # Its own queue is of 5 connections: with some hundred ranks the kernel refuses the others.
    RendezvousHTTPServer.server_bind = lambda server: _bind(server, host)
    RendezvousHTTPServer.request_queue_size = max(ranks, RendezvousHTTPServer.request_queue_size)


def _bind(server: HTTPServer, host: str) -> None:
    """Bind Horovod's server to one address: by itself it takes all."""
    server.server_address = (host, server.server_address[1])
    HTTPServer.server_bind(server)


def start_server(ranks: int, host: str) -> tuple[subprocess.Popen[str], int]:
    """Start a server at this address in a separate process, which ends with this one. Returns it, and its port.

    It has no rank, so the quota of no node holds for it: to serve eight ranks takes half a second of CPU time.
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


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
