"""`dssm search`: searches a corpus with a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath, optional_path
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say
from dssm_tf.tables.cells import printable, shown_text

if TYPE_CHECKING:
    from dssm_tf.retrieval.hits import SearchResult, WordSplitter


def search(
    *queries: str,
    index: AnyPath | None = None,
    model: AnyPath | None = None,
    corpus: AnyPath | None = None,
    k: int = 10,
    format: Literal["text", "tsv", "json"] = "text",
    filter: tuple[str, ...] = (),
    boost: tuple[str, ...] = (),
    rules: AnyPath | None = None,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Search a corpus with a model.

    A maxsim model gives one ranking. A model that gives one vector per text, such as dssm, gives
    two: its own, and that of BM25. Without queries, the command prompts for them, or reads standard
    input, one query per line.

        dssm search --index INDEX "wizard of oz"
        dssm search --model RUN --corpus corpus.tsv
        dssm search --index INDEX --format tsv < queries.txt > results.tsv
        dssm search --index INDEX --filter 'price<=50' --boost sales=0.02 "wizard of oz"

    Args:
        queries: queries to search for
        index: directory that `dssm index` wrote
        model: directory that `dssm train` or `dssm export` wrote, instead of --index
        corpus: with --model, table (TSV, CSV, JSONL, Parquet) with doc_id, title
        k: number of results per ranking
        format: text to read; tsv, a table with a row per result; json, an object per query, one
            per line, with the parts of each score
        filter: a condition on a stored column or a field of the titles, such as 'price<=50' or
            brand=Sony; may be repeated: values of one field are alternatives, all else must hold
        boost: COLUMN=WEIGHT: adds WEIGHT × ln(1 + COLUMN) to the scores of a maxsim model, such as
            sales=0.02; may be repeated
        rules: file with similar words and with pinned and blocked titles (docs/rules.md), instead
            of the rules of the index or model
        tables: layout of the corpus

    Raises:
        UserError: an input cannot be used.
    """
    index, model = optional_path(index), optional_path(model)
    corpus, rules = optional_path(corpus), optional_path(rules)
    from dssm_tf.retrieval.opening import (
        build_index,
        name_fields,
        open_index,
        search_index,
        store_columns,
    )
    from dssm_tf.retrieval.records import COLUMNS, result_record, result_rows
    from dssm_tf.retrieval.title_filters import ID, parse_filters
    from dssm_tf.runtime.boosts import parse_boosts
    from dssm_tf.tables.judgments import read_catalog

    if k < 1:
        raise UserError(f"--k {k}: expected at least 1.")
    if index is not None:
        complete = model is None and corpus is None
    else:
        complete = model is not None and corpus is not None
    if not complete:
        raise UserError("Give either --index, or --model and --corpus.")
    filters, boosts = parse_filters(filter), parse_boosts(boost)
    with progress_of("search", 1.0, unit="") as task:
        task.update(0.0, "loading")
        if model is None or corpus is None:
            opened = open_index(str(index), rules=rules)
        else:
            from dssm_tf.export.load import apply_rules, load

            layout = tables.layout(model).corpus
            names = [name for name in {**filters, **boosts} if name != ID]
            titles, columns = read_catalog(corpus, names, layout)
            ranker = apply_rules(load(model), rules)
            opened = build_index(ranker, model, titles, progress=task.update)
            name_fields(opened, layout.title_fields)
            store_columns(opened, columns)
    query_texts: Iterable[str] = queries
    if not queries:
        if sys.stdin.isatty():
            query_texts = _prompted_queries(len(opened))
        else:
            query_texts = _queries_from_stdin()
    if format == "tsv":
        _write_rows([COLUMNS])
    for query in query_texts:
        result = search_index(opened, query, k, filters, boosts)
        if format == "tsv":
            _write_rows(result_rows(query, result))
        elif format == "json":
            sys.stdout.write(json.dumps(result_record(query, result)) + "\n")
            sys.stdout.flush()
        else:
            show(query, result, opened.model.vocabulary.words)


def _write_rows(rows: Iterable[Sequence[str]]) -> None:
    """Writes rows of a table to standard output."""
    sys.stdout.writelines("\t".join(row) + "\n" for row in rows)
    sys.stdout.flush()


def show(query: str, result: SearchResult, split: WordSplitter) -> None:
    """Prints the rankings of one query, the best one first, with matched words in bold.

    Args:
        query: the query.
        result: its result.
        split: splits a text into words.
    """
    from rich.console import Console
    from rich.text import Text

    from dssm_tf.retrieval.hits import SYSTEMS, correction_question

    text = Text(f"\nQuery: {printable(shown_text(query))}")
    if result.corrected_query:
        text.append(f"\n{printable(correction_question(result))}")
    if result.note:
        text.append(f"\n{result.note}")
    for system, hits in result.rankings.items():
        if hits:
            text.append(f"\n\n{SYSTEMS[system]}")
        for rank, hit in enumerate(hits, 1):
            text.append(f"\n{rank:3}")
            for part, is_match in hit.title_parts(query, split):
                text.append(" ").append(printable(part), "bold" if is_match else None)
            details = f"{printable(shown_text(hit.doc_id))}: {printable(hit.score_breakdown())}"
            text.append(f"  ({details})")
    for sentence in result.blocked:
        text.append(f"\n{printable(sentence)}")
    Console().print(text, soft_wrap=True)


def _prompted_queries(title_count: int) -> Iterator[str]:
    """Reads queries at a prompt until an empty line, Ctrl-D or Ctrl-C."""
    with suppress(ImportError):
        import readline  # noqa: F401 - arrow keys and history in input()
    say(f"{title_count:,} titles. An empty line ends.")
    while True:
        try:
            query = input("\nquery> ")
        except (EOFError, KeyboardInterrupt):
            say("")
            return
        if not query.strip():
            return
        yield query


def _queries_from_stdin() -> Iterator[str]:
    """Reads queries from standard input, one per line."""
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", errors="replace").rstrip("\r\n")
