"""What clients make of servers that stall, lie, send without end or send elsewhere."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from contextlib import suppress

import grpc
import numpy as np
import pytest

from serving.client import Client, RestClient, ServingError, _target, main
from tests.serving.conftest import served

PATIENCE = 30  # seconds after which a fake server ends by itself


@pytest.fixture
def serve():
    """Starts a server that takes one connection, reads the request and then does as told."""
    threads = []

    def start(script, context: ssl.SSLContext | None = None) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.settimeout(PATIENCE)

        def answer():
            with listening:
                try:
                    connection, _ = listening.accept()
                    connection.settimeout(PATIENCE)
                    if context:
                        connection = context.wrap_socket(connection, server_side=True)
                    with connection:
                        read_request(connection)
                        script(connection)
                except OSError:
                    """The client did not come, or has gone."""

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join(PATIENCE + 10)
        assert not thread.is_alive()


def read_request(connection) -> None:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = raw.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
    while len(body) < length:
        body += connection.recv(65536) or b" " * length


def response(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body) if length is None else length}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def sends(raw: bytes):
    return lambda connection: connection.sendall(raw)


def trickles(start: bytes, then: bytes):
    """Sends the start, and then a byte at a time, slowly, for long."""

    def script(connection):
        connection.sendall(start)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            connection.sendall(then)
            time.sleep(0.05)

    return script


def refused(address: str, ask=lambda client: client.score("red", ["red"]), **options):
    with RestClient(address, "tiny", **options) as client, pytest.raises(ServingError) as caught:
        ask(client)
    message = str(caught.value)
    assert "\n" not in message
    return caught.value.status, message


# ------------------------------------------------------------------------------- one deadline


@pytest.mark.parametrize(
    "script",
    [
        lambda connection: connection.recv(1),
        trickles(b"", b"H"),
        trickles(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        trickles(b"HTTP/1.1 200 OK\r\n\r\n", b" "),
        trickles(response(b"", length=1 << 20), b" "),
        trickles(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        trickles(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["silent", "status line", "headers", "body", "long body", "chunks", "continue"],
)
def test_a_server_that_trickles_bytes_meets_the_deadline(serve, script):
    started = time.monotonic()
    status, message = refused(serve(script), timeout=0.5)
    # Each byte came in time; the timeout is for all of them.
    assert time.monotonic() - started < PATIENCE / 2
    assert status in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
    assert "within 0.5 s" in message or "headers" in message


def test_a_stalled_error_is_an_error_in_time(serve):
    started = time.monotonic()
    script = trickles(response(b'{"error": "', "400 Bad Request", length=1 << 20), b"x")
    status, message = refused(serve(script), timeout=0.5)
    assert time.monotonic() - started < PATIENCE / 2
    assert (status, "HTTP 400, Bad Request" in message) == ("INVALID_ARGUMENT", True)


# ------------------------------------------------------------------------- answers of no use


def test_a_redirect_is_refused_and_the_query_stays_here(serve):
    asked = threading.Event()
    elsewhere = serve(lambda _: asked.set())
    head = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{elsewhere}/v1\r\n\r\n"
    status, message = refused(serve(sends(head.encode())))
    assert status == "REDIRECTED"
    assert f"HTTP 307, to http://{elsewhere}/v1. Queries go to the address" in message
    assert not asked.is_set()
    with socket.create_connection(elsewhere.split(":")):
        """So that it ends."""


@pytest.mark.parametrize("length", [4 << 30, None], ids=["announced", "unannounced"])
def test_an_answer_is_read_no_further_than_what_was_asked_for(serve, length):
    sent = []

    def script(connection):
        connection.sendall(response(b"", length=length) if length else b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(1 << 12):
            connection.sendall(b" " * (1 << 20))
            sent.append(1 << 20)

    status, message = refused(serve(script), timeout=PATIENCE)
    assert (status, "more than was asked for" in message) == ("BAD_ANSWER", True)
    # A megabyte was read; the rest is what the system had taken over already.
    assert sum(sent) < 64 << 20


@pytest.mark.parametrize(
    ("scores", "problem"),
    [
        ("[NaN]", "not finite"),
        ("[-Infinity]", "not finite"),
        ("[1e39]", "not finite"),
        ("[1e999]", "not finite"),
        (f"[1{'0' * 400}]", "no number"),
        ('["0.5"]', "no number"),
        ("[true]", "no number"),
        ("[null]", "no number"),
        ("0.5", "the shape is ()"),
        ("[[0.5]]", "the shape is (1, 1)"),
        ("[0.5, 1]", "the shape is (2,)"),
        ("[[1], [1, 2]]", "inhomogeneous"),
        ("[" * 100_000, "not JSON"),
        ("[0.5", "not JSON"),
        ('"\xff"', "not JSON"),
    ],
)
def test_what_is_no_score_is_one_error(serve, scores, problem):
    body = f'{{"outputs": {scores}}}'.encode("latin-1")
    status, message = refused(serve(sends(response(body))))
    assert (status, problem in message) == ("BAD_ANSWER", True)


def test_a_cut_answer_is_an_error(serve):
    # Cut where it is whole JSON, too.
    whole = json.dumps({"outputs": [0.5]}).encode()
    status, message = refused(serve(sends(response(whole, length=len(whole) + 1))))
    assert (status, "IncompleteRead" in message) == ("UNAVAILABLE", True)


@pytest.mark.parametrize("body", [b'{"error": "too lar', b"", b"\xff" * 99, b"[" * 65_000])
def test_a_cut_error_still_says_the_status(serve, body):
    script = sends(response(body, "400 Bad Request", length=100_000))
    status, message = refused(serve(script))
    assert (status, "HTTP 400, " in message) == ("INVALID_ARGUMENT", True)
    assert len(message) < 600


@pytest.mark.parametrize(
    "answer",
    ["[]", "{}", '{"model_version_status": [{"version": "x"}]}', '{"model_version_status": 7}'],
)
def test_a_status_that_is_none_is_one_error(serve, answer):
    status, _ = refused(serve(sends(response(answer.encode()))), lambda client: client.status())
    assert status == "BAD_ANSWER"


@pytest.mark.parametrize("client_class", [Client, RestClient])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39])
def test_numbers_that_are_not_finite_are_no_scores(request, ranker, client_class, value):
    address = request.getfixturevalue("grpc_address" if client_class is Client else "rest_address")
    ranker.replaced_output = {"scores": np.array([0.5, value])}
    with (
        client_class(address, "tiny") as client,
        pytest.raises(ServingError, match="BAD_ANSWER: scores: it holds numbers that are not fin"),
    ):
        client.score("red", ["red", "hat"])


@pytest.mark.parametrize("client_class", [Client, RestClient])
def test_vectors_have_one_width_in_all_batches(request, ranker, client_class, monkeypatch):
    address = request.getfixturevalue("grpc_address" if client_class is Client else "rest_address")

    def square(signature, inputs):
        return {"embeddings": np.ones((len(inputs["titles"]),) * 2, np.float32)}

    monkeypatch.setattr(ranker, "run", square)
    with client_class(address, "tiny", batch_size=4) as client:
        assert client.encode_titles(["a"] * 4).shape == (4, 4)
        with pytest.raises(ServingError, match="BAD_ANSWER: embeddings: "):
            client.encode_titles(["a"] * 7)


def test_a_grpc_answer_is_read_no_further_than_what_was_asked_for(grpc_address, ranker):
    ranker.replaced_output = {"embeddings": np.ones((1, 3_000_000), np.float32)}
    with (
        Client(grpc_address, "tiny", batch_size=4, timeout=PATIENCE) as client,
        pytest.raises(ServingError, match=r"BAD_ANSWER: .*Received message larger than max"),
    ):
        client.encode_titles(["a"])


# --------------------------------------------------------------------------- where the server is


@pytest.mark.parametrize("client_class", [Client, RestClient])
@pytest.mark.parametrize(
    "host",
    [
        *("", ":8500", "server:", "server:0", "server:99999", "server:85oo", "a b:8500", "\x00"),
        *("server\n:8500", "me@server:8500", "server:8500?x", "server/path", "256.1.1.1:8500"),
        *("a..b", "[::1", "[::g]:1", "x" * 64, "ftp://server"),
    ],
)
def test_a_bad_host_is_refused_at_once(client_class, host):
    with pytest.raises(ValueError, match=r"expect.* HOST:PORT"):
        client_class(host)


@pytest.mark.parametrize("path", ["?query", "#part", " ", "\r\nX: y", "/\xff"])
def test_a_bad_web_address_is_refused_at_once(path):
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        RestClient(f"https://server/{path}")


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("127.0.0.1", "127.0.0.1:8500"),
        ("ranker.example.com", "ranker.example.com:8500"),
        ("ranker:9", "ranker:9"),
        ("::1", "[::1]:8500"),
        ("[::1]:9", "[::1]:9"),
        ("dns:///ranker", "dns:///ranker:8500"),
        ("dns:///ranker:9", "dns:///ranker:9"),
        ("dns:ranker", "dns:ranker:8500"),
        ("unix:/run/ranker", "unix:/run/ranker"),
        ("ipv4:1.2.3.4:9,1.2.3.5:9", "ipv4:1.2.3.4:9,1.2.3.5:9"),
    ],
)
def test_a_host_without_a_port_is_asked_at_that_of_grpc(host, target):
    assert _target(host) == target


def test_a_host_without_a_port_is_asked_at_the_usual_one(capsys):
    for flags, address in ([], "127.0.0.1:8500"), (["--rest"], "127.0.0.1:8501"):
        assert main(["--host", "127.0.0.1", "--status", "--timeout", "5", *flags]) in (0, 1)
        said = capsys.readouterr()
        assert address in said.err or said.out
    assert RestClient("http://server").host == "http://server"
    assert RestClient("::1").host == "[::1]:8501"


def test_a_server_that_is_away_is_asked_for_again_soon():
    # gRPC's own waits grow to two minutes: the sixth attempt would come after 12 seconds or more.
    attempts = 0
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        with Client(f"127.0.0.1:{listening.getsockname()[1]}", "tiny", timeout=PATIENCE) as client:
            while attempts < 6 and time.monotonic() - started < PATIENCE:
                asked = client._call_status.future(client._predict_pb2.GetModelStatusRequest())
                with suppress(BlockingIOError):
                    listening.accept()[0].close()
                    attempts += 1
                time.sleep(0.01)
                asked.cancel()
    assert attempts == 6
    assert time.monotonic() - started < 10


def test_a_server_that_is_back_is_found(ranker):
    with served(ranker) as server:
        address = server.grpc_address
        client = Client(address, "tiny", timeout=PATIENCE)
        assert client.score("red", ["red"]) == [1]
    with client:
        with pytest.raises(ServingError, match="UNAVAILABLE"):
            client.score("red", ["red"])
        with served(ranker, int(address.split(":")[1])):
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                with suppress(ServingError):
                    assert client.score("red", ["red"]) == [1]
                    break
                time.sleep(0.02)
            else:
                raise AssertionError(f"not found within {PATIENCE} s")


# ----------------------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Files of a certificate for 127.0.0.1, and of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=loopback -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_grpc_speaks_tls(ranker, certificate, capsys):
    cert, key = (file.read_bytes() for file in certificate)
    with served(ranker, credentials=grpc.ssl_server_credentials([(key, cert)])) as server:
        address = server.grpc_address
        trusting = grpc.ssl_channel_credentials(cert)
        with Client(address, "tiny", credentials=trusting, timeout=PATIENCE) as client:
            assert client.score("red", ["red"]) == [1]
        ask = ["--host", address, "--model", "tiny", "--status", "--timeout", str(PATIENCE)]
        assert main([*ask, "--tls", "--ca-file", str(certificate[0])]) == 0
        assert capsys.readouterr().out == "3\tAVAILABLE\n"
        # Nobody vouches for this server, and it does not speak without TLS.
        assert main([*ask, "--tls"]) == main(ask) == 1
        assert capsys.readouterr().err.count("tiny at") == 2


def test_rest_speaks_tls(serve, certificate, capsys):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    body = b'{"model_version_status": [{"version": "3", "state": "AVAILABLE", "status": {}}]}'
    ask = ["--rest", "--tls", "--model", "tiny", "--status", "--timeout", str(PATIENCE), "--host"]
    known = ["--ca-file", str(certificate[0])]
    assert main([*ask, serve(sends(response(body)), context), *known]) == 0
    assert capsys.readouterr().out == "3\tAVAILABLE\n"
    assert main([*ask, serve(sends(response(body)), context)]) == 1
    assert "certificate verify failed" in capsys.readouterr().err
    trickle = trickles(b"HTTP/1.1 200 OK\r\n\r\n", b" ")
    client = RestClient(
        f"https://{serve(trickle, context)}",
        "tiny",
        context=ssl.create_default_context(cafile=certificate[0]),
        timeout=0.5,
    )
    started = time.monotonic()
    with pytest.raises(ServingError, match="DEADLINE_EXCEEDED"):
        client.status()
    assert time.monotonic() - started < PATIENCE / 2


@pytest.mark.parametrize("protocol", [[], ["--rest"]])
def test_a_certificate_that_is_none_is_one_line(protocol, capsys, tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "missing.pem"):
        path = str(tmp_path / name)
        assert main([*protocol, "--status", "--tls", "--ca-file", path]) == 1
        said = capsys.readouterr().err
        assert (said.count("\n"), path in said) == (1, True)


@pytest.mark.parametrize(
    "flags", [["--ca-file", "x"], ["--tls", "--cert-file", "x"], ["--tls", "--key-file", "x"]]
)
def test_certificates_without_tls_are_wrong_usage(flags):
    with pytest.raises(SystemExit) as left:
        main(["--status", *flags])
    assert left.value.code == 2
