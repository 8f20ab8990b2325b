"""The gRPC client of a served ranker, and its command line; needs no TensorFlow.

    with Client("127.0.0.1:8500", model="lstm") as client:
        for title, score, position in client.rank("wizard of oz", titles):
            ...

It needs grpcio, protobuf and numpy; `RestClient`, with the same methods, only numpy.
"""

from __future__ import annotations

import argparse
import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from serving.address import join_address, split_address
from serving.model_client import (
    LONGEST_VECTOR,
    ModelClient,
    RankedTitle,
    ServingError,
    VersionStatus,
)
from serving.rest_client import HOST as REST_HOST
from serving.rest_client import PORT as REST_PORT
from serving.rest_client import RestClient

__all__ = ["Client", "RankedTitle", "RestClient", "ServingError", "VersionStatus", "main"]

PORT = 8500
HOST = f"127.0.0.1:{PORT}"

_NUMBER_BYTES = 8
_ANSWER_BYTES = 1 << 20  # what else an answer may hold

_OPTIONS = [
    # A model server is a neighbour: the environment's proxies are for the world outside.
    ("grpc.enable_http_proxy", 0),
    # Of several addresses of one name (`dns:///NAME:PORT`), all are used.
    ("grpc.lb_policy_name", "round_robin"),
    # A new client starts afresh, whatever an earlier one found at the same address.
    ("grpc.use_local_subchannel_pool", 1),
    # A server that is back is found within a second; gRPC itself would wait up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]

# What gRPC resolves in ways of its own.
_SCHEMES = ("ipv4:", "ipv6:", "unix:", "unix-abstract:", "xds:")


class Client(ModelClient):
    """A client of TensorFlow Serving's PredictionService and ModelService.

    Connects at the first request.

    Args:
        host: `HOST:PORT`, or any target that gRPC can resolve, as `dns:///ranker:8500`.
        model: the served model's name.
        credentials: of the connection, such as `grpc.ssl_channel_credentials()` for TLS; without,
            nothing is encrypted.
        options: further arguments of `ModelClient`.

    Raises:
        ModuleNotFoundError: grpcio or protobuf is not installed.
    """

    def __init__(
        self, host: str = HOST, model: str = "lstm", *, credentials: Any = None, **options: Any
    ) -> None:
        target = _target(host)
        super().__init__(target, model, **options)
        self._grpc = grpc = _import_grpc()
        from serving import messages, predict_pb2

        self._messages, self._predict_pb2 = messages, predict_pb2
        most = _ANSWER_BYTES + self.batch_size * LONGEST_VECTOR * _NUMBER_BYTES
        limited = [*_OPTIONS, ("grpc.max_receive_message_length", min(most, (1 << 31) - 1))]
        self._channel = (
            grpc.insecure_channel(target, limited)
            if credentials is None
            else grpc.secure_channel(target, credentials, limited)
        )
        self._call_predict = self._channel.unary_unary(
            messages.PREDICT,
            request_serializer=predict_pb2.PredictRequest.SerializeToString,
            response_deserializer=predict_pb2.PredictResponse.FromString,
        )
        self._call_status = self._channel.unary_unary(
            messages.GET_MODEL_STATUS,
            request_serializer=predict_pb2.GetModelStatusRequest.SerializeToString,
            response_deserializer=predict_pb2.GetModelStatusResponse.FromString,
        )

    def status(self) -> list[VersionStatus]:
        """The versions of the model that the server knows."""
        request = self._predict_pb2.GetModelStatusRequest()
        self._name_model(request.model_spec)
        answer = self._call("status", self._call_status, request, self.timeout)
        return [
            VersionStatus(one.version, self._messages.state_name(one), one.status.error_message)
            for one in answer.model_version_status
        ]

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def _predict(
        self,
        signature: str,
        inputs: Mapping[str, Sequence[str]],
        output: str,
        most: int,
        timeout: float,
    ) -> Any:
        request = self._predict_pb2.PredictRequest()
        self._name_model(request.model_spec)
        request.model_spec.signature_name = signature
        for name, texts in inputs.items():
            request.inputs[name].CopyFrom(self._messages.encode_tensor(texts))
        answer = self._call(signature, self._call_predict, request, timeout)
        if output not in answer.outputs:
            raise self._error(signature, "BAD_ANSWER", f"the answer has no output {output!r}")
        try:
            return self._messages.decode_tensor(answer.outputs[output], most)
        except ValueError as error:
            raise self._error(signature, "BAD_ANSWER", f"{output}: {error}") from error

    def _name_model(self, spec: Any) -> None:
        spec.name = self.model
        if self.version is not None:
            spec.version.value = self.version

    def _call(self, name: str, call: Any, request: Any, timeout: float) -> Any:
        try:
            return call(request, timeout=timeout)
        except self._grpc.RpcError as error:
            status, details = error.code().name, error.details() or ""
            if "CLIENT: Received message larger" in details:
                status = "BAD_ANSWER"  # a smaller batch may have but a smaller answer
            raise self._error(name, status, details) from error


def _import_grpc() -> Any:
    """gRPC; imported only where it is used, as RestClient is for where it is not installed."""
    try:
        import google.protobuf  # noqa: F401
        import grpc
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"gRPC needs the package {error.name}: pip install grpcio protobuf, or use "
            "RestClient (--rest), which needs neither.",
            name=error.name,
        ) from error
    return grpc


