"""A stand-in for the W&B server: it answers the requests of the client, and stores the history of a run.

It knows the part of the protocol that logging needs: the user, the run, and lines of its files. The behaviour of a real
server is not tested.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_VIEWER = {"id": "u", "entity": "me", "username": "me", "email": "", "flags": "{}", "teams": {"edges": []}}


class Server(ThreadingHTTPServer):
    """A server on a free port of this host."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on the port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answering = threading.Event()
        self.answering.set()
        self.lines: dict[int, dict[str, Any]] = {}  # of the history, by number: a client may send a line again
        self.request_unanswered = threading.Event()

    @property
    def url(self) -> str:
        """The address for WANDB_BASE_URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def column(self, name: str) -> list[Any]:
        """Return the values with this name in the history."""
        return [line[name] for _, line in sorted(self.lines.items()) if name in line]

    def stop_answering(self) -> None:
        """Leave requests without an answer from now on, like a link that goes down without a notice."""
        self.answering.clear()

    def record_history(self, stream: dict[str, Any]) -> None:
        """Store the lines of the history that a run sends."""
        chunk = stream.get("files", {}).get("wandb-history.jsonl", {"content": [], "offset": 0})
        for number, line in enumerate(chunk["content"], chunk["offset"]):
            self.lines[number] = json.loads(line)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        """Answer a query, or store lines of a file of the run."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.server.answering.is_set():
            self.server.request_unanswered.set()
            self.server.answering.wait()
        if self.path == "/graphql":
            answer: dict[str, Any] = {"data": _answer(request["query"], request.get("variables") or {})}
        else:
            self.server.record_history(request)
            answer = {}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _answer(query: str, variables: dict[str, Any]) -> dict[str, Any]:
    if "upsertBucket" in query:
        project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": "me"}}
        run = {
            "id": "r",
            "name": variables["name"],
            "displayName": variables["name"],
            "config": "{}",
            "project": project,
        }
        return {"upsertBucket": {"bucket": {**run, "historyLineCount": 0}, "inserted": True}}
    if "createRunFiles" in query:
        return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": []}}
    if "createArtifact(" in query:  # as if the server had the files, so that none is sent
        sequence = {"id": "s", "latestArtifact": {"id": "a"}}
        return {"createArtifact": {"artifact": {"id": "a", "state": "COMMITTED", "artifactSequence": sequence}}}
    if "artifactType" in query:  # no artifact of this name yet
        return {"project": None}
    if "serverInfo" in query:
        return {"serverInfo": {"features": []}}
    return {"viewer": _VIEWER}


@contextmanager
def running() -> Iterator[Server]:
    """Run a server in another thread."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.answering.set()
        server.shutdown()
