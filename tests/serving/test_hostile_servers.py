"""What a server, or what stands between, may do to the client; and TLS."""

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

PATIENCE = 60.0  # seconds, on a machine that does other things too


@pytest.fixture
def answering():
    """Starts a server that answers Predict with the bytes it is given; returns its address."""
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


def shaped(*sizes: int, values: int = 1) -> bytes:
    answer = predict_pb2.PredictResponse()
    tensor = answer.outputs["scores"]
    tensor.dtype = predict_pb2.DT_FLOAT
    tensor.float_val.extend([0.5] * values)
    for size in sizes:
        tensor.tensor_shape.dim.add(size=size)
    return answer.SerializeToString()


@pytest.mark.parametrize(
    "raw",
    [
        shaped(*[1 << 62] * 32_000),
        shaped(1 << 62),
        shaped(-1),
        shaped(2, 1),
        shaped(2, values=3),
        shaped(2, values=0),
        predict_pb2.PredictResponse().SerializeToString(),
        b"\xff\xff",
    ],
    ids=["many dimensions", "huge", "negative", "rank 2", "too many", "none", "no output", "bytes"],
)
def test_an_answer_that_is_none_is_one_short_line_at_once(answering, raw):
    with Client(answering(raw), "tiny", timeout=PATIENCE) as client:
        started = time.monotonic()
        with pytest.raises(ServingError, match=r"BAD_ANSWER|INTERNAL") as caught:
            client.score("red", ["red", "hat"])
        assert time.monotonic() - started < 2
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_a_server_that_is_away_is_asked_for_again_soon():
    # gRPC's own waits grow to two minutes: the sixth attempt would come after 12 seconds or more.
    attempts = 0
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        with Client(f"127.0.0.1:{listening.getsockname()[1]}", "tiny", timeout=PATIENCE) as client:
            while attempts < 6 and time.monotonic() - started < PATIENCE:
                asked = client._predict.future(predict_pb2.PredictRequest())
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
        assert client.encode("title", ["red"]).tolist() == [[3, 1, 1]]
    with client:
        with pytest.raises(ServingError, match="UNAVAILABLE"):
            client.encode("title", ["red"])
        with served(ranker, int(address.split(":")[1])):

            def answers() -> bool:
                with suppress(ServingError):
                    return client.score("red", ["red"]).tolist() == [11]
                return False

            wait_for(answers)


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


def test_the_client_speaks_tls(answering, certificate):
    cert, key = (file.read_bytes() for file in certificate)
    address = answering(shaped(1), grpc.ssl_server_credentials([(key, cert)]))
    trusting = grpc.ssl_channel_credentials(cert)
    with Client(address, "tiny", credentials=trusting, timeout=PATIENCE) as client:
        assert client.score("red", ["hat"]).tolist() == [0.5]
    # Nobody vouches for this server, and it does not speak without TLS.
    for credentials in (grpc.ssl_channel_credentials(), None):
        with (
            Client(address, "tiny", credentials=credentials, timeout=PATIENCE) as client,
            pytest.raises(ServingError, match="tiny at"),
        ):
            client.score("red", ["hat"])
