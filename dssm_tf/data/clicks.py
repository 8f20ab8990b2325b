"""The pairs of a log as rows to learn from, and its titles as queries for themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssm_tf.data.batches import Rows
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.text_batches import Texts


def click_rows(data: Preprocessed, split: str, negatives: int, weight: str, size: int) -> Rows:
    """The pairs of a part.

    Args:
        data: what preprocess wrote.
        split: `train` or `validation`.
        negatives: recorded ones used, at most as many as were recorded.
        weight: of a pair in the loss: `none` 1, `log` 1 + ln(clicks), `linear` clicks.
        size: queries a step.
    """
    query, titles, clicks = data.pairs(split)
    return Rows(0, query, titles[:, : 1 + negatives], weights_of(clicks, weight), size)


def weights_of(clicks: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """What pairs with so many clicks weigh in the loss."""
    if kind == "log":
        return (1 + np.log(np.maximum(clicks, 1))).astype(np.float32)
    return clicks if kind == "linear" else np.ones_like(clicks)


def draw_weights(clicks: NDArray[np.int64], alpha: float) -> NDArray[np.float64]:
    """Chances of titles in a draw by `clicks ** alpha`; no clicks count as half a click."""
    weights: NDArray[np.float64] = np.maximum(clicks, 0.5) ** alpha
    return np.asarray(weights / weights.sum())


def title_rows(texts: Texts, like: Rows, drawn: int) -> Rows:
    """Titles that were searched by some of their words, see `QueryWords`, and clicked once.

    Rare titles and titles nobody clicked are otherwise learned from few queries or none.

    Args:
        texts: of the training; titles without a word are left out.
        like: rows of clicks; titles have no recorded negatives.
        drawn: titles a pass, others in each; at most once each.
    """
    titles = np.flatnonzero(texts.words.lengths[texts.first_title :]).astype(np.int32)
    none = np.full((len(titles), like.titles.shape[1] - 1), -1, np.int32)
    return like._replace(
        query=texts.first_title + titles,
        titles=np.concatenate([titles[:, None], none], axis=1),
        weights=np.ones(len(titles), np.float32),
        pool=len(titles),
        drawn=min(drawn, len(titles)),
    )
