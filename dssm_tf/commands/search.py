"""`dssm search`: type a query, see what words find, what meaning finds, and both."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.fields import warn_of_other_fields
from dssm_tf.commands.parser import Commands, add_encoding, add_title_fields, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.retrieval.searcher import FusionName


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        interactive = not arguments.queries and sys.stdin.isatty()
        search_command(
            arguments.model,
            arguments.corpus,
            arguments.queries or None,
            k=arguments.k,
            index=arguments.index,
            interactive=interactive,
            only=arguments.only,
            fusion=arguments.fusion,
            hybrid=arguments.hybrid,
            encoding=arguments.encoding,
            title_fields=parse_fields(arguments.title_fields),
        )

    parser = command(
        commands,
        "search",
        run,
        "search a corpus: BM25, semantic and hybrid side by side",
        interrupted="nothing is written by a search",
    )
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    titles = parser.add_mutually_exclusive_group(required=True)
    titles.add_argument(
        "--corpus",
        type=Path,
        help="table (TSV, CSV, JSONL, Parquet) with doc_id, title, encoded before the first query",
    )
    titles.add_argument("--index", type=Path, help="directory `dssm index` wrote, with its hybrid")
    add_encoding(parser)
    add_title_fields(parser)
    parser.add_argument("--k", type=int, default=10, help="results a system")
    parser.add_argument(
        "--only", type=Path, metavar="FILE", help="search among the ids of a file, one a line"
    )
    parser.add_argument(
        "--fusion",
        choices=("rrf", "linear"),
        default="rrf",
        help="how the hybrid joins BM25 and the model where no benchmark chose it: reciprocal "
        "ranks, or scores",
    )
    parser.add_argument(
        "--hybrid",
        type=Path,
        metavar="FILE",
        help="with --corpus: join them as `dssm benchmark` chose, by a file of BENCH/hybrids",
    )
    parser.add_argument("queries", nargs="*", help="queries; else typed, or one a line from stdin")


def search_command(
    model: Path | str,
    corpus: Path | str | None = None,
    queries: Sequence[str] | None = None,
    k: int = 10,
    index: Path | str | None = None,
    *,
    interactive: bool | None = None,
    only: Path | str | None = None,
    fusion: FusionName = "rrf",
    hybrid: Path | str | None = None,
    encoding: str = "utf-8",
    title_fields: tuple[str, ...] = ("title",),
    console: Console | None = None,
) -> None:
    """Prints the best titles of each query by three systems.

    Args:
        model: directory that `dssm train` wrote.
        corpus: a table, see `read_corpus`, which is encoded first; or give `index`.
        queries: what to search for; None asks at a prompt, or reads lines from standard input.
        k: titles shown for each system, at least 1.
        index: directory that `dssm index` wrote.
        interactive: whether to prompt when there are no `queries`; by default, whether standard
            input is a terminal.
        only: ids to search among, one a line; all titles when None.
        fusion: see `Searcher`.
        hybrid: a file that `dssm benchmark` wrote, see `ChosenHybrid`; an index has its own.
        encoding: of the corpus.
        title_fields: columns that a title is made of.
        console: where to print; standard output by default.

    Raises:
        UserError: an input cannot be used.
    """
    from rich.console import Console

    from dssm_tf.common.checksums import fingerprint
    from dssm_tf.retrieval.hybrid import ChosenHybrid
    from dssm_tf.retrieval.title_index import Settings, TitleIndex
    from dssm_tf.tables.judgments import read_corpus
    from dssm_tf.tables.texts import read_ids

    console = console or Console()
    if k < 1:
        raise UserError(f"--k {k}: expected at least 1.")
    if (corpus is None) == (index is None):
        raise UserError("Give either --corpus or --index.")
    if index is not None and hybrid is not None:
        raise UserError(
            "--hybrid goes with --corpus; an index holds its own: dssm index --hybrid FILE."
        )
    chosen = None if hybrid is None else ChosenHybrid.load(hybrid)
    settings = Settings(prior=chosen is None, hybrid=chosen)  # chosen on cosines
    titles = [] if corpus is None else read_corpus(corpus, encoding, title_fields)
    if titles:
        warn_of_other_fields(model, title_fields, console)
    found = None if index is None else TitleIndex.open(index, fingerprint(Path(model)))
    load_tensorflow()
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.retrieval.display import show
    from dssm_tf.retrieval.searcher import Searcher
    from dssm_tf.tables.cells import readable

    with progress_of("search", 1.0, Console(stderr=True), unit="") as task:
        task.update(0.0, "loading the model")
        ranker = SemanticRanker.load(model)
        if found is None:
            found = TitleIndex.build(
                ranker, titles, settings, lambda step, share: task.update(share, step)
            )
        rows = None if only is None else found.rows(read_ids(only))
        searcher = Searcher(ranker, found, fusion=fusion)
    if queries is None:
        prompt = sys.stdin.isatty() if interactive is None else interactive
        queries_read = _typed(console, len(found.corpus)) if prompt else _piped()
    else:
        queries_read = iter(queries)
    for query in queries_read:
        show(console, readable(query), searcher.search(query, k, rows))


def _typed(console: Console, titles: int) -> Iterator[str]:
    """Queries from a prompt until an empty line, Ctrl-D or Ctrl-C."""
    with suppress(ImportError):
        import readline  # noqa: F401 - arrow keys and history in input()
    console.print(f"{titles:,} titles. An empty line ends.", highlight=False)
    while True:
        try:
            console.print()
            # Not console.input: readline has to know the prompt to redraw the line.
            query = input("query> ")
        except (EOFError, KeyboardInterrupt):
            console.print()
            return
        if not query.strip():
            return
        yield query


def _piped() -> Iterator[str]:
    """Queries from standard input, one a line."""
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", errors="replace").rstrip("\r\n")
