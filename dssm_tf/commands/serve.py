"""`dssm serve`: exported models over gRPC and REST, as TensorFlow Serving has them."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
from contextlib import suppress
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssm_tf.commands.named import only_names, split_name
from dssm_tf.commands.parser import Commands, add_encoding, add_title_fields, command
from dssm_tf.common.errors import UserError, install
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.server.limits import Limits
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from dssm_tf.server.page import SearchPage
    from dssm_tf.server.server import Server
    from dssm_tf.server.versions import Model

_LOG = logging.getLogger("dssm_tf.server")
_NEEDED = ("grpc", "grpc_health", "jinja2", "prometheus_client", "starlette", "uvicorn")


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    parser = command(
        commands,
        "serve",
        _run,
        "serve exported models over gRPC and REST, as TensorFlow Serving does",
        "For development, tests and small sites, in one process. A new version in a model's "
        "directory takes over while requests go on; one that cannot be loaded never does. "
        "SIGTERM or Ctrl-C ends it when what was asked is answered.",
        interrupted="stopped before it answered",
    )
    parser.add_argument(
        "models",
        nargs="+",
        metavar="[NAME=]EXPORT",
        help="what `dssm export` wrote: all of OUT, OUT/NAME or OUT/NAME/VERSION",
    )
    titles = parser.add_mutually_exclusive_group()
    titles.add_argument(
        "--corpus",
        type=Path,
        metavar="FILE",
        help="titles to search (doc_id, title): a page at / of the REST port shows BM25, "
        "the first model and both side by side",
    )
    titles.add_argument(
        "--index", type=Path, help="what `dssm index` wrote of the first model, with its hybrid"
    )
    add_encoding(parser)
    add_title_fields(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; no one is asked "
                        "who they are, so keep it inside your network")  # fmt: skip
    parser.add_argument(
        "--allow-host",
        action="append",
        metavar="NAME",
        help="a name that requests may give in their header Host, beside those of loopback and "
        "--host; * for any; may be repeated",
    )
    parser.add_argument("--port", type=int, default=8500, help="of gRPC; 0 for none")
    parser.add_argument(
        "--rest-port", type=int, default=8501, help="of REST, metrics and the page; 0 for none"
    )
    parser.add_argument(
        "--poll", type=float, default=1.0, metavar="SECONDS",
        help="between two looks for new versions; 0 looks but once",
    )  # fmt: skip
    limits = parser.add_argument_group("limits", "more than that is refused at once")
    for one in fields(Limits):
        limits.add_argument(
            _flag(one), type=type(one.default), default=one.default, help=one.metadata["help"]
        )


def _flag(limit: Field[Any]) -> str:
    return f"--{limit.name.replace('_', '-')}"


def _run(arguments: argparse.Namespace) -> None:
    # What fails is said in one line; gRPC writes others of its own.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from dssm_tf.server.server import Server
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        raise UserError(f"dssm serve needs {error.name}: {install('serve')}") from None
    from rich.console import Console

    _check(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("dssm_tf.server").setLevel(logging.INFO)
    console = Console(stderr=True)
    models = _models(arguments.models)
    page = _page(arguments, models[0]) if arguments.corpus or arguments.index else None
    server = Server(
        models,
        host=arguments.host,
        port=arguments.port or None,
        rest_port=arguments.rest_port or None,
        limits=Limits(**{one.name: getattr(arguments, one.name) for one in fields(Limits)}),
        hosts=arguments.allow_host or (),
        poll=arguments.poll,
        page=page,
    )
    stopped = _on_signal(server)
    server.load()
    if page is not None:
        _prepare(page, console)
    server.start()
    with suppress(OSError):  # it serves all the same where its log is on a full disk
        _tell(console, server, models, page is not None)
    stopped.wait()
    _LOG.info("stopping: what was asked is answered first")
    server.stop()


def _check(arguments: argparse.Namespace) -> None:
    for flag, port in (("--port", arguments.port), ("--rest-port", arguments.rest_port)):
        if not 0 <= port < 1 << 16:
            raise UserError(f"{flag} {port}: expected 1 to 65535, or 0.")
    if (arguments.corpus or arguments.index) and not arguments.rest_port:
        raise UserError("--corpus and --index: the search page is at the REST port; leave "
                        "--rest-port 0 out.")  # fmt: skip
    if not arguments.port and not arguments.rest_port:
        raise UserError("--port 0 --rest-port 0: nothing is left to serve.")
    for one in fields(Limits):
        if not 0 < (given := getattr(arguments, one.name)) < threading.TIMEOUT_MAX:
            raise UserError(f"{_flag(one)} {given}: expected more than 0.")
    if not 0 <= arguments.poll <= threading.TIMEOUT_MAX:
        raise UserError("--poll: expected seconds from 0 on.")


def _models(entries: Sequence[str]) -> list[Model]:
    """The models of all directories."""
    from dssm_tf.server.versions import find_models

    found: list[tuple[str, Model]] = []
    for entry in entries:
        name, path = split_name(entry, "models")
        models = find_models(path)
        if name and len(models) > 1:
            inside = ", ".join(one.name for one in models)
            raise UserError(f"{entry}: holds the models {inside}; leave {name}= out.")
        for model in models:
            model.name = name or model.name
            found.append((model.name, model))
    return list(only_names(found, "models").values())


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


def _page(arguments: argparse.Namespace, model: Model) -> SearchPage:
    load_tensorflow()
    from dssm_tf.retrieval.title_index import TitleIndex
    from dssm_tf.server.page import SearchPage
    from dssm_tf.tables.judgments import read_corpus

    if arguments.index:
        return SearchPage(model, TitleIndex.open(arguments.index))
    fields_ = parse_fields(arguments.title_fields)
    return SearchPage(model, read_corpus(arguments.corpus, arguments.encoding, fields_))


def _prepare(page: SearchPage, console: Console) -> None:
    from dssm_tf.common.progress import progress_of

    with progress_of("corpus", 1.0, console, unit="") as task:
        page.follow(lambda step, share: task.update(share, step))


def _tell(console: Console, server: Server, models: Sequence[Model], page: bool) -> None:
    name = models[0].name
    lines = []
    if host := server.grpc_address:
        lines.append(f"gRPC     {host}")
        lines.append(f"         python -m serving.client --host {host} --model {name} --status")
    if host := server.rest_address:
        lines.append(f"REST     http://{host}/v1/models/{name}")
        lines.append(f"metrics  http://{host}/metrics")
        if page:
            lines.append(f"search   http://{host}/")
    for line in [*lines, "Ctrl-C ends it."]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
