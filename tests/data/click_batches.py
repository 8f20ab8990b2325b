"""Small click logs in memory, and batches of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from dssm_tf.data.batches import Batches
from dssm_tf.data.rows import TrainingRows
from dssm_tf.data.texts import BatchShapes, TextTensors
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from tests.clicks import Row, rows_of

WORDS = ("red", "fox", "green", "owl", "bear", "fish")
NGRAMS = dict.fromkeys(ngram for word in WORDS for ngram in letter_ngrams(word))
VOCABULARY = Vocabulary(NGRAMS, FOLDED)


class Click(NamedTuple):
    """A clicked pair with its recorded negatives, and other titles clicked for the query."""

    query: str
    title: str
    negatives: tuple[str, ...] = ()
    clicked: tuple[str, ...] = ()
    weight: float = 1.0


FOXES = [
    Click("red", "red fox", ("green owl", "fish")),
    Click("fox", "red fox", ("bear", "fish"), ("green owl",)),
    Click("owl", "green owl", ("bear",)),
]


LOG = [
    Click(f"{a} {b}", f"{b} {c}", (f"{c} {a} {b}",), weight=float(1 + index % 5))
    for index, (a, b, c) in enumerate(
        (a, b, c) for a in WORDS for b in WORDS[:3] for c in WORDS[:3] if len({a, b, c}) == 3
    )
]
SIZE = 8


def batches(clicks, size=0, shapes=None, negatives=4, more=(), mined=None, **options) -> Batches:
    """Batches of clicks, `size` per step; by default all in one step.

    Args:
        more: further titles of the log, without a click.
        mined: hard negatives by query.
    """
    queries = dict.fromkeys(click.query for click in clicks)
    titles = dict.fromkeys(
        title
        for click in clicks
        for title in (click.title, *click.negatives, *click.clicked, *more)
    )
    query_index = {text: index for index, text in enumerate(queries)}
    title_index = {text: index for index, text in enumerate(titles)}
    words = [[WORDS.index(word) for word in text.split()] for text in (*queries, *titles)]
    clicked: list[set[int]] = [set() for _ in words]
    for click in clicks:
        indices = {title_index[text] for text in (click.title, *click.clicked)}
        clicked[query_index[click.query]] |= indices
    texts = TextTensors(
        ragged(words),
        ragged([VOCABULARY.look_up(word) for word in WORDS]),
        ragged([sorted(indices) for indices in clicked]),
        len(queries),
    )
    candidates = np.full((len(clicks), 1 + negatives), -1, np.int32)
    for row, click in enumerate(clicks):
        indices = [title_index[text] for text in (click.title, *click.negatives)][: 1 + negatives]
        candidates[row, : len(indices)] = indices
    query = np.array([query_index[click.query] for click in clicks], np.int32)
    weights = np.array([click.weight for click in clicks], np.float32)
    rows = TrainingRows(0, query, candidates, weights, size or len(clicks))
    pairs = [
        (query_index[query], title_index[title])
        for query, titles_of_query in (mined or {}).items()
        for title in titles_of_query
    ]
    options["mined"] = np.array(pairs, np.int64).reshape(-1, 2)
    return Batches(texts, ({"train": rows},), shapes=shapes or BatchShapes(), **options)


def ragged(lists) -> tf.RaggedTensor:
    values = np.array([value for row in lists for value in row], np.int32)
    return tf.RaggedTensor.from_row_lengths(values, np.array([*map(len, lists)], np.int64))


def steps(dataset) -> list[list[Row]]:
    return [rows_of(*element) for element in dataset]


def rows(clicks, **options) -> list[Row]:
    """The rows of the only batch."""
    (batch,) = steps(batches(clicks, **options).epochs(None, 0, 1))
    return batch


def tensors(clicks, **options):
    """Inputs and labels of the only batch."""
    ((inputs, labels, _),) = batches(clicks, **options).epochs(None, 0, 1)
    return inputs, labels


def text(words: str):
    """A text as `rows_of` returns it."""
    return tuple(VOCABULARY.ngram_ids(word) for word in words.split())
