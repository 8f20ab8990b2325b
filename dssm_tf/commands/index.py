"""`dssm index`: builds a searchable index of a corpus."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath, optional_path, path_list
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say

if TYPE_CHECKING:
    from dssm_tf.retrieval.maxsim_arrays import Progress
    from dssm_tf.retrieval.maxsim_index import MaxSimIndex
    from dssm_tf.retrieval.opening import AnyIndex
    from dssm_tf.tables.layout import Layout

_MAX_QUERIES = 1000  # of those that measure the recall of a fast index


def index(
    *,
    model: AnyPath,
    corpus: AnyPath,
    out: AnyPath,
    kind: Literal["auto", "exact", "fast"] = "auto",
    queries: AnyPath | None = None,
    similar_words: int | None = None,
    store: str = "",
    rules: AnyPath | None = None,
    clicks: tuple[AnyPath, ...] = (),
    min_sessions: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Build a searchable index of a corpus.

    The directory contains everything that a search needs, including a compact model. Deploy it;
    `dssm search --index` and `dssm serve --index` open it without TensorFlow.

        dssm index --model RUN --corpus corpus.tsv --out INDEX
        dssm search --index INDEX "wizard of oz"

    Args:
        model: directory that `dssm train` or `dssm export --format compact` wrote
        corpus: table with doc_id, title
        out: directory of the index; it must not exist
        kind: exact compares all titles; fast searches a graph, and its recall is measured; auto is
            exact up to 100,000 titles; a maxsim model has exact only
        queries: queries to measure recall on (.txt or a table); by default made from titles
        similar_words: for a maxsim model: a search scores the titles that have a word of the query,
            or one of this number of its most similar words; 16 by default
        store: comma-separated columns of the corpus, such as price,stock,brand: searches filter by
            them, and boost by those with numbers (docs/filters.md)
        rules: for a maxsim model, file with similar words, words that never match, and titles
            pinned to or blocked for a query (docs/rules.md); by default those of the model
        clicks: for a maxsim model, click log: frequent queries rank titles by their own clicks too
            (docs/remembered_clicks.md); may be repeated
        min_sessions: with --clicks, the number of sessions in which a query must have a click to be
            remembered, or of clicks if the log has no sessions; 10 by default
        tables: layout of the files

    Raises:
        UserError: an input cannot be used, or `out` exists.
    """
    model, corpus, out = Path(model), Path(corpus), Path(out)
    rules, queries, logs = optional_path(rules), optional_path(queries), path_list(clicks)
    from dssm_tf import runtime
    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.export.compact import (
        copy_compact,
        set_remembered_clicks,
        set_search_rules_from_file,
    )
    from dssm_tf.retrieval.index import MODEL
    from dssm_tf.retrieval.opening import build_index, name_fields, store_columns
    from dssm_tf.retrieval.title_columns import describe_columns
    from dssm_tf.tables.judgments import read_catalog
    from dssm_tf.tables.read import scan_texts

    if min_sessions is not None and not logs:
        raise UserError("--min-sessions is for --clicks; give a click log.")
    refuse_existing(out)
    layout = tables.layout(model)
    query_texts: list[str] = []
    click_summary: list[str] = []
    if queries is not None:
        texts = (text for frame in scan_texts(queries, "query", layout) for text in frame["text"])
        query_texts = list(islice((text for text in texts if text.strip()), _MAX_QUERIES))
        if not query_texts:
            raise UserError(f"{queries} contains no query.")
    with progress_of("reading the corpus", None, unit=""):
        titles, columns = read_catalog(corpus, column_names(store), layout.corpus)
    with progress_of("index", 1.0, unit="") as task, atomic_directory(out) as directory:
        task.update(0.0, "writing the model's compact form")
        copy_compact(model, directory / MODEL)
        if rules is not None:
            set_search_rules_from_file(directory / MODEL, rules)
        ranker = runtime.load(directory / MODEL)
        search_index = build_index(
            ranker, model, titles, kind, query_texts, similar_words, task.update
        )
        if logs:
            search_index, click_summary = _remember(
                search_index, logs, layout.of_log(corpus), min_sessions, task.update
            )
            set_remembered_clicks(directory / MODEL, search_index.model.remembered_clicks)
        name_fields(search_index, layout.corpus.title_fields)
        store_columns(search_index, columns)
        task.update(1.0, "writing")
        search_index.write(directory)
    summary = f"{search_index.summary}{describe_columns(search_index.filters.table)}"
    say(*click_summary, f"{len(titles):,} titles; {summary}. Written: {out}", to=sys.stderr)


def column_names(names: str) -> list[str]:
    """The names of columns in a flag.

    Raises:
        UserError: a name is empty.
    """
    columns = [name.strip() for name in names.split(",")] if names else []
    if "" in columns:
        raise UserError(
            f"--store {names!r:.100}: expected names of columns separated by commas, such as "
            "price,stock."
        )
    return columns


def _remember(
    search_index: AnyIndex,
    clicks: Sequence[Path],
    layout: Layout,
    min_sessions: int | None,
    report: Progress,
) -> tuple[MaxSimIndex, list[str]]:
    """The index with the remembered clicks of a log, and lines about them and bad rows."""
    from dssm_tf.retrieval.maxsim_index import MaxSimIndex
    from dssm_tf.retrieval.remember import MIN_SESSIONS, remember_clicks
    from dssm_tf.tables.click_log import read_logs

    if not isinstance(search_index, MaxSimIndex):
        raise UserError(
            "--clicks is for models with the score maxsim; this model gives one vector per text, "
            "and has no remembered clicks. Leave --clicks out."
        )
    report(0.0, "reading the log")
    rows, tally = read_logs(clicks, layout)
    memory = remember_clicks(
        search_index.with_remembered_clicks(None), rows, min_sessions or MIN_SESSIONS, report
    )
    lines = [*tally.lines(), *memory.notes, f"{memory.summary}."]
    return search_index.with_remembered_clicks(memory.clicks), lines
