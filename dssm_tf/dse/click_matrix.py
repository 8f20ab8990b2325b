"""A click log as a matrix: which title answers which query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Click
from dssm_tf.baselines.clicked_pairs import ClickedPairs
from dssm_tf.text.rules import FOLDED


class ClickMatrix(NamedTuple):
    """Distinct texts of a log and its clicks.

    Attributes:
        queries: distinct normalized queries, in alphabetical order.
        titles: distinct titles: those of the corpus, then clicked ones it lacks.
        clicks: float64 `(queries, titles)`, how often each title was clicked for each query.
    """

    queries: list[str]
    titles: list[str]
    clicks: sparse.csr_matrix

    @classmethod
    def from_clicks(cls, clicks: Iterable[Click], titles: Iterable[str], name: str) -> ClickMatrix:
        """Collects a log.

        Raises:
            NoClicksError: no click has both a query and a title of words.
        """
        pairs = ClickedPairs.from_clicks(clicks, name)
        queries = _row_of(pairs.queries)
        columns = _row_of([*map(FOLDED.key, titles), *pairs.titles])
        cells = [queries[text] for text in pairs.queries], [columns[text] for text in pairs.titles]
        matrix = sparse.csr_matrix((pairs.clicks, cells), (len(queries), len(columns)))
        return cls([*queries], [*columns], matrix)

    def split_queries(
        self, fraction: float, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of validation and training queries. The number of the former is rounded down."""
        order = np.random.default_rng(seed).permutation(len(self.queries))
        count = int(fraction * len(order))
        return np.sort(order[:count]), np.sort(order[count:])

    def of_queries(self, rows: NDArray[np.int64]) -> sparse.csr_matrix:
        """The clicks of some queries; the rows of the others are empty."""
        selection = sparse.csr_matrix((np.ones(len(rows)), (rows, rows)), (len(self.queries),) * 2)
        return (selection @ self.clicks).tocsr()

    def training(
        self, rows: NDArray[np.int64], title_queries: float
    ) -> tuple[sparse.csr_matrix, sparse.csr_matrix, NDArray[np.float64]]:
        """Clicks of some queries, and titles as queries below them.

        Args:
            rows: the queries to learn from.
            title_queries: fraction of the draws that use a title as its own query.

        Returns:
            Links to draw from and known relevant pairs, both bool `(queries + titles,
            titles)`, and the weight of each link.
        """
        clicks = self.of_queries(rows)
        clicks.data /= clicks.data.sum()
        with_words = np.array([1.0 if title else 0.0 for title in self.titles])
        itself = sparse.diags(with_words / with_words.sum()).tocsr()
        itself.eliminate_zeros()
        links = sparse.vstack([(1 - title_queries) * clicks, title_queries * itself]).tocsr()
        links.eliminate_zeros()
        # A title that was clicked for a validation query must not be used as its irrelevant title.
        known = sparse.vstack([self.clicks > 0, itself > 0]).tocsr()
        return links.astype(bool), known, links.data


def has_pairs(links: sparse.csr_matrix) -> bool:
    """Whether any query has both a relevant and an irrelevant title."""
    relevant = np.diff(links.indptr)
    return bool(((relevant > 0) & (relevant < links.shape[1])).any())


def _row_of(texts: Iterable[str]) -> dict[str, int]:
    """The distinct texts in order of first appearance, each with its index."""
    return {text: index for index, text in enumerate(dict.fromkeys(texts))}
