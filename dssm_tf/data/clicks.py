"""The pairs of a log as rows to learn from, and its titles as queries for themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssm_tf.data.batches import Rows
from dssm_tf.data.lists import Lists
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.text_batches import Texts

_MAX_TITLES = 200_000


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


def choose_titles(
    clicks: NDArray[np.int64], max_unclicked: int, seed: int, max_titles: int = _MAX_TITLES
) -> NDArray[np.int64]:
    """The numbers of the titles to learn as queries for themselves.

    Args:
        clicks: of each title; the most clicked ones are chosen where there are too many.
        max_unclicked: titles without a click, at most: a sample of them where there are more, so
            that a large corpus does not outweigh a small log.
        seed: of the sample.
        max_titles: all together; bounds memory.
    """
    clicked = np.argsort(-clicks, kind="stable")[: min(max_titles, int((clicks > 0).sum()))]
    unclicked = np.flatnonzero(clicks == 0)
    room = max(0, min(max_unclicked, max_titles - len(clicked)))
    if len(unclicked) > room:
        unclicked = np.random.default_rng(seed).choice(unclicked, room, replace=False)
    return np.sort(np.concatenate([clicked, unclicked]))


def title_rows(
    chosen: NDArray[np.int64], texts: Texts, draw: NDArray[np.float64], like: Rows, seed: int
) -> Rows:
    """Titles that were searched by their own text and clicked once.

    Rare titles and titles nobody clicked are otherwise learned from few queries or none; so
    every title is at least found by its name. A title whose text is a query of the log too keeps
    what that query's users clicked: those titles are never its negatives.

    Args:
        chosen: numbers of titles, see `choose_titles`; those without a word are left out.
        texts: of the training.
        draw: chance of each title as a negative.
        like: rows of clicks, of as many columns.
        seed: of the draw.
    """
    chosen = chosen[texts.words.lengths[texts.first_title + chosen] > 0]
    query = (texts.first_title + chosen).astype(np.int32)
    wanted = like.titles.shape[1] - 1
    shape = len(chosen), 4 * wanted + 1
    drawn = np.random.default_rng(seed).choice(len(draw), shape, p=draw)
    bad = _clicked(texts.clicked, query, drawn)
    for column in range(1, shape[1]):
        bad[:, column] |= (drawn[:, :column] == drawn[:, column : column + 1]).any(axis=1)
    order = np.argsort(bad, axis=1, kind="stable")[:, :wanted]
    negatives = np.take_along_axis(np.where(bad, -1, drawn), order, 1)
    titles = np.concatenate([chosen[:, None], negatives], axis=1).astype(np.int32)
    return like._replace(query=query, titles=titles, weights=np.ones(len(chosen), np.float32))


def _clicked(
    clicked: Lists, query: NDArray[np.int32], titles: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether anybody clicked titles `(rows, columns)` for the rows' queries."""
    stride = len(clicked)
    known = np.repeat(np.arange(len(clicked)), clicked.lengths) * stride + clicked.flat
    wanted = query[:, None].astype(np.int64) * stride + titles
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.asarray(known[place] == wanted)
