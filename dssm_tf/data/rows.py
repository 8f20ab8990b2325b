"""Training rows as arrays of text indices: clicks, titles as queries, graded lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.data.preprocessed import Pairs
from dssm_tf.data.texts import TextTensors


class TrainingRows(NamedTuple):
    """Rows of one source of labels: a query and its candidate titles, as text indices.

    Args:
        source: index of the source: 0 for clicks, then the others of `SOURCES`.
        query: int32 `(rows,)`; see `TextTensors`.
        titles: int32 `(rows, columns)`, title indices, -1 for padding. In rows of clicks, the first
            title was clicked.
        weights: float32 `(rows,)`; see `rescaled`.
        batch_size: rows per step, over all workers and replicas.
        mean_weight: mean weight of a row, counting the padding rows of the last step as 0.
        targets: grades or scores `(rows, columns)`; None for clicks.
        pool: number of rows at the end, each of weight 1, from which each epoch draws a sample.
        pool_sample: number of rows that an epoch draws from the pool.
    """

    source: int
    query: NDArray[np.int32]
    titles: NDArray[np.int32]
    weights: NDArray[np.float32]
    batch_size: int
    mean_weight: float = 1.0
    targets: NDArray[np.float32] | None = None
    pool: int = 0
    pool_sample: int = 0

    @property
    def per_epoch(self) -> int:
        """Rows per epoch."""
        return len(self.query) - self.pool + self.pool_sample

    @property
    def steps(self) -> int:
        """Batches per epoch."""
        return -(-self.per_epoch // self.batch_size)

    @staticmethod
    def concatenate(splits: Sequence[TrainingRows]) -> TrainingRows:
        """The rows of several splits of one source. Only the last split may have a pool."""
        targets = [rows.targets for rows in splits if rows.targets is not None]
        return splits[-1]._replace(
            query=np.concatenate([rows.query for rows in splits]),
            titles=np.concatenate([rows.titles for rows in splits]),
            weights=np.concatenate([rows.weights for rows in splits]),
            targets=np.concatenate(targets) if targets else None,
        )

    def rescaled(self) -> TrainingRows:
        """The rows with weights rescaled to a mean of `mean_weight` over an epoch."""
        total = self.weights.sum(dtype=np.float64) - (self.pool - self.pool_sample)
        scale = self.mean_weight * self.steps * self.batch_size / total
        return self._replace(weights=(self.weights * scale).astype(np.float32))


def click_rows(pairs: Pairs, negatives: int, weighting: str, batch_size: int) -> TrainingRows:
    """The clicked pairs of a split as rows.

    Args:
        pairs: the pairs of the split.
        negatives: number of recorded negatives to use per pair.
        weighting: weight of a pair in the loss: `none` 1, `log` 1 + ln(clicks), `linear` clicks.
        batch_size: queries per step.
    """
    weights = {
        "none": np.ones_like(pairs.clicks),
        "log": (1 + np.log(np.maximum(pairs.clicks, 1))).astype(np.float32),
        "linear": pairs.clicks,
    }
    titles = pairs.titles[:, : 1 + negatives]
    return TrainingRows(0, pairs.query, titles, weights[weighting], batch_size)


def title_rows(texts: TextTensors, clicks: TrainingRows, per_epoch: int) -> TrainingRows:
    """Rows in which some words of a title (see `QueryWords`) are the query for this title.

    Without these rows, rare and unclicked titles would be trained on with few queries or none.

    Args:
        texts: the texts of the training. Titles without words are left out.
        clicks: rows of clicks. The new rows have the same number of columns and the same batch
            size, but no recorded negatives.
        per_epoch: number of titles drawn per epoch, each at most once.
    """
    lengths = texts.words.row_lengths().numpy()
    titles = np.flatnonzero(lengths[texts.first_title :]).astype(np.int32)
    padding = np.full((len(titles), clicks.titles.shape[1] - 1), -1, np.int32)
    return clicks._replace(
        query=texts.first_title + titles,
        titles=np.column_stack([titles, padding]),
        weights=np.ones(len(titles), np.float32),
        pool=len(titles),
        pool_sample=min(per_epoch, len(titles)),
    )
