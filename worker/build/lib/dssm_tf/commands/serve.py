"""`dssm serve`: trained models over gRPC and REST, as TensorFlow Serving has them."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dssm_tf.commands.named import only_names, split_name
from dssm_tf.common.errors import UserError, install
from dssm_tf.server.limits import DEFAULT, Limits
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from dssm_tf.server.page import SearchPage
    from dssm_tf.server.server import Server
    from dssm_tf.server.versions import Model

_LOG = logging.getLogger("dssm_tf.server")
_NEEDED = ("grpc", "grpc_health", "jinja2", "prometheus_client", "starlette", "uvicorn")


def serve(
    *models: str,
    index: Path | None = None,
    corpus: Path | None = None,
    host: str = "127.0.0.1",
    allow_host: tuple[str, ...] = (),
    port: int = 8500,
    rest_port: int = 8501,
    poll: float = 1.0,
    encoding: str = "utf-8",
    title_fields: str = "title",
    limits: Annotated[Limits, Parameter(name="*", group="Limits")] = DEFAULT,
) -> None:
    """Serve trained models over gRPC and REST, as TensorFlow Serving does.

    For development, tests and small sites, in one process. A new version in a model's directory
    takes over while requests go on; one that cannot be loaded never does. SIGTERM or Ctrl-C ends
    it when what was asked is answered. More than the limits is refused at once.

        dssm serve --index INDEX

    Args:
        models: [NAME=]PATH: what `dssm export` wrote, all of OUT, OUT/NAME or OUT/NAME/VERSION;
            or a run
        index: what `dssm index` wrote: its model is served, and a page at / of the REST port
            searches by words (BM25) and meaning (the model) together, and by each alone
        corpus: titles to search on that page (doc_id, title) with the first model
        host: address to listen at; no one is asked who they are, so keep it inside your network
        allow_host: a name that requests may give in their header Host, beside those of loopback
            and --host; * for any; may be repeated
        port: of gRPC; 0 for none
        rest_port: of REST, metrics and the page; 0 for none
        poll: seconds between two looks for new versions; 0 looks but once
        encoding: of the text of the corpus, such as cp1252 or utf-16
        title_fields: columns that a title is made of, with commas between, as preprocess had them
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
        raise UserError(f"dssm serve needs {error.name}: {install('serve')}") from None
    from rich.console import Console

    from dssm_tf.common.progress import progress_of

    for flag, number in (("--port", port), ("--rest-port", rest_port)):
        if not 0 <= number < 1 << 16:
            raise UserError(f"{flag} {number}: expected 1 to 65535, or 0.")
    for name, limit in asdict(limits).items():
        if not 0 < limit < threading.TIMEOUT_MAX:
            raise UserError(f"--{name.replace('_', '-')} {limit}: expected more than 0.")
    if not 0 <= poll <= threading.TIMEOUT_MAX:
        raise UserError("--poll: expected seconds from 0 on.")
    if (index or corpus) and not rest_port:
        raise UserError(
            "--index and --corpus: the page is at the REST port; leave --rest-port out."
        )
    if index and corpus:
        raise UserError("--index holds its titles; leave --corpus out.")
    if not (models or index) or not (port or rest_port):
        raise UserError("nothing is left to serve; give a model or --index, and a port.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    _LOG.setLevel(logging.INFO)
    found, page = _models(models), None
    if index:
        model, page = _of_index(index)
        found = [model, *found]
    found = list(only_names([(one.name, one) for one in found], "models").values())
    if corpus:
        page = _of_corpus(found[0], corpus, encoding, parse_fields(title_fields))
    server = Server(
        found, host=host, port=port or None, rest_port=rest_port or None, limits=limits,
        hosts=allow_host, poll=poll, page=page,
    )  # fmt: skip
    stopped = _on_signal(server)
    console = Console(stderr=True)
    with progress_of("serve", 1.0, console, unit="") as task:
        server.start(lambda step, share: task.update(share, step))
    with suppress(OSError):  # it serves all the same where its log is on a full disk
        for line in _lines(server, found[0].name, page is not None):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    stopped.wait()
    _LOG.info("stopping: what was asked is answered first")
    server.stop()


def _models(entries: Sequence[str]) -> list[Model]:
    """The models of all directories."""
    from dssm_tf.server.versions import find_models

    models: list[Model] = []
    for entry in entries:
        name, path = split_name(entry, "models")
        found = find_models(path)
        if name and len(found) > 1:
            inside = ", ".join(one.name for one in found)
            raise UserError(f"{entry}: holds the models {inside}; leave {name}= out.")
        for model in found:
            model.name = name or model.name
        models += found
    return models


def _of_index(directory: Path) -> tuple[Model, SearchPage]:
    from dssm_tf.retrieval.index import MODEL, Index
    from dssm_tf.server.page import SearchPage
    from dssm_tf.server.versions import Model

    index = Index.open(directory)
    model = Model(index.model.name, directory / MODEL, 1, lambda _: index.model)
    return model, SearchPage(model, lambda *_: index)


def _of_corpus(model: Model, corpus: Path, encoding: str, fields: tuple[str, ...]) -> SearchPage:
    from dssm_tf.retrieval.index import Index
    from dssm_tf.server.page import SearchPage
    from dssm_tf.tables.judgments import read_corpus

    titles = read_corpus(corpus, encoding, fields)
    return SearchPage(model, lambda ranker, report: Index.build(ranker, titles, report=report))


def _on_signal(server: Server) -> threading.Event:
    """Set by SIGTERM and Ctrl-C once the server listens; before that they end the process."""
    stopped = threading.Event()

    def stop(number: int, _: object) -> None:
        if not (server.grpc_address or server.rest_address):
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopped


def _lines(server: Server, model: str, page: bool) -> list[str]:
    lines = []
    if host := server.grpc_address:
        lines.append(f"gRPC     {host}")
        lines.append(f"         python -m serving.client --host {host} --model {model}")
    if host := server.rest_address:
        lines.append(f"REST     http://{host}/v1/models/{model}")
        lines.append(f"metrics  http://{host}/metrics")
        if page:
            lines.append(f"search   http://{host}/")
    return [*lines, "Ctrl-C ends it."]
