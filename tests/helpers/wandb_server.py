"""A stand-in for the W&B server, which cannot be had here: it answers what the client asks, and keeps the history.

It speaks as much of the protocol as a run needs that only logs: who is asking, the run, and lines of its files. What a
real server does with them is not tested.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_VIEWER = {"id": "u", "entity": "me", "username": "me", "email": "", "flags": "{}", "teams": {"edges": []}}


class Server(ThreadingHTTPServer):
    """Answers until its link is cut."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listens on a free port of this host."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.up = threading.Event()
        self.up.set()
        self.lines: dict[int, dict[str, Any]] = {}  # of the history, by number: a client may send one again
        self.request_unanswered = threading.Event()

    @property
    def url(self) -> str:
        """For WANDB_BASE_URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def column(self, name: str) -> list[Any]:
        """The values of the history under this name."""
        return [line[name] for _, line in sorted(self.lines.items()) if name in line]

    def stop_answering(self) -> None:
        """From now on requests get no answer, as of a link that went down: nobody is told that it did."""
        self.up.clear()

    def record_history(self, stream: dict[str, Any]) -> None:
        """Keep what a run sends of its history."""
        sent = stream.get("files", {}).get("wandb-history.jsonl")
        for number, line in enumerate(sent["content"] if sent else [], sent["offset"] if sent else 0):
            self.lines[number] = json.loads(line)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        """A query, or lines of a file of the run."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.server.up.is_set():
            self.server.request_unanswered.set()
            self.server.up.wait()
        if self.path == "/graphql":
            answer: dict[str, Any] = {"data": _answer(asked["query"], asked.get("variables") or {})}
        else:
            self.server.record_history(asked)
            answer = {}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _answer(query: str, given: dict[str, Any]) -> dict[str, Any]:
    if "upsertBucket" in query:
        project = {"id": "p", "name": given["project"], "entity": {"id": "e", "name": "me"}}
        run = {"id": "r", "name": given["name"], "displayName": given["name"], "config": "{}", "project": project}
        return {"upsertBucket": {"bucket": {**run, "historyLineCount": 0}, "inserted": True}}
    if "createRunFiles" in query:
        return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": []}}
    if "createArtifact(" in query:  # as if it had these files already, so that none is sent
        sequence = {"id": "s", "latestArtifact": {"id": "a"}}
        return {"createArtifact": {"artifact": {"id": "a", "state": "COMMITTED", "artifactSequence": sequence}}}
    if "artifactType" in query:  # no artifact of this name yet
        return {"project": None}
    if "serverInfo" in query:
        return {"serverInfo": {"features": []}}
    return {"viewer": _VIEWER}


@contextmanager
def running() -> Iterator[Server]:
    """A server in a thread of its own."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.up.set()
        server.shutdown()
