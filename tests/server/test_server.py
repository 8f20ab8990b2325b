"""Starting and stopping: ports, signals and messages."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from contextlib import ExitStack

import pytest

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.server.models import ServedModel
from dssm_tf.server.server import Server
from serving.client import Client, ServingError
from tests.server.asking import body_of, rest, wait_for
from tests.server.command import command, is_listening
from tests.serving.conftest import TinyRanker, served


@pytest.fixture
def used_port():
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


TINY = ServedModel("tiny", 1, TinyRanker())


@pytest.mark.parametrize("flag", ["--port", "--rest-port"])
def test_a_port_in_use_is_a_one_line_error_and_other_ports_are_closed(used_port, flag):
    ports = {"port": 0, "rest_port": 0, flag[2:].replace("-", "_"): used_port}
    server = Server([TINY], **ports)
    with (
        pytest.raises(
            UserError, match=f"{flag} {used_port}: cannot listen at 127.0.0.1:{used_port}"
        ),
        server,
    ):
        """The block is not entered."""
    opened = server.grpc_address.rpartition(":")[2]
    wait_for(lambda: not (opened and is_listening(opened)))


def assert_refused(message: str, **options) -> None:
    options = {"port": 0, "rest_port": 0, **options}
    with pytest.raises(UserError, match=message), Server([TINY], **options):
        """The block is not entered."""


@pytest.mark.parametrize(
    "host",
    ["::1", "::", "[::1]", "no-such-host.invalid", "192.0.2.1"],  # the last is of no machine
)
def test_a_host_without_an_ipv4_address_of_this_machine_is_a_one_line_error(host):
    assert_refused(
        f"--host {re.escape(host)}: cannot listen there; expected an IPv4 address of this machine, "
        r"or a name that has one \(IPv6 is not supported\)\.$",
        host=host,
    )


def test_a_port_of_another_server_is_a_one_line_error():
    with served(TinyRanker()) as server:  # two servers do not share a port
        port = int(server.grpc_address.split(":")[1])
        assert_refused(f"--port {port}: cannot listen", port=port)


@pytest.mark.parametrize("api", ["grpc", "rest"])
def test_open_requests_are_answered_when_the_server_stops(ranker, api):
    stack = ExitStack()
    server = stack.enter_context(served(ranker))
    client = Client(server.grpc_address, "tiny", timeout=60)
    body = body_of("encode_query", queries=["red"])

    def ask():
        if api == "grpc":
            return client.encode("query", ["red"]).tolist()
        _, text = rest(server.rest_address, "/v1/models/tiny:predict", body)
        return json.loads(text)["outputs"]

    results = []
    ranker.may_answer.clear()
    asking = threading.Thread(target=lambda: results.append(ask()))
    asking.start()
    wait_for(lambda: server._service.admission.running)
    stopping = threading.Thread(target=stack.close)
    stopping.start()
    stopping.join(0.3)
    ranker.may_answer.set()
    asking.join(60)
    stopping.join(60)
    assert results == [[[3, 1, 1]]]
    with pytest.raises(ServingError, match="UNAVAILABLE"):
        client.encode("query", ["red"])
    client.close()


def test_the_error_of_a_failing_model_does_not_contain_the_query(ranker, caplog):
    def fail(*_, **__):
        raise RuntimeError("secret query")

    ranker.encode_queries = fail
    with served(ranker) as server:
        with Client(server.grpc_address, "tiny") as client, pytest.raises(ServingError) as error:
            client.score("secret", ["query"])
        body = body_of("score", queries=["secret"], titles=["query"])
        code, text = rest(server.rest_address, "/v1/models/tiny:predict", body)
    assert code == 500
    for message in (text, str(error.value)):
        assert "the model failed (RuntimeError)" in message
    assert "failed: RuntimeError" in caplog.text
    assert "secret" not in caplog.text


# ------------------------------------------------------------------------------ the command


@pytest.mark.serving
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_on_a_signal(checkout, compact, number):
    with command(checkout, str(compact)) as (process, grpc, rest_):
        with Client(grpc, "pets", timeout=60) as client:
            assert client.score("fox", ["red fox"]).shape == (1,)
        assert rest(rest_, "/health") == (200, "ok\n")
        process.send_signal(number)
        output = "".join(process.communicate(timeout=60))
        assert process.returncode == 0
    assert re.search(r"^\d\d:\d\d:\d\d stopping after ", output, re.MULTILINE)


@pytest.mark.long
@pytest.mark.serving
def test_the_command_serves_several_models(checkout, compact, exports):
    scores = []
    with command(checkout, f"small={compact}", str(exports / "pets" / "1")) as (process, grpc, _):
        for name in ("small", "pets"):
            with Client(grpc, name, timeout=120) as client:
                scores.append(client.score("secret query", ["red fox", "owl"]))
        process.terminate()
        output = "".join(process.communicate(timeout=60))
    # Both are exports of the same run.
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert "secret" not in output
    for name in ("small", "pets"):
        assert f"/v1/models/{name}, version 1\n" in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{folder}"], "contains no trained model; expected a directory that"),
        (["{folder}/none"], "does not exist; expected a directory that"),
        (
            ["{pets}", "{pets}/1"],
            "models: two entries have the name 'pets'; rename one with NAME=PATH",
        ),
        (["={pets}"], "expected PATH or NAME=PATH"),
        (["{pets}", "--port", "70000"], "--port 70000: expected 0 to 65535"),
        ([], "nothing to serve"),
        (["{pets}", "--texts", "0"], "--texts 0: expected more than 0"),
        (["{pets}", "--seconds", "nan"], "--seconds nan: expected more than 0"),
        (["--index", "{folder}"], "is not an index; expected one that `dssm index` wrote"),
        (["{compact}", "--rest-port", "{port}"], "--rest-port {port}: cannot listen at"),
    ],
)
def test_wrong_arguments_are_a_one_line_error(
    exports, compact, tmp_path, used_port, capsys, arguments, words
):
    names = {"folder": tmp_path, "pets": exports / "pets", "port": used_port, "compact": compact}
    flags = [argument.format(**names) for argument in arguments]
    if not any(flag.startswith("--port") for flag in flags):
        flags += ["--port", "0"]
    before = signal.getsignal(signal.SIGTERM)
    # Quiet, because loading shows its progress on a slow machine.
    assert main(["serve", *flags, "--quiet"]) == 1
    signal.signal(signal.SIGTERM, before)
    error = capsys.readouterr().err
    assert (error.count("\n"), words.format(**names) in error) == (1, True), error


def test_a_server_whose_thread_dies_before_it_starts_raises_the_error(monkeypatch):
    def fail(*_):
        raise RuntimeError("no application")

    monkeypatch.setattr("dssm_tf.server.server.rest_app", fail)
    with (
        pytest.raises(RuntimeError, match="no application"),
        Server([TINY], port=0, rest_port=0),
    ):
        pass
