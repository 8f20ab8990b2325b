"""Faulty servers and connections, and TLS."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import grpc
import pytest

from serving import messages, predict_pb2
from serving.client import Client, ServingError
from tests.server.asking import wait_for
from tests.serving.conftest import served

PATIENCE = 60.0  # seconds; generous, because the machine may be busy


@pytest.fixture
def start_server():
    """Returns a function that starts a server with a fixed response and returns its address."""
    servers = []

    def start(raw: bytes, credentials: grpc.ServerCredentials | None = None) -> str:
        server = grpc.server(ThreadPoolExecutor(1))
        _, service, method = messages.PREDICT.split("/")
        handler = grpc.unary_unary_rpc_method_handler(lambda request, context: raw)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        port = (
            server.add_secure_port("127.0.0.1:0", credentials)
            if credentials
            else server.add_insecure_port("127.0.0.1:0")
        )
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(None).wait()


def response_with_shape(*sizes: int, values: int = 1) -> bytes:
    response = predict_pb2.PredictResponse()
    tensor = response.outputs["scores"]
    tensor.dtype = predict_pb2.DT_FLOAT
    tensor.float_val.extend([0.5] * values)
    for size in sizes:
        tensor.tensor_shape.dim.add(size=size)
    return response.SerializeToString()


@pytest.mark.parametrize(
    "raw",
    [
        response_with_shape(*[1 << 62] * 32_000),
        response_with_shape(1 << 62),
        response_with_shape(-1),
        response_with_shape(2, 1),
        response_with_shape(2, values=3),
        response_with_shape(2, values=0),
        predict_pb2.PredictResponse().SerializeToString(),
        b"\xff\xff",
    ],
    ids=["many dimensions", "huge", "negative", "rank 2", "too many", "none", "no output", "bytes"],
)
def test_an_invalid_response_is_a_short_error_without_delay(start_server, raw):
    with Client(start_server(raw), "tiny", timeout=PATIENCE) as client:
        started = time.monotonic()
        with pytest.raises(ServingError, match=r"INVALID_RESPONSE|INTERNAL") as caught:
            client.score("red", ["red", "hat"])
        assert time.monotonic() - started < 2
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_connections_are_retried_at_short_intervals():
    # By default, gRPC's delays grow to two minutes: a sixth attempt would take 12 s or more.
    attempts = 0
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        with Client(f"127.0.0.1:{listening.getsockname()[1]}", "tiny", timeout=PATIENCE) as client:
            while attempts < 6 and time.monotonic() - started < PATIENCE:
                call = client._predict.future(predict_pb2.PredictRequest())
                with suppress(BlockingIOError):
                    listening.accept()[0].close()
                    attempts += 1
                time.sleep(0.01)
                call.cancel()
    assert attempts == 6
    assert time.monotonic() - started < 10


def test_a_client_reconnects_to_a_restarted_server(ranker):
    with served(ranker) as server:
        address = server.grpc_address
        client = Client(address, "tiny", timeout=PATIENCE)
        assert client.encode("title", ["red"]).tolist() == [[3, 1, 1]]
    with client:
        with pytest.raises(ServingError, match="UNAVAILABLE"):
            client.encode("title", ["red"])
        with served(ranker, int(address.split(":")[1])):

            def responds() -> bool:
                with suppress(ServingError):
                    return client.score("red", ["red"]).tolist() == [11]
                return False

            wait_for(responds)


# ----------------------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The files of a certificate for 127.0.0.1 and of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=loopback -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_the_client_supports_tls(start_server, certificate):
    cert, key = (file.read_bytes() for file in certificate)
    address = start_server(response_with_shape(1), grpc.ssl_server_credentials([(key, cert)]))
    trusting = grpc.ssl_channel_credentials(cert)
    with Client(address, "tiny", credentials=trusting, timeout=PATIENCE) as client:
        assert client.score("red", ["hat"]).tolist() == [0.5]
    # Without the certificate the server is not trusted; without TLS it does not respond.
    for credentials in (grpc.ssl_channel_credentials(), None):
        with (
            Client(address, "tiny", credentials=credentials, timeout=PATIENCE) as client,
            pytest.raises(ServingError, match="tiny at"),
        ):
            client.score("red", ["hat"])
