"""Starting and stopping: ports, signals, what is said and what is not."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.server.models import Model
from dssm_tf.server.server import Server
from dssm_tf.server.sources import Source
from serving.client import Client, RestClient, ServingError
from tests.serving.conftest import TinyRanker, served


@pytest.fixture
def taken():
    """A port that somebody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_port_in_use_is_one_line_before_a_model_is_loaded(taken):
    model = Model("tiny", Source(Path("tiny"), 1), load=lambda _: pytest.fail("it was loaded"))
    for flag in ("port", "rest_api_port"):
        ports = {"port": 0, "rest_api_port": 0, flag: taken}
        with pytest.raises(UserError, match=rf"--{flag} {taken}: 127\.0\.0\.1:{taken} is in use"):
            Server([model], **ports)


def test_two_servers_do_not_share_a_port():
    with served(TinyRanker()) as server:
        port = int(server.grpc_address.split(":")[1])
        with pytest.raises(UserError, match=f"--port {port}: .* is in use"):
            served(TinyRanker(), port)


def test_an_address_of_another_machine_is_one_line():
    model = Model("tiny", Source(Path("tiny"), 1), load=lambda _: TinyRanker())
    with pytest.raises(UserError, match=r"--rest_api_port 0: cannot listen at 192\.0\.2\.1"):
        Server([model], host="192.0.2.1", port=None, rest_api_port=0)


def test_a_model_that_cannot_be_loaded_is_one_line_and_frees_the_port():
    def fail(_):
        raise UserError("saved_model.pb is damaged.")

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    model = Model("tiny", Source(Path("tiny"), 1), load=fail)
    server = Server([model], port=None, rest_api_port=port)
    with pytest.raises(UserError, match=r"no version of tiny can be served: 1 \(saved_model"):
        server.start()
    with socket.create_server(("127.0.0.1", port)):
        """Nobody listens there."""


@pytest.mark.parametrize("client_class", [Client, RestClient])
def test_stopping_answers_what_was_asked(client_class):
    ranker = TinyRanker()
    server = served(ranker)
    server.start()
    host = server.grpc_address if client_class is Client else server.rest_address
    found = []
    ranker.answering.clear()
    with client_class(host, "tiny", timeout=60) as client:
        asking = threading.Thread(target=lambda: found.append(client.score("red", ["red"])))
        asking.start()
        while not server._pool._threads or server._pool._idle_semaphore._value:
            """Until the request is with the model."""
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(0.3)
        ranker.answering.set()
        asking.join(60)
        stopping.join(60)
        assert np.array_equal(found, [[1]])
        with pytest.raises(ServingError, match="UNAVAILABLE"):
            client.score("red", ["red"])


def test_a_model_that_fails_is_an_error_without_the_query(caplog):
    ranker = TinyRanker()

    def fail(*_):
        raise RuntimeError("secret query")

    ranker.run = fail
    with served(ranker) as server:
        for client_class, host in (
            (Client, server.grpc_address),
            (RestClient, server.rest_address),
        ):
            with client_class(host, "tiny") as client, pytest.raises(ServingError) as caught:
                client.score("secret", ["query"])
            assert "the model failed (RuntimeError)" in str(caught.value)
    assert "failed: RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_a_slow_model_meets_the_timeout_of_the_server(ranker_that_waits, server_of):
    model = Model("tiny", Source(Path("tiny"), 1), load=lambda _: ranker_that_waits)
    with server_of(model, timeout=0.2) as server:
        client = RestClient(server.rest_address, "tiny", timeout=60)
        with pytest.raises(ServingError, match=r"HTTP 504, not answered within 0\.2 s"):
            client.score("red", ["red"])
        ranker_that_waits.answering.set()
        assert client.score("red", ["red"]) == [1]


@pytest.fixture
def ranker_that_waits():
    ranker = TinyRanker()
    ranker.answering.clear()
    yield ranker
    ranker.answering.set()


def test_a_client_that_sends_half_a_request_is_given_up(server_of):
    model = Model("tiny", Source(Path("tiny"), 1), load=lambda _: TinyRanker())
    with server_of(model, timeout=0.2) as server:
        host, port = server.rest_address.split(":")
        with socket.create_connection((host, int(port)), timeout=60) as half:
            half.sendall(
                b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
            )
            assert b" 504 " in half.recv(65536)
        with RestClient(server.rest_address, "tiny") as client:
            assert client.score("red", ["red"]) == [1]


# ------------------------------------------------------------------------------ the command


