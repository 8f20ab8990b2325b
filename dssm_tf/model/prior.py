"""How likely a title is clicked whatever the query: the log-prior of a ranking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssm_tf.data.schema import Title
from dssm_tf.text.normalize import normalize


class TitlePrior:
    """The log of each title's smoothed share of the log's clicks.

    In-batch negatives come up as often as they are clicked, so the cosine learns
    `P(title | query) / P(title)`; adding a weighted log-prior gives `P(title)` back.

    Args:
        titles: known titles with their clicks, 0 for those of the corpus alone.
        keep_accents: whether titles that differ in accents alone are two, see `TextLimits`.

    Attributes:
        log_shares: of each title that was clicked, in nats.
        unseen: that of any other title.
        mean: of `log_shares`.

    Reference: Bengio and Senecal 2008 (sampled softmax); Yi et al. 2019 (logQ).
    """

    def __init__(self, titles: Iterable[Title], keep_accents: bool = False) -> None:
        self.keep_accents = keep_accents
        clicks: dict[str, int] = {}
        for title in titles:
            text = normalize(title.text, keep_accents)
            clicks[text] = clicks.get(text, 0) + title.clicks
        # One extra click a title, so that a title nobody clicked is unlikely, not impossible.
        total = sum(clicks.values()) + len(clicks) + 1
        self.unseen = float(np.log(1 / total))
        # A title without a click has the share of an unseen one: it needs no entry.
        self.log_shares = {
            text: float(np.log((count + 1) / total)) for text, count in clicks.items() if count
        }
        shares = self.log_shares.values()
        self.mean = float(np.mean([*shares])) if shares else self.unseen

    def __call__(self, titles: Sequence[str]) -> NDArray[np.float32]:
        """Log-priors of raw titles, in nats, `(len(titles),)`."""
        keys = (normalize(title, self.keep_accents) for title in titles)
        shares = (self.log_shares.get(key, self.unseen) for key in keys)
        return np.fromiter(shares, np.float32, len(titles))


def with_column(vectors: NDArray[np.float32], column: ArrayLike) -> NDArray[np.float32]:
    """Vectors with the prior: one more dimension, so that the inner product is the score.

    A title's last number is its weighted log-prior and a query's is 1:
    `[q, 1] . [t, p] = q . t + p`.

    Args:
        vectors: unit vectors `(texts, dimension)`.
        column: what stands in the further dimension, `(texts,)` or one number for all.

    Returns:
        float32 `(texts, dimension + 1)`, contiguous.
    """
    joined = np.empty((len(vectors), vectors.shape[1] + 1), np.float32)
    joined[:, :-1], joined[:, -1] = vectors, column
    return joined
