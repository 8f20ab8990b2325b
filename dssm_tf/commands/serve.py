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

from dssm_tf.commands.named import split_name
from dssm_tf.common.errors import UserError, install_command
from dssm_tf.common.paths import AnyPath, NamedPath, optional_path
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import log_level, say
from dssm_tf.server.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from dssm_tf.server.server import Server

_LOG = logging.getLogger("dssm_tf.server")
_REQUIRED_PACKAGES = (
    "grpc", "grpc_health", "httptools", "jinja2", "prometheus_client", "starlette", "uvicorn"
)  # fmt: skip
_SIGNALS = [
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
]


def serve(
    *models: NamedPath,
    index: AnyPath | None = None,
    rules: AnyPath | None = None,
    host: str = "127.0.0.1",
    allow_host: tuple[str, ...] = (),
    allow_origin: tuple[str, ...] = (),
    port: int = 8500,
    rest_port: int = 8501,
    poll_seconds: float = 1.0,
    label: tuple[str, ...] = (),
    limits: Annotated[Limits, Parameter(name="*", group="Limits")] = DEFAULT_LIMITS,
) -> None:
    """Serve trained models over gRPC and REST, as TensorFlow Serving does.

    One process. Serves the newest version of each model, and loads a newer one, or a new index,
    when its files are complete, without losing a request. SIGHUP loads it at once. A version that
    cannot be loaded is refused, and the old one stays. On SIGTERM or Ctrl-C, the server answers
    open requests and ends. When too many requests arrive, some are refused, so that answers stay
    fast.

        dssm serve --index INDEX

    Args:
        models: [NAME=]PATH: directory that `dssm export` wrote (OUT, OUT/NAME or
            OUT/NAME/VERSION), or a run
        index: directory that `dssm index` wrote; serves its model and, at / of the REST port,
            a search page
        rules: with --index, file with similar words and with pinned and blocked titles
            (docs/rules.md), instead of the rules of the index; read again when it changes
        host: IPv4 address to listen on, or its name; there is no authentication, so keep it inside
            your network
        allow_host: a name that requests may have in their Host header, besides loopback and
            --host; * for any; may be repeated
        allow_origin: a site whose pages may send requests from a browser (CORS), such as
            https://shop.example; * for any; may be repeated
        port: gRPC port; 0 takes a free one
        rest_port: port of REST, metrics and the page; 0 takes a free one
        poll_seconds: time between two checks for new versions; 0 to check after SIGHUP only
        label: LABEL=VERSION: an older version to serve beside the newest one, at
            /labels/LABEL of each model that has it; may be repeated
        limits: see `Limits`

    Raises:
        UserError: a model cannot be served, or the host or a port is not available.
    """
    index, rules = optional_path(index), optional_path(rules)
    # Errors are reported in one line, without additional lines from gRPC.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from dssm_tf.server.repository import ModelSource, Repository
        from dssm_tf.server.server import Server
    except ModuleNotFoundError as error:
        if error.name not in _REQUIRED_PACKAGES:
            raise
        raise UserError(f"dssm serve needs {error.name}: {install_command('serve')}") from None

    for flag, number in (("--port", port), ("--rest-port", rest_port)):
        if not 0 <= number < 1 << 16:
            raise UserError(f"{flag} {number}: expected 0 to 65535.")
    for name, limit in asdict(limits).items():
        if not 0 < limit < threading.TIMEOUT_MAX:
            raise UserError(f"--{name.replace('_', '-')} {limit}: expected more than 0.")
    if not (models or index):
        raise UserError("nothing to serve; give a model or --index.")
    if rules is not None and index is None:
        raise UserError("--rules is for --index.")
    if not 0 <= poll_seconds < threading.TIMEOUT_MAX:
        raise UserError(f"--poll-seconds {poll_seconds}: expected at least 0.")
    sources = [
        ModelSource(Path(path), name)
        for name, path in (split_name(str(model), "models") for model in models)
    ]
    with _restored_signal_handlers():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
        _LOG.setLevel(log_level())
        repository = Repository(sources, index, rules, _labels(label))
        with progress_of("loading", None, unit=""):
            snapshot = repository.open()
        server = Server(
            host=host, port=port, rest_port=rest_port, limits=limits, hosts=allow_host,
            origins=allow_origin, repository=repository, poll_seconds=poll_seconds,
        )  # fmt: skip
        stop_event = _on_signal(server)
        with server:
            address = server.rest_address
            lines = [f"gRPC     {server.grpc_address}"]
            for name, number, _ in snapshot.models:
                lines.append(f"REST     http://{address}/v1/models/{name}, version {number}")
            lines.append(f"metrics  http://{address}/metrics")
            if snapshot.index is not None:
                lines.append(f"search   http://{address}/ and http://{address}/v1/search")
            with suppress(OSError):  # serve even if standard error is a file on a full disk
                say(*lines, "Press Ctrl-C to stop.", to=sys.stderr)
            stop_event.wait()
            _LOG.info("stopping after open requests are answered")


def _labels(entries: Sequence[str]) -> dict[str, int]:
    """Parses entries `LABEL=VERSION`."""
    labels = {}
    for entry in entries:
        name, _, version = entry.partition("=")
        if not name or not version.isdecimal() or not int(version):
            raise UserError(f"--label {entry!r}: expected LABEL=VERSION, such as stable=3.")
        labels[name] = int(version)
    return labels


@contextmanager
def _restored_signal_handlers() -> Iterator[None]:
    """Restores the handlers of signals when the block ends."""
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
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
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: server.reload())
    return stop_event
