"""A real Chromium without a window, spoken to over two pipes in the language of its own tools."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ANSWER_SECONDS = 60.0
READS, WRITES = 3, 4  # the file descriptors that --remote-debugging-pipe means


def program() -> str | None:
    return next((found for found in map(shutil.which, PROGRAMS) if found), None)


def missing() -> str:
    """Why there is none; empty where there is one."""
    return "" if program() else "Chromium is not installed: make browser"


class Browser:
    """Asks, and keeps what it is told meanwhile."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._read = b""
        self._asked = 0
        self._session = ""
        self.events: list[tuple[str, dict[str, Any]]] = []

    def attach(self) -> None:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **words: Any) -> dict[str, Any]:
        self._asked += 1
        number = self._asked
        message = {"id": number, "method": method, "params": words}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next(method)
            if told.get("id") == number:
                assert "error" not in told, f"{method}: {told['error']}"
                return dict(told["result"])

    def wait(self, event: str) -> None:
        while event not in (name for name, _ in self.events):
            self._next(event)

    def _next(self, awaited: str) -> dict[str, Any]:
        until = time.monotonic() + ANSWER_SECONDS
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._reads], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"Chromium did not answer {awaited} in {ANSWER_SECONDS:.0f} s"
            more = os.read(self._reads, 1 << 20)
            assert more, f"Chromium ended before it answered {awaited}"
            self._read += more
        line, _, self._read = self._read.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        if "method" in told:
            self.events.append((told["method"], told["params"]))
        return told

    def evaluate(self, expression: str) -> Any:
        """What an expression of JavaScript comes to."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(self, page: Path, *, width: int = 1280, dark: bool = False, scripts: bool = True):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.resize(width)
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        self.wait("Page.loadEventFired")

    def resize(self, width: int, height: int = 900) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def press(self, key: str, code: int) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )
            if kind == "rawKeyDown" and key == "Enter":
                self.ask("Input.dispatchKeyEvent", type="char", text="\r", key=key)

    def printed(self) -> bytes:
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    def complaints(self) -> list[str]:
        """Errors, refusals of the page's own policy and dialogs since the page was opened."""
        told = []
        for name, words in self.events:
            if name == "Runtime.exceptionThrown":
                told.append(json.dumps(words["exceptionDetails"]))
            elif name == "Log.entryAdded" and words["entry"]["level"] in ("error", "warning"):
                told.append(words["entry"]["text"])
            elif name == "Runtime.consoleAPICalled" and words["type"] in ("error", "warning"):
                told.append(json.dumps(words["args"]))
            elif name == "Page.javascriptDialogOpening":
                told.append(words["message"])
        return told

    def asked_for(self) -> list[str]:
        """The addresses that were asked for."""
        return [
            words["request"]["url"]
            for name, words in self.events
            if name == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """One that keeps its things in a folder, and is gone afterwards with all its processes."""
    found = program()
    assert found, missing()
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    process = subprocess.Popen(
        [
            *(found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
            *(f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"),
        ],
        preexec_fn=_at(theirs_in, theirs_out),
        close_fds=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "TMPDIR"), str(folder))},
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        one = Browser(ours_in, ours_out)
        one.attach()
        yield one
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours_in)
        os.close(ours_out)


def _at(reads: int, writes: int) -> Callable[[], None]:
    def place() -> None:
        high = [os.dup(reads), os.dup(writes)]  # neither may lie where the other belongs
        high = [os.dup(one) for one in high]
        os.dup2(high[0], READS)
        os.dup2(high[1], WRITES)

    return place
