"""`dssm serve`: exported models and runs over gRPC and REST, as TensorFlow Serving would."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dssm_tf.commands.fields import warn_of_other_fields
from dssm_tf.commands.named import only_names, split_name
from dssm_tf.commands.parser import Commands, add_encoding, add_title_fields, command
from dssm_tf.common.errors import UserError, install
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.server.models import Model
    from dssm_tf.server.search_page import SearchPage
    from dssm_tf.server.server import Server

_LOG = logging.getLogger("dssm_tf.server")
_NEEDED = ("grpc", "grpc_health", "google.protobuf", "uvicorn")


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    parser = command(
        commands,
        "serve",
        _run,
        "serve models over gRPC and REST, as TensorFlow Serving does",
        "For development, tests and small sites, in one process. A new version in a model's "
        "directory takes over while requests go on; one that cannot be loaded never does. "
        "SIGTERM or Ctrl-C ends it when what was asked is answered.",
        interrupted="stopped before it answered",
    )
    parser.add_argument(
        "models",
        nargs="+",
        metavar="[NAME=]EXPORT_OR_RUN",
        help="what `dssm export` wrote (all of OUT, OUT/NAME or OUT/NAME/VERSION), or a run",
    )
    titles = parser.add_mutually_exclusive_group()
    titles.add_argument(
        "--corpus",
        type=Path,
        metavar="FILE",
        help="titles to search (doc_id, title): a page at / of the REST port shows BM25, "
        "a model and both side by side",
    )
    titles.add_argument(
        "--index", type=Path, help="what `dssm index` wrote of the first model, with its hybrid"
    )
    add_encoding(parser)
    add_title_fields(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; no one is asked "
                        "who they are, so keep it inside your network")  # fmt: skip
    parser.add_argument("--port", type=int, default=8500, help="of gRPC; 0 for none")
    parser.add_argument(
        "--rest_api_port", type=int, default=8501, help="of REST, metrics and pages; 0 for none"
    )
    parser.add_argument("--max_batch_size", type=int, default=4096, help="texts of an input")
    parser.add_argument("--max_text_bytes", type=int, default=1 << 16, help="of a text, in UTF-8")
    parser.add_argument("--max_body_bytes", type=int, default=1 << 24, help="of a request")
    parser.add_argument(
        "--rest_api_timeout_in_ms", type=int, default=30_000, help="that a REST request may take"
    )
    parser.add_argument(
        "--file_system_poll_wait_seconds",
        type=float,
        default=1.0,
        help="between two looks for new versions; 0 looks but once",
    )


def _run(arguments: argparse.Namespace) -> None:
    # What fails is said in one line; gRPC writes others of its own.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from dssm_tf.server.server import Server
        from dssm_tf.server.service import Limits
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
    with TemporaryDirectory(prefix="dssm-serve-") as scratch:
        models, runs = _models(arguments.models, Path(scratch))
        page = _page(arguments, models) if arguments.corpus or arguments.index else None
        server = Server(
            models,
            host=arguments.host,
            port=arguments.port or None,
            rest_api_port=arguments.rest_api_port or None,
            limits=Limits(
                arguments.max_batch_size, arguments.max_text_bytes, arguments.max_body_bytes
            ),
            timeout=arguments.rest_api_timeout_in_ms / 1000,
            poll=arguments.file_system_poll_wait_seconds,
            page=page,
        )
        for name, run in runs.items():
            if arguments.corpus:
                warn_of_other_fields(run, parse_fields(arguments.title_fields), console)
            _export(run, Path(scratch), name, console)
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
    if server.is_busy():
        os._exit(0)


def _check(arguments: argparse.Namespace) -> None:
    for name in ("port", "rest_api_port"):
        if not 0 <= getattr(arguments, name) < 1 << 16:
            raise UserError(f"--{name} {getattr(arguments, name)}: expected 1 to 65535, or 0.")
    if not arguments.port and not arguments.rest_api_port:
        raise UserError("--port 0 --rest_api_port 0: nothing is left to serve.")
    for name in ("max_batch_size", "max_text_bytes", "max_body_bytes", "rest_api_timeout_in_ms"):
        if getattr(arguments, name) < 1:
            raise UserError(f"--{name} {getattr(arguments, name)}: expected 1 or more.")
    if not 0 <= arguments.file_system_poll_wait_seconds <= threading.TIMEOUT_MAX:
        raise UserError("--file_system_poll_wait_seconds: expected seconds from 0 on.")


def _models(entries: Sequence[str], scratch: Path) -> tuple[list[Model], dict[str, Path]]:
    """The models of all directories, and the runs among them that are still to be exported."""
    from dssm_tf.config import load_config
    from dssm_tf.server.models import Model
    from dssm_tf.server.sources import Source, find_models, is_run

    found: list[tuple[str, Source]] = []
    runs = {}
    for entry in entries:
        name, path = split_name(entry, "models")
        if is_run(path):
            name = name or load_config(path / "config.yaml").tower.name
            runs[name] = path
            found.append((name, Source(scratch / name)))
            continue
        sources = find_models(path)
        if name and len(sources) > 1:
            raise UserError(f"{entry}: holds the models {', '.join(sources)}; leave {name}= out.")
        found += [(name or own, source) for own, source in sources.items()]
    by_name = only_names(found, "models")
    return [Model(name, source) for name, source in by_name.items()], runs


def _export(run: Path, out: Path, name: str, console: Console) -> None:
    from dssm_tf.common.progress import progress_of

    load_tensorflow()
    from dssm_tf.export.saved_model import export

    with progress_of(f"export {run}", None, console, unit=""):
        export(run, out, name)


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


def _page(arguments: argparse.Namespace, models: Sequence[Model]) -> SearchPage:
    if not arguments.rest_api_port:
        raise UserError(
            "--corpus and --index: the search page is at the REST port; "
            "leave --rest_api_port 0 out."
        )
    load_tensorflow()
    from dssm_tf.retrieval.title_index import TitleIndex
    from dssm_tf.server.search_page import SearchPage
    from dssm_tf.tables.judgments import read_corpus

    if arguments.index:
        return SearchPage(models, TitleIndex.open(arguments.index))
    fields = parse_fields(arguments.title_fields)
    return SearchPage(models, read_corpus(arguments.corpus, arguments.encoding, fields))


def _prepare(page: SearchPage, console: Console) -> None:
    from dssm_tf.common.progress import progress_of

    with progress_of("corpus", 1.0, console, unit="") as task:
        page.prepare(lambda step, share: task.update(share, step))


def _tell(console: Console, server: Server, models: Sequence[Model], page: bool) -> None:
    from dssm_tf.server.metrics import PATH

    name = models[0].name
    lines = []
    if host := server.grpc_address:
        lines.append(f"gRPC     {host}")
        lines.append(f"         python -m serving.client --host {host} --model {name} --status")
    if host := server.rest_address:
        lines.append(f"REST     http://{host}/v1/models/{name}")
        lines.append(f"metrics  http://{host}{PATH}")
        if page:
            lines.append(f"search   http://{host}/")
    for line in [*lines, "Ctrl-C ends it."]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
