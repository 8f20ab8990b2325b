"""BM25 rankings of a corpus, computed by the library bm25s."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError, install_command
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.retrieval.hits import LexicalHit
from dssm_tf.tables.cells import one_line
from dssm_tf.text.rules import FOLDED


def build_bm25(tokens: Sequence[Sequence[str]]) -> Any:
    """Builds a BM25 index with the parameters of `baselines.bm25`.

    Args:
        tokens: the words of each title; at least one title has a word.
    """
    import bm25s

    # bm25s logs every index that it builds, at any level of the root logger.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    index = bm25s.BM25(method="lucene", dtype="float64", backend="numpy")
    # Without a vocabulary, bm25s numbers the words in the order of a set, which is random.
    vocabulary = {word: word_id for word_id, word in enumerate(sorted({*chain(*tokens)}))}
    word_ids = [[vocabulary[word] for word in words] for words in tokens]
    index.index((word_ids, vocabulary), create_empty_token=False, show_progress=False)
    return index


class LexicalRanking:
    """Ranks the titles of a corpus by BM25, to compare a model with it.

    The index is built by the first search: about two seconds for 50,000 titles. Several threads may
    search at once.

    Args:
        table: Arrow table with `doc_id` and `title`.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self._index: Any = None
        self._lock = Lock()

    def search(
        self, query: str, k: int = 10, allowed: NDArray[np.bool_] | None = None
    ) -> list[LexicalHit]:
        """The best `k` titles that have a word of the query.

        Args:
            query: any text.
            k: number of titles, at least 1.
            allowed: `(titles,)`, whether each title may be returned; None for all.

        Raises:
            UserError: bm25s is not installed.
        """
        with self._lock:
            if self._index is None:
                self._index = self._build()
        words = [] if self._index is None else FOLDED.words(one_line(query))
        words = [word for word in words if word in self._index.vocab_dict]
        if not words:
            return []
        scores = self._index.get_scores(words)
        matching = np.flatnonzero(scores if allowed is None else scores * allowed)
        rows = matching[top_columns(scores[matching], k)]
        doc_ids, titles = self._table["doc_id"], self._table["title"]
        return [
            LexicalHit(doc_ids[row].as_py(), titles[row].as_py(), float(scores[row]))
            for row in rows.tolist()
        ]

    def _build(self) -> Any:
        try:
            return build_bm25([FOLDED.words(title) for title in self._table["title"].to_pylist()])
        except ModuleNotFoundError as error:
            raise UserError(
                f"{error.name} is not installed; install it with: {install_command('search')}."
            ) from None
