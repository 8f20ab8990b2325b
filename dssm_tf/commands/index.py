"""`dssm index`: builds a searchable index of a corpus."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Literal

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say

_MAX_QUERIES = 1000  # to measure the recall of a fast index on


def index(
    *,
    model: Path,
    corpus: Path,
    out: Path,
    kind: Literal["auto", "exact", "fast"] = "auto",
    queries: Path | None = None,
    similar_words: int | None = None,
    rules: Path | None = None,
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
        similar_words: for a maxsim model, the number of similar words of a query word by which the
            titles to score are found; 16 by default
        rules: for a maxsim model, file with similar words, words that never match, and titles
            pinned to or blocked for a query (docs/rules.md); by default those of the model
        tables: layout of the files

    Raises:
        UserError: an input cannot be used, or `out` exists.
    """
    from dssm_tf import runtime
    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.export.compact import add_rules, copy_compact
    from dssm_tf.retrieval.index import MODEL
    from dssm_tf.retrieval.opening import build_index, name_fields
    from dssm_tf.tables.judgments import read_corpus
    from dssm_tf.tables.read import scan_texts

    refuse_existing(out)
    layout = tables.layout(model)
    query_texts: list[str] = []
    if queries is not None:
        texts = (text for frame in scan_texts(queries, "query", layout) for text in frame["text"])
        query_texts = list(islice((text for text in texts if text.strip()), _MAX_QUERIES))
        if not query_texts:
            raise UserError(f"{queries} contains no query.")
    titles = read_corpus(corpus, layout.corpus)
    with progress_of("index", 1.0, unit="") as task, atomic_directory(out) as temporary:
        task.update(0.0, "writing the model's compact form")
        copy_compact(model, temporary / MODEL)
        if rules is not None:
            add_rules(temporary / MODEL, rules)
        ranker = runtime.load(temporary / MODEL)
        search_index = build_index(
            ranker, model, titles, kind, query_texts, similar_words, task.update
        )
        name_fields(search_index, layout.corpus.title_fields)
        task.update(1.0, "writing")
        search_index.save(temporary)
    say(f"{len(titles):,} titles; {search_index.summary}. Written: {out}", to=sys.stderr)
