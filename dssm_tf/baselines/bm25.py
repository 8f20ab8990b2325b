"""Okapi BM25, by the bm25s library."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import bm25s
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.errors import UserError
from dssm_tf.files import atomic_write
from dssm_tf.text.normalize import normalize, words

if TYPE_CHECKING:
    from typing_extensions import Self

_FILE = "bm25.json"

# The library logs every index it builds, whatever the level of the root logger.
logging.getLogger("bm25s").setLevel(logging.WARNING)


class BM25(Baseline):
    """Scores titles by the words they share with the query.

    With `f` the count of word `t` in the title, `l` the title's words, `L` the
    mean of `l`, `N` the titles of the corpus and `n` those that hold `t`:

        score = sum over words t of the query, repeats counted, of
                log(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 (1 - b + b l / L))

    bm25s (its default, Lucene's variant) weights the corpus; titles outside it
    are weighted by the same formula with the corpus' `N`, `n` and `L`, a word
    the corpus lacks having `n = 0`. So a title scores the same in any list.

    Args:
        k1: how slowly repeats of a word in a title stop counting, at least 0.
        b: how much long titles are marked down, from 0 to 1.

    Reference: Robertson and Zaragoza 2009; Kamphuis et al. 2020 for the variants.
    """

    name = "bm25"

    def __init__(self, k1: float = 1.5, b: float = 0.75) -> None:
        if not (k1 >= 0 and 0 <= b <= 1):
            raise ValueError(f"k1 is {k1} and b is {b}; expected k1 >= 0 and 0 <= b <= 1.")
        self.k1 = k1
        self.b = b

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Counts the words of the titles. Clicks are not used; equal titles count once each."""
        self._titles = list(titles)
        tokens = [words(title) for title in self._titles]
        if not any(tokens):
            raise UserError(
                f"BM25 got {len(tokens)} titles and no word in them; it needs a corpus to count."
            )
        index = bm25s.BM25(k1=self.k1, b=self.b, method="lucene", backend="numpy")
        index.index(tokens, create_empty_token=False, show_progress=False)
        self._word_ids: dict[str, int] = index.vocab_dict
        stored = index.scores
        # (words, titles): bm25s keeps its columns, the words, one after another.
        self._weights = sparse.csr_matrix(
            (stored["data"].astype(np.float64), stored["indices"], stored["indptr"]),
            shape=(len(self._word_ids), len(self._titles)),
        )
        self._column = {title: column for column, title in enumerate(self._titles)}
        # Titles that differ in case or punctuation only have the same weights.
        self._column_of_words = {" ".join(title): column for column, title in enumerate(tokens)}
        self._mean_length = float(np.mean([len(title) for title in tokens]))
        self._titles_with_word = np.diff(self._weights.indptr)
        return self

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores titles for one query: `(len(titles),)`."""
        row: NDArray[np.float64] = self.score_matrix([query], titles)[0]
        return row

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query by one sparse product."""
        counts = [Counter(words(query)) for query in queries]
        # In alphabetical order a query's words are summed in the same order in
        # any batch, so its scores are the same to the last bit.
        asked = {word: place for place, word in enumerate(sorted(set().union(*counts)))}
        query_words = _sparse(
            [[(asked[word], count) for word, count in row.items()] for row in counts], len(asked)
        )
        scores: NDArray[np.float64] = (query_words @ self._title_weights(asked, titles)).toarray()
        return scores

    def save(self, directory: Path | str) -> None:
        """Writes `bm25.json`: the parameters and the corpus, from which the index is made."""
        with atomic_write(Path(directory) / _FILE) as file:
            json.dump({"k1": self.k1, "b": self.b, "titles": self._titles}, file)

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads what `save` wrote and indexes the corpus again."""
        path = Path(directory) / _FILE
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            return cls(saved["k1"], saved["b"]).fit([], saved["titles"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} holds no saved BM25 model: {error}.") from error

    def _title_weights(self, asked: dict[str, int], titles: Sequence[str]) -> sparse.csr_matrix:
        """Weights of the asked words in the titles: `(asked, titles)`."""
        columns = np.array([self._find(title) for title in titles], dtype=np.int64)
        inside = columns >= 0
        outside = [title for title, known in zip(titles, inside, strict=True) if not known]
        # One row an asked word, taken from the index; words it lacks have an empty row.
        ids = [self._word_ids.get(word, -1) for word in asked]
        known_words = [place for place, word_id in enumerate(ids) if word_id >= 0]
        select = sparse.csr_matrix(
            (
                np.ones(len(known_words)),
                (known_words, [ids[place] for place in known_words]),
            ),
            shape=(len(asked), len(self._word_ids)),
        )
        weights = sparse.hstack(
            [(select @ self._weights)[:, columns[inside]], self._outside(asked, outside)]
        ).tocsr()
        # The stack holds corpus titles first; back to the order of the call.
        stacked = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
        return weights[:, np.argsort(stacked)]

    def _find(self, title: str) -> int:
        """The title's column in the index, -1 if the corpus lacks it."""
        column = self._column.get(title)
        return self._column_of_words.get(normalize(title), -1) if column is None else column

    def _outside(self, asked: dict[str, int], titles: Sequence[str]) -> sparse.csr_matrix:
        """Weights of the asked words in titles that the corpus lacks: `(asked, titles)`."""
        total = len(self._titles)
        rows = []
        for title in titles:
            tokens = words(title)
            length_factor = self.k1 * (1 - self.b + self.b * len(tokens) / self._mean_length)
            row = []
            for word, count in Counter(tokens).items():
                if word in asked:
                    word_id = self._word_ids.get(word)
                    holders = 0 if word_id is None else int(self._titles_with_word[word_id])
                    rarity = math.log(1 + (total - holders + 0.5) / (holders + 0.5))
                    row.append((asked[word], rarity * count / (count + length_factor)))
            rows.append(row)
        return _sparse(rows, len(asked)).T.tocsr()


def _sparse(rows: Sequence[Sequence[tuple[int, float]]], width: int) -> sparse.csr_matrix:
    """A matrix from `(column, value)` pairs a row, columns in order."""
    ordered = [sorted(row) for row in rows]
    return sparse.csr_matrix(
        (
            np.array([value for row in ordered for _, value in row], dtype=np.float64),
            np.array([column for row in ordered for column, _ in row], dtype=np.int64),
            np.cumsum([0, *map(len, ordered)]),
        ),
        shape=(len(rows), width),
    )
