"""Judgments from people's files: a table, or TREC qrels with texts and a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import JUDGMENT_COLUMNS, CorpusTitle, Judgment, read_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.trec import read_qrels

PLAIN = Layout()
_QUERIES = {name: JUDGMENT_COLUMNS[name] for name in ("query_id", "query")}


def read_judged(
    path: Path,
    queries: Path | None = None,
    corpus: Sequence[CorpusTitle] | None = None,
    layout: Layout = PLAIN,
) -> list[Judgment]:
    """Reads judgments.

    Args:
        path: a table, see `read_judgments`; TREC qrels where `queries` is given.
        queries: table of the texts of a qrels file's queries.
        corpus: titles; those of a qrels file.
        layout: of the files.

    Raises:
        UserError: a file is missing or malformed, or an id of the qrels has no text.
    """
    if queries is None:
        return read_judgments(path, layout, corpus=corpus)
    if corpus is None:
        raise UserError(
            "--queries gives a TREC qrels file its texts: give --corpus, too, for its titles."
        )
    texts: dict[str, str] = {}
    for _, (query_id, text) in read_rows(queries, _QUERIES, layout):
        if texts.setdefault(query_id, text) != text:
            raise UserError(f"{queries}: query_id {query_id!r} has two texts.")
    titles = dict(corpus)
    judgments = []
    for query_id, grades in read_qrels(path, layout.encoding).items():
        for doc_id, grade in grades.items():
            for one, known, where in ((query_id, texts, queries), (doc_id, titles, "the corpus")):
                if one not in known:
                    raise UserError(
                        f"{path} judges {one!r}, which {where} lacks; it has {sorted(known)[:3]}."
                    )
            judgments.append(Judgment(query_id, texts[query_id], doc_id, titles[doc_id], grade))
    return judgments
