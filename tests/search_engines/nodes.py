"""Nodes of search engines on this machine, from the jars that `make test-opensearch` fetches."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.ports import free_ports

JARS = CHECKOUT / "build" / "search_engines"
"""A directory of jars per engine."""
START_SECONDS = 90
NODE_SETTINGS = """\
node.name: test
discovery.type: single-node
network.host: 127.0.0.1
http.port: {http}
transport.port: {transport}
transport.type: netty4
http.type: netty4
cluster.routing.allocation.disk.threshold_enabled: false
"""
PLUGIN_DESCRIPTOR = """\
name=transport-netty4
description=HTTP and transport of nodes
version=8.17.0
elasticsearch.version=8.17.0
java.version=17
classname=org.elasticsearch.transport.netty4.Netty4Plugin
modulename=org.elasticsearch.transport.netty4
extended.plugins=
has.native.controller=false
"""


class NodeError(Exception):
    """An error response of a node.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Node:
    """The REST interface of a node.

    Args:
        engine: name of the engine.
        port: its HTTP port.
        home: its directory; the configuration is in `config/`.
    """

    def __init__(self, engine: str, port: int, home: Path) -> None:
        self.engine = engine
        self.url = f"http://127.0.0.1:{port}"
        self.home = home

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request; returns the JSON of the response.

        Args:
            method: HTTP method.
            path: with a slash at the start.
            body: JSON; bytes are the lines of a bulk request.

        Raises:
            NodeError: the status is 400 or higher.
        """
        lines = isinstance(body, bytes)
        data = body if lines or body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/x-ndjson" if lines else "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise NodeError(error.code, error.read().decode()) from None


@contextmanager
def running_node(engine: str, home: Path) -> Iterator[Node]:
    """Starts a node with a small heap on random ports; stops it at the end of the block.

    Skips the test if Java or the engine's jars are missing.
    """
    if shutil.which("java") is None or not (JARS / engine).is_dir():
        pytest.skip(
            f"run `make test-opensearch SEARCH_ENGINES={engine}`, which needs Java 17 or newer "
            "and Maven"
        )
    (home / "config").mkdir(parents=True)
    http, transport = free_ports(2)
    settings = "opensearch.yml" if engine == "opensearch" else "elasticsearch.yml"
    (home / "config" / settings).write_text(
        NODE_SETTINGS.format(http=http, transport=transport), "utf-8"
    )
    memory = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC"]
    command = ["java", *memory, *_class_path(engine, home), home]
    log = home / "node.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*map(str, command)], stdout=output, stderr=subprocess.STDOUT, cwd=home
        )
    try:
        node = Node(engine, http, home)
        _wait_for(node, process, log)
        yield node
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _class_path(engine: str, home: Path) -> Sequence[object]:
    """The arguments of Java that find the jars and start the node."""
    jars = JARS / engine
    if engine in ("opensearch", "elasticsearch7"):
        # OpenSearch is a fork of version 7: its classes differ by the name of the package.
        code = Path(__file__).with_name("ClassPathNode.java").read_text("utf-8")
        if engine == "opensearch":
            code = code.replace("org.elasticsearch", "org.opensearch")
        (home / "ClassPathNode.java").write_text(code, "utf-8")
        return ["-cp", f"{jars}/*", home / "ClassPathNode.java"]
    # Version 8 loads its modules from `modules/`, and itself from Java modules.
    plugin, server = home / "modules" / "transport-netty4", home / "server"
    plugin.mkdir(parents=True)
    server.mkdir()
    (plugin / "plugin-descriptor.properties").write_text(PLUGIN_DESCRIPTOR, "utf-8")
    for jar in jars.glob("*.jar"):
        is_plugin = jar.name.startswith(("netty-", "transport-netty4-"))
        (plugin if is_plugin else server).joinpath(jar.name).symlink_to(jar)
    return [
        "--module-path", server,
        "--add-modules", "jdk.net,ALL-MODULE-PATH",
        "--add-exports", "org.elasticsearch.server/org.elasticsearch.common.logging=ALL-UNNAMED",
        Path(__file__).with_name("ModulePathNode.java"),
    ]  # fmt: skip


def _wait_for(node: Node, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until a node answers.

    Raises:
        TimeoutError: it ended, or does not answer in time. The message has the end of its log.
    """
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError, NodeError):
            node.ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=5s")
            return
        time.sleep(0.3)
    raise TimeoutError(f"{node.engine}:\n{log.read_text('utf-8', 'replace')[-3000:]}")
