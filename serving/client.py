"""The gRPC client of a served ranker, and its command line; needs no TensorFlow.

    with Client("127.0.0.1:8500", model="lstm") as client:
        for title, score, position in client.rank("wizard of oz", titles):
            ...

It needs grpcio, protobuf and numpy; `RestClient`, with the same methods, only numpy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from serving.model_client import ModelClient, RankedTitle, ServingError, VersionStatus
from serving.rest_client import HOST as REST_HOST
from serving.rest_client import RestClient

__all__ = ["Client", "RankedTitle", "RestClient", "ServingError", "VersionStatus", "main"]

HOST = "127.0.0.1:8500"

_OPTIONS = [
    # Vectors of a large batch exceed gRPC's default of 4 MB.
    ("grpc.max_receive_message_length", -1),
    # A model server is a neighbour: the environment's proxies are for the world outside.
    ("grpc.enable_http_proxy", 0),
    # Of several addresses of one name (`dns:///NAME:PORT`), all are used.
    ("grpc.lb_policy_name", "round_robin"),
    # A new client starts afresh, whatever an earlier one found at the same address.
    ("grpc.use_local_subchannel_pool", 1),
]


class Client(ModelClient):
    """A client of TensorFlow Serving's PredictionService and ModelService.

    Connects at the first request. The arguments are those of `ModelClient`; `host` may be any
    target that gRPC can resolve, as `dns:///ranker:8500`.

    Raises:
        ModuleNotFoundError: grpcio or protobuf is not installed.
    """

    def __init__(self, host: str = HOST, model: str = "lstm", **options: Any) -> None:
        super().__init__(host, model, **options)
        if host.startswith(("http://", "https://")):
            raise ValueError(
                f"host is {host!r}; gRPC expects HOST:PORT. For a web address use RestClient."
            )
        # Here, not above: RestClient is for where these are not installed.
        try:
            import grpc

            from serving import messages, predict_pb2
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"gRPC needs the package {error.name}: pip install grpcio protobuf, or use "
                "RestClient (--rest), which needs neither.",
                name=error.name,
            ) from error
        self._grpc, self._messages, self._predict_pb2 = grpc, messages, predict_pb2
        self._channel = grpc.insecure_channel(host, _OPTIONS)
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
        self, signature: str, inputs: Mapping[str, Sequence[str]], output: str, timeout: float
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
            return self._messages.decode_tensor(answer.outputs[output])
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
            raise self._error(name, error.code().name, error.details() or "") from error


class _Parser(argparse.ArgumentParser):
    """Takes `--titles-file` for `--titles-file`, and says what a typo may have meant."""

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
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.status == (arguments.query is not None):
        parser.error("give either --query or --status")
    if arguments.query is not None and not (arguments.title or arguments.titles_file):
        parser.error("--query needs titles to rank: --title or --titles-file")
    client_class, host = (RestClient, REST_HOST) if arguments.rest else (Client, HOST)
    try:
        client = client_class(
            arguments.host or host,
            arguments.model,
            version=arguments.model_version,
            timeout=arguments.timeout,
            batch_size=arguments.batch_size,
        )
    except ValueError as error:
        parser.error(str(error))
    except ModuleNotFoundError as error:
        return _fail(str(error))
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
