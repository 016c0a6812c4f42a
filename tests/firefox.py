"""Firefox for tests, by WebDriver BiDi: it speaks that by itself, so that no driver stands between."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

client = pytest.importorskip("websockets.sync.client", reason="websockets is not installed")
FIREFOX = os.environ.get("FIREFOX") or shutil.which("firefox-esr") or shutil.which("firefox")
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(FIREFOX is None, reason="there is no firefox on this machine; name one in FIREFOX"),
]
"""For a module's `pytestmark`."""


class Firefox:
    """A running Firefox with one page."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._n = socket, 0
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        self.page = self.ask("browsingContext.getTree")["contexts"][0]["context"]

    def ask(self, method: str, **given: Any) -> Any:
        """Give a command and return what comes of it; events that come before are kept."""
        self._n += 1
        self._socket.send(json.dumps({"id": self._n, "method": method, "params": given}))
        while True:
            told = json.loads(self._socket.recv(timeout=60))
            if told.get("id") == self._n:
                assert "error" not in told, told
                return told["result"]
            if told.get("method") == "log.entryAdded" and told["params"]["level"] == "error":
                self.complaints.append(str(told["params"]["text"]))
            if told.get("method") == "network.beforeRequestSent":
                self.asked.append(told["params"]["request"]["url"])

    def open(self, path: Path, *, width: int, height: int = 844) -> None:
        """Open a file in a window of that size."""
        self.ask("browsingContext.setViewport", context=self.page, viewport={"width": width, "height": height})
        self.ask("browsingContext.navigate", context=self.page, url=path.as_uri(), wait="complete")

    def tell(self, expression: str) -> Any:
        """Return what an expression of JavaScript is in the page, by way of JSON."""
        told = self.ask(
            "script.evaluate", expression=f"JSON.stringify({expression}) ?? 'null'", target={"context": self.page},
            awaitPromise=True,
        )  # fmt: skip
        assert told["type"] == "success", told
        return json.loads(told["result"]["value"])

    def pdf(self) -> bytes:
        """Print the page on paper of A4."""
        paper = {"width": 21.0, "height": 29.7}
        return base64.b64decode(self.ask("browsingContext.print", context=self.page, page=paper)["data"])


@contextmanager
def launched() -> Iterator[Firefox]:
    """Start a Firefox with a profile of its own, which asks nothing of a network."""
    with tempfile.TemporaryDirectory() as profile:
        Path(profile, "user.js").write_text(
            'user_pref("app.update.enabled", false); user_pref("network.dns.disabled", true);\n', "utf-8"
        )
        process = subprocess.Popen(
            [str(FIREFOX), "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", profile],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | {"HOME": profile},
        )  # fmt: skip
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", line):
                    break
            else:
                pytest.fail("Firefox did not say where it listens")
            with client.connect(f"{found[1]}/session", max_size=None, open_timeout=60) as socket:
                yield Firefox(socket)
        finally:
            process.terminate()
            process.wait(timeout=30)
            if process.stderr is not None:
                process.stderr.close()
