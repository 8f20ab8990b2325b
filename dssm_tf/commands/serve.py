"""`dssm serve`: serves trained models with TensorFlow Serving's gRPC and REST interfaces."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dssm_tf.commands.named import check_unique_names, split_name
from dssm_tf.common.errors import UserError, install_command
from dssm_tf.common.terminal import say
from dssm_tf.server.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from dssm_tf.server.models import Model
    from dssm_tf.server.server import Server

_LOG = logging.getLogger("dssm_tf.server")
_REQUIRED_PACKAGES = ("grpc", "grpc_health", "jinja2", "prometheus_client", "starlette", "uvicorn")


def serve(
    *models: str,
    index: Path | None = None,
    host: str = "127.0.0.1",
    allow_host: tuple[str, ...] = (),
    allow_origin: tuple[str, ...] = (),
    port: int = 8500,
    rest_port: int = 8501,
    limits: Annotated[Limits, Parameter(name="*", group="Limits")] = DEFAULT_LIMITS,
) -> None:
    """Serve trained models over gRPC and REST, as TensorFlow Serving does.

    For development, tests and small sites; one process. Serves the newest version of each model;
    restart the server to serve a newer one. On SIGTERM or Ctrl-C, the server answers open requests
    and ends. Requests over a limit are refused immediately.

        dssm serve --index INDEX

    Args:
        models: [NAME=]PATH: directory that `dssm export` wrote (OUT, OUT/NAME or
            OUT/NAME/VERSION), or a run
        index: directory that `dssm index` wrote; serves its model and, at / of the REST port,
            a search page
        host: address to listen on; there is no authentication, so keep it inside your network
        allow_host: a name that requests may have in their Host header, besides loopback and
            --host; * for any; may be repeated
        allow_origin: a site whose pages may send requests from a browser (CORS), such as
            https://shop.example; * for any; may be repeated
        port: gRPC port; 0 takes a free one
        rest_port: port of REST, metrics and the page; 0 takes a free one
        limits: see `Limits`

    Raises:
        UserError: a model cannot be served, or a port is in use.
    """
    # Errors are reported in one line, without additional lines from gRPC.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from dssm_tf.server.server import Server
    except ModuleNotFoundError as error:
        if error.name not in _REQUIRED_PACKAGES:
            raise
        raise UserError(f"dssm serve needs {error.name}: {install_command('serve')}") from None
    from dssm_tf.retrieval.opening import open_index
    from dssm_tf.server.models import Model

    for flag, number in (("--port", port), ("--rest-port", rest_port)):
        if not 0 <= number < 1 << 16:
            raise UserError(f"{flag} {number}: expected 0 to 65535.")
    for name, limit in asdict(limits).items():
        if not 0 < limit < threading.TIMEOUT_MAX:
            raise UserError(f"--{name.replace('_', '-')} {limit}: expected more than 0.")
    if not (models or index):
        raise UserError("nothing to serve; give a model or --index.")
    with _restored_signal_handlers():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
        _LOG.setLevel(logging.INFO)
        served_models, search_index = _models(models), None
        if index:
            search_index = open_index(index)
            served_models.insert(0, Model(search_index.model.name, 1, search_index.model))
        check_unique_names([model.name for model in served_models], "models")
        server = Server(
            served_models, host=host, port=port, rest_port=rest_port, limits=limits,
            hosts=allow_host, origins=allow_origin, index=search_index,
        )  # fmt: skip
        stop_event = _on_signal(server)
        with server:
            host = server.rest_address
            lines = [f"gRPC     {server.grpc_address}"]
            for name, number, _ in served_models:
                lines.append(f"REST     http://{host}/v1/models/{name}, version {number}")
            lines.append(f"metrics  http://{host}/metrics")
            if search_index is not None:
                lines.append(f"search   http://{host}/")
            with suppress(OSError):  # serve even if standard error is a file on a full disk
                say(*lines, "Press Ctrl-C to stop.", to=sys.stderr)
            stop_event.wait()
            _LOG.info("stopping after open requests are answered")


def _models(entries: Sequence[str]) -> list[Model]:
    """Opens the models of all entries `[NAME=]PATH`."""
    from dssm_tf.server.models import open_models

    models: list[Model] = []
    for entry in entries:
        name, path = split_name(entry, "models")
        opened = open_models(Path(path))
        if name and len(opened) > 1:
            names = ", ".join(model.name for model in opened)
            raise UserError(f"{entry}: {path} contains the models {names}; leave {name}= out.")
        models += [model._replace(name=name or model.name) for model in opened]
    return models


@contextmanager
def _restored_signal_handlers() -> Iterator[None]:
    """Restores the handlers of SIGTERM and SIGINT when the block ends."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _on_signal(server: Server) -> threading.Event:
    """An event that SIGTERM and Ctrl-C set. Before the server listens, they end the process."""
    stop_event = threading.Event()

    def stop(number: int, _: object) -> None:
        if not server.rest_address:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        stop_event.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stop_event
