"""A real HTTP server on this machine, which can close the connection early, refuse to resume, or send other bytes."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server:
    """Serves `content`; what it was asked for, as (first byte, status), is in `requests`."""

    def __init__(self) -> None:
        self.content = b""
        self.requests: list[tuple[int, int]] = []
        self.break_after: list[int] = []  # bytes, of the next answers
        self.resumes = True
        self.headers: dict[str, str] = {}  # in place of its own, of all answers
        self.redirect: str | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if outer.redirect:
                    self.send_response(302)
                    self.send_header("Location", outer.redirect)
                    self.end_headers()
                    return
                asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                begin = int(asked[1]) if asked and outer.resumes else 0
                if begin and begin >= len(outer.content):
                    outer.requests.append((begin, 416))
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(outer.content)}")
                    self.end_headers()
                    return
                status = 206 if begin else 200
                outer.requests.append((begin, status))
                body = outer.content[begin:]
                self.send_response(status)
                headers = {"Content-Length": str(len(body))}
                if begin:
                    headers["Content-Range"] = f"bytes {begin}-{len(outer.content) - 1}/{len(outer.content)}"
                for name, value in (headers | outer.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: outer.break_after.pop(0)] if outer.break_after else body)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/data.tar.gz"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.stop()