def _target(host: str) -> str:
    """An address as gRPC takes it; without a port, it would ask at 443."""
    if host.startswith(_SCHEMES):
        return host
    cut = (host.rfind("/") + 1 or len("dns:")) if host.startswith("dns:") else 0
    resolver, name = host[:cut], host[cut:]
    if "://" in name:
        raise ValueError(
            f"host is {host[:100]!r}; gRPC expects HOST:PORT. For a web address use RestClient."
        )
    return resolver + join_address(*split_address(name, PORT))


class _Parser(argparse.ArgumentParser):
    """Takes `--titles_file` for `--titles-file`, and says what a typo may have meant."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        known = self._option_string_actions
        for place, word in enumerate(words):
            name, equals, value = word.partition("=")
            if (flag := name.replace("_", "-")) in known:
                words[place] = f"{flag}{equals}{value}"
            elif word.startswith("--") and " " not in name:
                near = "".join(
                    f" Did you mean {one!r}?" for one in get_close_matches(flag, known, 1, 0.7)
                )
                self.error(f"there is no {name}.{near}")
        return super().parse_known_args(words, namespace)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m serving.client",
        usage="%(prog)s (--query Q --title T ... | --status) [--host HOST:PORT] [--model NAME] ...",
        allow_abbrev=False,
        description="Ask a ranker that TensorFlow Serving serves: rank titles for a query, or "
        "show the state of the model.",
        epilog="example: python -m serving.client --model lstm --query 'wizard of oz' "
        "--title 'The Wizard of Oz' --title 'Wizard book'. Prints rank, score and title, best "
        "first, separated by tabs. Exit codes: 0 done, 1 failed with a one-line reason, "
        "2 wrong usage.",
    )
    parser.add_argument(
        "--host", metavar="HOST:PORT", help=f"the server (default {HOST}; with --rest {REST_HOST})"
    )
    parser.add_argument("--model", default="lstm", help="the served model's name (default lstm)")
    parser.add_argument(
        "--model-version", type=int, metavar="N", help="its version (default: the newest served)"
    )
    parser.add_argument("--rest", action="store_true", help="speak REST instead of gRPC")
    parser.add_argument("--tls", action="store_true", help="encrypt, and check who the server is")
    parser.add_argument(
        "--ca-file",
        metavar="PEM",
        help="with --tls: whom to trust instead of the public authorities",
    )
    parser.add_argument("--cert-file", metavar="PEM", help="with --tls: the client's certificate")
    parser.add_argument("--key-file", metavar="PEM", help="with --tls: its private key")
    parser.add_argument("--query", metavar="Q", help="the query to rank titles for")
    parser.add_argument(
        "--title", metavar="T", action="append", default=[], help="a title; may be repeated"
    )
    parser.add_argument(
        "--titles-file", metavar="FILE", help="titles, one a line, UTF-8; - for standard input"
    )
    parser.add_argument(
        "--status", action="store_true", help="show the model's versions and their state instead"
    )
    parser.add_argument(
        "--timeout", type=float, default=10.0, metavar="SECONDS", help="in all (default 10)"
    )
    parser.add_argument(
        "--batch-size", type=int, default=256, metavar="N", help="titles a request (default 256)"
    )
    return parser


def _client(arguments: argparse.Namespace) -> ModelClient:
    options = {
        "version": arguments.model_version,
        "timeout": arguments.timeout,
        "batch_size": arguments.batch_size,
    }
    files = arguments.ca_file, arguments.key_file, arguments.cert_file
    context = _certificates(*files) if arguments.tls else None
    if arguments.rest:
        host = arguments.host or REST_HOST
        if arguments.tls and "://" not in host:
            host = f"https://{join_address(*split_address(host, REST_PORT))}"
        return RestClient(host, arguments.model, context=context, **options)
    credentials = None
    if arguments.tls:
        read = [Path(file).read_bytes() if file else None for file in files]
        credentials = _import_grpc().ssl_channel_credentials(*read)
    return Client(arguments.host or HOST, arguments.model, credentials=credentials, **options)


def _certificates(ca: str | None, key: str | None, certificate: str | None) -> ssl.SSLContext:
    """Certificates for https; made for gRPC too, as this alone says what is wrong with a file.

    Raises:
        OSError: a file cannot be read, or holds no certificate or key.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        named = ", ".join(file for file in (ca, certificate, key) if file)
        raise OSError(f"{named}: {error.strerror or error}; expected files in PEM.") from error
    return context


