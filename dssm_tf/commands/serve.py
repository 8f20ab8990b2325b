"""`dssm serve`: trained models over gRPC and REST, as TensorFlow Serving has them."""

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

from dssm_tf.commands.named import refuse_twins, split_name
from dssm_tf.common.errors import UserError, install_command
from dssm_tf.common.terminal import say
from dssm_tf.server.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from dssm_tf.server.models import Model
    from dssm_tf.server.server import Server

_LOG = logging.getLogger("dssm_tf.server")
_NEEDED = ("grpc", "grpc_health", "jinja2", "prometheus_client", "starlette", "uvicorn")


def serve(
    *models: str,
    index: Path | None = None,
    host: str = "127.0.0.1",
    allow_host: tuple[str, ...] = (),
    port: int = 8500,
    rest_port: int = 8501,
    limits: Annotated[Limits, Parameter(name="*", group="Limits")] = DEFAULT_LIMITS,
) -> None:
    """Serve trained models over gRPC and REST, as TensorFlow Serving does.

    For development, tests and small sites; one process. Of a model with several versions the
    newest answers; restart the server for a newer one. SIGTERM or Ctrl-C ends it after open
    requests are answered. Requests over a limit are refused at once.

        dssm serve --index INDEX

    Args:
        models: [NAME=]PATH: what `dssm export` wrote, all of OUT, OUT/NAME or OUT/NAME/VERSION;
            or a run
        index: what `dssm index` wrote: serves its model and, at / of the REST port, a page that
            searches by words (BM25) and meaning (the model) together, and by each alone
        host: address to listen on; there is no authentication, so keep it inside your network
        allow_host: a name that requests may have in their Host header, besides loopback and
            --host; * for any; may be repeated
        port: gRPC port; 0 takes a free one
        rest_port: port of REST, metrics and the page; 0 takes a free one
        limits: see `Limits`

    Raises:
        UserError: something cannot be served, or a port is in use.
    """
    # What fails is said in one line; gRPC writes others of its own.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from dssm_tf.server.server import Server
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        raise UserError(f"dssm serve needs {error.name}: {install_command('serve')}") from None
    from dssm_tf.retrieval.index import Index
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
        found, searched = _models(models), None
        if index:
            searched = Index.open(index)
            found.insert(0, Model(searched.model.name, 1, searched.model))
        refuse_twins([one.name for one in found], "models")
        server = Server(
            found, host=host, port=port, rest_port=rest_port, limits=limits, hosts=allow_host,
            index=searched,
        )  # fmt: skip
        stopped = _on_signal(server)
        with server:
            host = server.rest_address
            lines = [f"gRPC     {server.grpc_address}"]
            for name, number, _ in found:
                lines.append(f"REST     http://{host}/v1/models/{name}, version {number}")
            lines.append(f"metrics  http://{host}/metrics")
            if searched is not None:
                lines.append(f"search   http://{host}/")
            with suppress(OSError):  # it serves all the same if its log is on a full disk
                say(*lines, "Ctrl-C ends it.", to=sys.stderr)
            stopped.wait()
            _LOG.info("stopping after open requests are answered")


def _models(entries: Sequence[str]) -> list[Model]:
    """The models of all directories."""
    from dssm_tf.server.models import open_models

    models: list[Model] = []
    for entry in entries:
        name, path = split_name(entry, "models")
        found = open_models(Path(path))
        if name and len(found) > 1:
            inside = ", ".join(one.name for one in found)
            raise UserError(f"{entry}: holds the models {inside}; leave {name}= out.")
        models += [one._replace(name=name or one.name) for one in found]
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
    """Set by SIGTERM and Ctrl-C once the server listens; before that they end the process."""
    stopped = threading.Event()

    def stop(number: int, _: object) -> None:
        if not server.rest_address:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopped
