"""A headless Chromium, controlled through pipes by the DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from typing import Any

from tests.server.asking import wait_for

KEYS = {"ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Enter": 13, "/": 191}
TEXTS = {"Enter": "\r", "/": "/"}


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    """One page. Messages are JSON objects that end with a null byte, on descriptors 3 and 4."""

    def __enter__(self) -> Browser:
        with ExitStack() as stack:
            profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            browser_in, test_out = os.pipe()
            test_in, browser_out = os.pipe()
            command = [
                find_chromium(), "--headless", "--no-sandbox", "--disable-gpu",
                "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
            ]  # fmt: skip
            process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{browser_in} 4>&{browser_out}', "bash", *command],
                pass_fds=(browser_in, browser_out), stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
            os.close(browser_in)
            os.close(browser_out)
            self._out, self._in = os.fdopen(test_out, "wb", 0), os.fdopen(test_in, "rb")
            stack.callback(self._in.close)
            stack.callback(self._out.close)
            self._rest, self._number, self._session = b"", 0, None
            self.errors: list[str] = []
            target = self._send("Target.createTarget", url="about:blank")["targetId"]
            attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for name in ("Page", "Runtime", "Log"):
                self._send(f"{name}.enable")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, address: str) -> None:
        self._send("Page.navigate", url=address)
        self.wait_for("document.readyState == 'complete'")

    def run(self, script: str) -> Any:
        answer = self._send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str) -> None:
        wait_for(lambda: self.run(script))

    def type(self, text: str) -> None:
        self._send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        about = {"key": key, "windowsVirtualKeyCode": KEYS[key]}
        if text := TEXTS.get(key):
            about["text"] = text
        self._send("Input.dispatchKeyEvent", type="keyDown", **about)
        self._send("Input.dispatchKeyEvent", type="keyUp", **about)

    def resize(self, width: int, height: int) -> None:
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def _send(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            response = self._read()
            if response.get("id") == self._number:
                assert "error" not in response, response
                return response["result"]
            if response.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.errors.append(json.dumps(response["params"]))

    def _read(self) -> Any:
        while b"\0" not in self._rest:
            more = self._in.read1(1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)
