"""What is learned from, as numbers: clicks, titles as queries, lists with grades or scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.data.preprocessed import Pairs
from dssm_tf.data.texts import Texts


class Rows(NamedTuple):
    """What is learned from: queries, each with its candidates, as numbers of texts.

    Args:
        source: where they come from: 0 clicks, and the further ones of `SOURCES`.
        query: int32 `(rows,)`, see `Texts`.
        titles: int32 `(rows, columns)`, -1 for none; of clicks, the first was clicked.
        weights: float32 `(rows,)`, which `mean` rescales.
        size: rows of a step, over all workers and replicas.
        mean: weight of a row on average, those that fill up the last step included.
        targets: grades or scores `(rows, columns)`; None for clicks.
        pool: how many of the last rows, of weight 1, are a pool of which each pass reads others.
        drawn: how many of the pool a pass reads.
    """

    source: int
    query: NDArray[np.int32]
    titles: NDArray[np.int32]
    weights: NDArray[np.float32]
    size: int
    mean: float = 1.0
    targets: NDArray[np.float32] | None = None
    pool: int = 0
    drawn: int = 0

    @property
    def per_pass(self) -> int:
        """Rows a pass."""
        return len(self.query) - self.pool + self.drawn

    @property
    def steps(self) -> int:
        """Batches a pass."""
        return -(-self.per_pass // self.size)

    @staticmethod
    def joined(many: Sequence[Rows]) -> Rows:
        """The rows of one source, of several parts; only the last may have a pool."""
        targets = [rows.targets for rows in many if rows.targets is not None]
        return many[-1]._replace(
            query=np.concatenate([rows.query for rows in many]),
            titles=np.concatenate([rows.titles for rows in many]),
            weights=np.concatenate([rows.weights for rows in many]),
            targets=np.concatenate(targets) if targets else None,
        )

    def rescaled(self) -> Rows:
        """The same with weights whose mean over the rows of a pass is `mean`."""
        total = self.weights.sum(dtype=np.float64) - (self.pool - self.drawn)
        scale = self.mean * self.steps * self.size / total
        return self._replace(weights=(self.weights * scale).astype(np.float32))


def click_rows(pairs: Pairs, negatives: int, weight: str, size: int) -> Rows:
    """The pairs of a part.

    Args:
        pairs: of the part.
        negatives: recorded ones used, at most as many as were recorded.
        weight: of a pair in the loss: `none` 1, `log` 1 + ln(clicks), `linear` clicks.
        size: queries a step.
    """
    weights = {
        "none": np.ones_like(pairs.clicks),
        "log": (1 + np.log(np.maximum(pairs.clicks, 1))).astype(np.float32),
        "linear": pairs.clicks,
    }
    return Rows(0, pairs.query, pairs.titles[:, : 1 + negatives], weights[weight], size)


def title_rows(texts: Texts, like: Rows, drawn: int) -> Rows:
    """Titles that were searched by some of their words, see `QueryWords`, and clicked once.

    Rare titles and titles nobody clicked are otherwise learned from few queries or none.

    Args:
        texts: of the training run; titles without a word are left out.
        like: rows of clicks; titles have no recorded negatives.
        drawn: titles a pass, others in each; at most once each.
    """
    lengths = texts.words.row_lengths().numpy()
    titles = np.flatnonzero(lengths[texts.first_title :]).astype(np.int32)
    none = np.full((len(titles), like.titles.shape[1] - 1), -1, np.int32)
    return like._replace(
        query=texts.first_title + titles,
        titles=np.column_stack([titles, none]),
        weights=np.ones(len(titles), np.float32),
        pool=len(titles),
        drawn=min(drawn, len(titles)),
    )
