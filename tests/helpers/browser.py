"""A headless Chromium over the DevTools protocol, on two pipes: nothing but the standard library."""

import base64
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
_PATIENCE_S = 300  # only ends a test that would hang


class Browser:
    """One page of a Chromium that is ended with the `with` block. It keeps every event that the page causes."""

    def __init__(self, chromium: str, profile: Path) -> None:
        reads, self._commands = os.pipe()
        self._answers, writes = os.pipe()

        def connect() -> None:  # the protocol is read from descriptor 3 and written to 4
            high = [os.dup(reads), os.dup(writes)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [chromium, *_OPTIONS, f"--user-data-dir={profile}"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        self._read, self._sent, self._session = b"", 0, None
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
        while b"\0" not in self._read:
            if not select.select([self._answers], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium did not answer within {_PATIENCE_S} s")
            self._read += (chunk := os.read(self._answers, 1 << 20))
            if not chunk:
                raise EOFError("Chromium ended")
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """The answer to one command of the protocol."""
        self._sent += 1
        command = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + _PATIENCE_S
        while (message := self._message(until)).get("id") != self._sent:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return dict(message["result"])

    def open(self, page: Path, width: int = 1200) -> None:
        """Open a file at a width [CSS pixels] of the window, and wait until all of it is there."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.events.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        until = time.monotonic() + _PATIENCE_S
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._message(until)
        self.value("new Promise(done => setTimeout(done, 300))")  # for what comes after the load

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """What the page asked for, beside itself and what it has within it."""
        urls = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in urls[1:] if not url.startswith("data:")]

    def console_messages(self) -> list[str]:
        """What stands in the console: messages, exceptions, and what Chromium itself has to say."""
        output = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in output]

    def pdf(self) -> bytes:
        """The page as it prints, on the paper that it asks for."""
        return base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
