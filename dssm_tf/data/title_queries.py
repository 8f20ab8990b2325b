"""Titles as queries for themselves: what ties the words of titles to the titles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.random import Generator

from dssm_tf.data.records import read_records, record_files
from dssm_tf.data.schema import ClickExample, Title, text_id
from dssm_tf.text.normalize import normalize, words
from dssm_tf.text.vocabulary import Vocabulary

ClickedTitles = Callable[[Collection[int]], Mapping[int, Sequence[int]]]

MAX_TITLES = 200_000
MAX_CROP_WORDS = 3
MAX_CROP_TITLES = 16


def clicked_titles(
    directory: Path, splits: Sequence[str], queries: Collection[int]
) -> dict[int, list[int]]:
    """The ids of every title clicked for some of the log's queries.

    Args:
        directory: what preprocess wrote.
        splits: whose records are read.
        queries: `text_id` of the queries asked about.
    """
    found: dict[int, list[int]] = {}
    features = {
        "query_id": tf.io.FixedLenFeature([], tf.int64),
        "clicked_ids": tf.io.RaggedFeature(tf.int64),
    }
    for split in splits:
        for batch in read_records(record_files(directory, split)).batch(1024):
            parsed = tf.io.parse_example(batch, features)
            clicked = parsed["clicked_ids"]
            for row, query in enumerate(parsed["query_id"].numpy().tolist()):
                if query in queries and query not in found:
                    found[query] = clicked[row].numpy().tolist()
    return found


def title_query_records(
    titles: Sequence[Title],
    vocabulary: Vocabulary,
    clicked: ClickedTitles,
    negatives: int,
    alpha: float,
    seed: int,
    crops: int = 0,
    max_titles: int = MAX_TITLES,
) -> list[bytes]:
    """Records of titles that were searched by their own text and clicked once.

    Rare titles and titles nobody clicked are otherwise learned from few queries or none; so
    every title is at least found by its name. A title whose text is a query of the log too keeps
    what that query's users clicked: those titles are never its negatives.

    Args:
        titles: of the log, most clicked first; the first `max_titles` are used.
        vocabulary: hashes the texts.
        clicked: ids of the titles clicked for queries of the log, as `clicked_titles` finds them.
        negatives: titles a record, drawn in proportion to `clicks ** alpha`.
        alpha: exponent of the draw.
        seed: of the draw.
        crops: records a title with a crop as query, at most.
        max_titles: bounds memory.

    Returns:
        Serialised examples: for each distinct normalised title one, then its crops.
    """
    distinct: dict[str, Title] = {}
    for title in titles[:max_titles]:
        key = normalize(title.text)
        if key:
            distinct.setdefault(key, title)
    chosen = list(distinct.values())
    if not chosen:
        return []
    weights = np.maximum([title.clicks for title in chosen], 0.5) ** alpha
    rng = np.random.default_rng(seed)
    wanted = min(negatives, len(chosen) - 1)
    drawn = rng.choice(len(chosen), (len(chosen), 4 * wanted + 1), p=weights / weights.sum())
    ids = [text_id(title.text) for title in chosen]
    holders = _crop_holders(list(distinct)) if crops else {}
    queries = [
        [title.text, *_draw_crops(words(title.text), holders, crops, rng)] for title in chosen
    ]
    known = clicked({text_id(query) for row in queries for query in row})
    records = []
    for row, title in enumerate(chosen):
        for query in queries[row]:
            alike = [ids[other] for other in holders.get(query, ())]
            liked = {ids[row], *alike, *known.get(text_id(query), ())}
            others = [chosen[i] for i in dict.fromkeys(drawn[row].tolist()) if ids[i] not in liked]
            example = ClickExample(query, [title, *others[:wanted]], 1.0, sorted(liked))
            records.append(example.serialize(vocabulary))
    return records


def _crops(tokens: Sequence[str]) -> set[str]:
    """Every run of one to three words that is not the whole title."""
    return {
        " ".join(tokens[start : start + size])
        for size in range(1, min(MAX_CROP_WORDS, len(tokens) - 1) + 1)
        for start in range(len(tokens) - size + 1)
    }


def _crop_holders(titles: Sequence[str]) -> dict[str, list[int]]:
    """The titles that hold each crop, for crops that few enough hold."""
    holders: dict[str, list[int]] = {}
    for row, title in enumerate(titles):
        for crop in _crops(title.split()) | {title}:
            holders.setdefault(crop, []).append(row)
    return {crop: rows for crop, rows in holders.items() if len(rows) <= MAX_CROP_TITLES}


def _draw_crops(
    tokens: Sequence[str], holders: Mapping[str, Sequence[int]], crops: int, rng: Generator
) -> list[str]:
    if not crops:
        return []
    found = sorted(crop for crop in _crops(tokens) if crop in holders)
    return [found[i] for i in rng.permutation(len(found))[:crops]]