def _titles(arguments: argparse.Namespace) -> list[str]:
    titles = list(arguments.title)
    if arguments.titles_file == "-":
        titles += sys.stdin.read().splitlines()
    elif arguments.titles_file:
        titles += Path(arguments.titles_file).read_text("utf-8").splitlines()
    return [title for title in titles if title.strip()]


def _table(client: ModelClient, arguments: argparse.Namespace) -> list[str]:
    if arguments.status:
        return [f"{one.version}\t{one.state}\t{one.error}".rstrip() for one in client.status()]
    ranking = client.rank(arguments.query, _titles(arguments))
    return [
        f"{rank}\t{one.score:.4f}\t{' '.join(one.title.split())}"
        for rank, one in enumerate(ranking, start=1)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit code (wrong usage exits by itself, with 2)."""
    # What failed is said in one line; gRPC writes others of its own.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.status == (arguments.query is not None):
        parser.error("give either --query or --status")
    if arguments.query is not None and not (arguments.title or arguments.titles_file):
        parser.error("--query needs titles to rank: --title or --titles-file")
    if (arguments.ca_file or arguments.cert_file or arguments.key_file) and not arguments.tls:
        parser.error("--ca-file, --cert-file and --key-file are for --tls")
    if bool(arguments.cert_file) != bool(arguments.key_file):
        parser.error("--cert-file and --key-file go together")
    try:
        client = _client(arguments)
    except (OSError, ModuleNotFoundError) as error:
        return _fail(str(error))
    except ValueError as error:
        parser.error(str(error))
    try:
        with client:
            lines = _table(client, arguments)
    except (ServingError, OSError, UnicodeDecodeError) as error:
        return _fail(str(error))
    for line in lines:
        # A terminal takes no lone surrogates.
        sys.stdout.write(line.encode("utf-8", "replace").decode("utf-8") + "\n")
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"serving.client: {reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
