"""`dssm index`: a corpus made ready to be searched, once."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Literal

from dssm_tf.commands.flags import PLAIN, Tables
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say

_MOST_QUERIES = 1000  # that a fast index is measured on


def index(
    *,
    model: Path,
    corpus: Path,
    out: Path,
    kind: Literal["auto", "exact", "fast"] = "auto",
    queries: Path | None = None,
    tables: Tables = PLAIN,
) -> None:
    """Build a searchable index of a corpus.

    The directory holds everything a search needs, including the model in its compact form: it is
    what you deploy, and `dssm search --index` and `dssm serve --index` open it without TensorFlow.

        dssm index --model RUN --corpus corpus.tsv --out INDEX
        dssm search --index INDEX "wizard of oz"

    Args:
        model: what `dssm train` or `dssm export --format compact` wrote
        corpus: table with doc_id, title
        out: directory of the index, new
        kind: exact compares all titles; fast searches a graph, and its recall is measured; auto is
            exact up to 100,000 titles
        queries: queries to measure recall on (.txt or a table); by default made from titles
        tables: how the files are laid out

    Raises:
        UserError: an input cannot be used, or `out` exists.
    """
    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.export.compact import copy_compact
    from dssm_tf.retrieval.index import MODEL, Index
    from dssm_tf.runtime import Ranker
    from dssm_tf.tables.judgments import read_corpus
    from dssm_tf.tables.reader import read_texts

    refuse_existing(out)
    layout = tables.layout(model)
    asked: list[str] = []
    if queries is not None:
        found = read_texts(queries, "query", layout=layout)
        asked = list(islice((row.text for row in found if row.text.strip()), _MOST_QUERIES))
        if not asked:
            raise UserError(f"{queries} holds no query.")
    titles = read_corpus(corpus, layout)
    with progress_of("index", 1.0, unit="") as task, atomic_directory(out) as aside:
        task.update(0.0, "writing the model's compact form")
        copy_compact(model, aside / MODEL)
        ranker = Ranker.load(aside / MODEL)
        task.update(0.0, "encoding titles")
        built = Index.build(ranker, titles, kind, asked)
        task.update(1.0, "writing")
        built.save(aside)
    say(f"{len(titles):,} titles; {built.nearest.summary}. Written: {out}", to=sys.stderr)
