"""A headless Chromium, driven over two pipes by the DevTools protocol. It needs the standard library only."""

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
_TIMEOUT_S = 120  # only ends a test that would hang


class Browser:
    """One page of a Chromium that runs until the `with` block ends. `events` has every event of the page."""

    def __init__(self, chromium: str, profile: Path) -> None:
        command_end, self._commands = os.pipe()
        self._answers, answer_end = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4. Both are taken here: no pipe has them.
        connect = ["bash", "-c", f'exec "$@" 3<&{command_end} 4>&{answer_end}', "bash"]
        self._process = subprocess.Popen(
            [*connect, chromium, *_OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=(command_end, answer_end), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(command_end)
        os.close(answer_end)
        self._buffer, self._last_id, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._answers], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium did not answer within {_TIMEOUT_S} s")
            self._buffer += (chunk := os.read(self._answers, 1 << 20))
            if not chunk:
                raise EOFError("Chromium ended")
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command of the protocol; return its result. Raises RuntimeError if the command fails."""
        self._last_id += 1
        command = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + _TIMEOUT_S
        while (message := self._message(until)).get("id") != self._last_id:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return dict(message["result"])

    def open(self, page: Path, width: int = 1200) -> None:
        """Open a file in a window of this width [CSS pixels]; return when the page is loaded and idle."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.events.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        until = time.monotonic() + _TIMEOUT_S
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._message(until)
        self.value("new Promise(done => requestAnimationFrame(() => requestIdleCallback(done)))")

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """Return the URLs that the page requested, without its own and without `data:` URLs."""
        urls = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in urls[1:] if not url.startswith("data:")]

    def console_messages(self) -> list[str]:
        """Return the messages in the console: those of scripts, exceptions, and Chromium's own."""
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in methods]
