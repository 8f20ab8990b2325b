"""A headless Chromium, controlled by the DevTools protocol over pipes.

    python -m tests.browser

prints the browser that the tests use, or fails if there is none. With the environment variable
`REQUIRE_BROWSER`, tests without a browser fail; otherwise they are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.asking import wait_for

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
NO_BROWSER = (
    "no browser: install the package chromium (Debian, Fedora, Arch) or google-chrome-stable "
    f"(Ubuntu); programs looked for: {', '.join(PROGRAMS)}"
)
KEYS = {
    "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Enter": 13, "/": 191,
    "Tab": 9,
}  # fmt: skip
TEXTS = {"Enter": "\r", "/": "/"}


def find_chromium() -> str | None:
    """The path of the browser; None if there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def require_chromium() -> str:
    """The path of the browser. Without one, skips the test, or fails it with `REQUIRE_BROWSER`."""
    path = find_chromium()
    if path is None:
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") else pytest.skip)(NO_BROWSER)
    return path


class Browser:
    """A page in Chromium. Messages are JSON objects that end with a null byte.

    Without Chromium, the test that enters it is skipped, see `require_chromium`.
    """

    def __enter__(self) -> Browser:
        program = require_chromium()
        with ExitStack() as stack:
            profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            child_in, parent_out = os.pipe()
            parent_in, child_out = os.pipe()
            command = [
                program, "--headless", "--no-sandbox", "--disable-gpu",
                "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
            ]  # fmt: skip
            process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{child_in} 4>&{child_out}', "bash", *command],
                pass_fds=(child_in, child_out), stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
            os.close(child_in)
            os.close(child_out)
            self._out, self._in = os.fdopen(parent_out, "wb", 0), os.fdopen(parent_in, "rb")
            stack.callback(self._in.close)
            stack.callback(self._out.close)
            self._buffer, self._id, self._session = b"", 0, None
            self.errors: list[str] = []
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for name in ("Page", "Runtime", "Log"):
                self._call(f"{name}.enable")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)
        self.wait_for("document.readyState == 'complete'")

    def run(self, script: str) -> Any:
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str) -> None:
        wait_for(lambda: self.run(script))

    def type(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        event = {"key": key, "windowsVirtualKeyCode": KEYS[key]}
        if text := TEXTS.get(key):
            event["text"] = text
        self._call("Input.dispatchKeyEvent", type="keyDown", **event)
        self._call("Input.dispatchKeyEvent", type="keyUp", **event)

    def resize(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self._call("Emulation.setScrollbarsHidden", hidden=True)

    def use_colors(self, scheme: str) -> None:
        """Sets the color scheme that pages see: `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path) -> None:
        """Writes a PNG of the whole page, not only of the window."""
        answer = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, **parameters: Any) -> Any:
        self._id += 1
        message = {"id": self._id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            reply = self._read()
            if reply.get("id") == self._id:
                assert "error" not in reply, reply
                return reply["result"]
            if reply.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.errors.append(json.dumps(reply["params"]))

    def _read(self) -> Any:
        while b"\0" not in self._buffer:
            received = self._in.read1(1 << 16)
            assert received, "the browser has ended"
            self._buffer += received
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


if __name__ == "__main__":
    sys.stdout.write(f"{find_chromium() or sys.exit(NO_BROWSER)}\n")
