"""Hard negatives while training: some of those mined for a query, other ones in every pass."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.data.batching import Examples
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.title_pool import TitlePool
from dssm_tf.tables.hard_negatives import read_hard_negatives
from dssm_tf.text.rules import Rules

_OTHER_SEED = 1 << 40  # of a step, where fresh negatives have the step's number itself


class MinedNegatives:
    """Draws from the titles that were mined for each query, without replacement.

    Differs from `FreshNegatives` by knowing the query. A query for which nothing was mined, and
    a title as a query for itself, get none.

    Args:
        data: whose queries and titles they are.
        pairs: `(pairs, 2)` int64, ids of a query and a title that the data know; in any
            order, repeats count once. Titles clicked for the query are never drawn.
        count: titles a query and pass; fewer where fewer were mined.

    Attributes:
        pairs: each once, query after query.

    Reference: Xiong et al. 2021 (ANCE), sec. 4, where the model itself mines them.
    """

    def __init__(self, data: Preprocessed, pairs: NDArray[np.int64], count: int) -> None:
        self.count = count
        self.pairs = np.unique(np.reshape(pairs, (-1, 2)), axis=0)
        self._pool = TitlePool(data.titles, data.vocabulary)
        place = {data.rules.id(title.text): row for row, title in enumerate(data.titles)}
        queries, first = np.unique(self.pairs[:, 0], return_index=True)
        splits = np.append(first, len(self.pairs))
        self._queries = tf.constant(queries)
        self._places = tf.constant([place[title] for title in self.pairs[:, 1].tolist()], tf.int32)
        self._splits = tf.constant(splits, tf.int32)
        self._most = int(np.diff(splits).max(initial=0))

    @classmethod
    def read(cls, data: Preprocessed, path: Path | str, count: int) -> tuple[MinedNegatives, str]:
        """Reads what `dssm mine` wrote, or any table with the columns query and title.

        Returns:
            The negatives, and what was left out because the data do not know it; else empty.

        Raises:
            UserError: the table cannot be read, or no row is of these data.
        """
        rows, identify = read_hard_negatives(path), data.rules.id
        queries = {query: identify(query) for query, _ in rows}
        titles = {title: identify(title) for _, title in rows}
        known_queries = set(data.query_ids().tolist())
        known_titles = {identify(title.text) for title in data.titles}
        lost = [
            f"{len(unknown):,} of {len(ids):,} {kind}, such as {unknown[0]!r:.60}"
            for kind, ids, known in (
                ("queries", queries, known_queries),
                ("titles", titles, known_titles),
            )
            if (unknown := [text for text, found in ids.items() if found not in known])
        ]
        told = f"{path} names what {data.directory} does not hold: {' and '.join(lost)}"
        pairs = [(queries[query], titles[title]) for query, title in rows]
        pairs = [(q, t) for q, t in pairs if q in known_queries and t in known_titles]
        if not pairs:
            raise UserError(f"{told}. No row is left; mine with this data.")
        return cls(data, np.array(pairs, np.int64), count), told if lost else ""

    def draw(self, rows: int, seed: tf.Tensor) -> tf.Tensor:
        """Random numbers by which to choose, float32 `(rows, the most that a query has)`.

        Args:
            rows: queries.
            seed: int64 `(2,)`; equal seeds, equal numbers.
        """
        shape = [rows, self._most]
        return tf.random.stateless_uniform(shape, seed + tf.constant([0, _OTHER_SEED], tf.int64))

    def extend(self, examples: Examples, drawn: tf.Tensor) -> Examples:
        """Examples with `count` of the titles mined for their query.

        Args:
            examples: `batch` records, see `to_batch`.
            drawn: float32 `(batch, columns)`, what `draw` returned of these rows.
        """
        ids = examples["query_id"]
        row = tf.minimum(tf.searchsorted(self._queries, ids), tf.size(self._queries) - 1)
        start, end = tf.gather(self._splits, row), tf.gather(self._splits, row + 1)
        mined = tf.where(tf.gather(self._queries, row) == ids, end - start, 0)
        columns = tf.range(tf.shape(drawn)[1])
        order = tf.argsort(tf.where(columns < mined[:, None], drawn, -1.0), direction="DESCENDING")
        places = tf.gather(
            self._places, tf.minimum(start[:, None] + order, tf.size(self._places) - 1)
        )
        places = tf.where(columns < mined[:, None], places, -1)
        return self._pool.extend(examples, places, self.count)


def pairs_of(rows: Iterable[tuple[str, str]], rules: Rules) -> NDArray[np.int64]:
    """Ids `(pairs, 2)` of queries and titles."""
    return rules.column(text for row in rows for text in row).reshape(-1, 2)