def wait_until_listening(port: int, process: subprocess.Popen) -> None:
    waiting = threading.Event()
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        except ConnectionRefusedError:
            waiting.wait(0.05)
        else:
            return


def free_ports() -> list[str]:
    """Two numbers."""
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        return [str(free.getsockname()[1]) for free in (one, other)]


@contextmanager
def command(checkout, *arguments: str):
    """`dssm serve` at free ports, until the block ends; yields the process and its addresses."""
    ports = free_ports()
    process = subprocess.Popen(
        [sys.executable, "-m", "dssm_tf.cli", "serve", *arguments,
         "--port", ports[0], "--rest_api_port", ports[1]],
        cwd=checkout, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(checkout)},
    )  # fmt: skip
    try:
        for port in ports:
            wait_until_listening(int(port), process)
        yield process, *(f"127.0.0.1:{port}" for port in ports)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.serving
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_when_told(checkout, compact, number):
    with command(checkout, str(compact)) as (process, _, rest):
        with RestClient(rest, "pets", timeout=120) as client:
            assert client.status() == [(1, "AVAILABLE", "")]
        process.send_signal(number)
        said = "".join(process.communicate(timeout=60))
        assert process.returncode == 0
    assert re.search(r"^\d\d:\d\d:\d\d pets version 1 answers: ", said, re.MULTILINE)


@pytest.fixture
def serve_here():
    """Runs `dssm serve` in this process, which has TensorFlow already; ends it by a signal."""
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}

    def serve(ask, *arguments: str) -> int:
        grpc, rest = free_ports()
        ended = threading.Event()

        def work():
            waiting = threading.Event()
            while not ended.is_set():  # a signal earlier would end the tests
                try:
                    socket.create_connection(("127.0.0.1", int(rest)), timeout=60).close()
                    break
                except ConnectionRefusedError:
                    waiting.wait(0.05)
            try:
                ask(f"127.0.0.1:{grpc}", f"127.0.0.1:{rest}")
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        asking = threading.Thread(target=work)
        asking.start()
        try:
            return main(["serve", *arguments, "--port", grpc, "--rest_api_port", rest])
        finally:
            ended.set()
            asking.join(60)

    yield serve
    for number, handler in before.items():
        signal.signal(number, handler)
    logging.getLogger("dssm_tf.server").setLevel(logging.NOTSET)


def test_the_command_serves_a_run_and_an_export(run, exports, serve_here, capsys, caplog):
    found = []

    def ask(grpc, rest):
        with Client(grpc, "dssm", timeout=120) as client:
            found.append(client.score("secret query", ["red fox", "owl"]))
        with RestClient(rest, "pets", timeout=120) as client:
            found.append(client.score("secret query", ["red fox", "owl"]))
            found.append(client.status())

    with caplog.at_level(logging.INFO):
        assert serve_here(ask, str(run), f"pets={exports / 'pets' / '1'}") == 0
    # Both are of the same run.
    assert found[0] == pytest.approx(found[1], abs=1e-5)
    assert found[2] == [(1, "AVAILABLE", "")]
    said = capsys.readouterr().err + caplog.text
    assert "secret" not in said
    assert "/v1/models/dssm" in said
    assert "pets version 1 answers: " in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{folder}"], "is no model; expected a directory that"),
        (["{folder}/none"], "does not exist; expected a directory that"),
        (["{pets}", "{pets}/1"], "models: two are called 'pets'; name them, NAME=PATH"),
        (["={pets}"], "expected PATH or NAME=PATH"),
        (["{pets}", "--port", "70000"], "--port 70000: expected 1 to 65535"),
        (["{pets}", "--port", "0", "--rest_api_port", "0"], "nothing is left to serve"),
        (["{pets}", "--max_batch_size", "0"], "--max_batch_size 0: expected 1 or more"),
        (["{pets}", "--file_system_poll_wait_seconds", "-1"], "seconds from 0 on"),
        (["{pets}", "--rest_api_port", "{taken}"], "is in use"),
    ],
)
def test_what_cannot_be_served_is_one_line(exports, tmp_path, taken, capsys, arguments, words):
    known = {"folder": tmp_path, "pets": exports / "pets", "taken": taken}
    given = [one.format(**known) for one in arguments]
    if not any(one.startswith("--port") for one in given):
        given += ["--port", "0"]
    before = signal.getsignal(signal.SIGTERM)
    assert main(["serve", *given]) == 1
    signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr().err
    assert (said.count("\n"), words in said) == (1, True), said
