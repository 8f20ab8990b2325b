"""Titles as queries for themselves: what ties the words of titles to the titles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dssm_tf.data.schema import ClickExample, Title, text_id
from dssm_tf.text.normalize import normalize
from dssm_tf.text.vocabulary import Vocabulary

MAX_TITLES = 200_000


def title_query_records(
    titles: Sequence[Title],
    vocabulary: Vocabulary,
    negatives: int,
    alpha: float,
    seed: int,
    max_titles: int = MAX_TITLES,
) -> list[bytes]:
    """Records of titles that were searched by their own text and clicked once.

    Rare titles and titles nobody clicked are otherwise learned from few queries or none; so
    every title is at least found by its name. The log's clicks are not touched.

    Args:
        titles: of the log, most clicked first; the first `max_titles` are used.
        vocabulary: hashes the texts.
        negatives: titles a record, drawn in proportion to `clicks ** alpha`.
        alpha: exponent of the draw.
        seed: of the draw.
        max_titles: bounds memory.

    Returns:
        Serialised examples, one a distinct normalised title.
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
    drawn = rng.choice(len(chosen), (len(chosen), 2 * wanted + 1), p=weights / weights.sum())
    records = []
    for row, title in enumerate(chosen):
        others = [chosen[i] for i in dict.fromkeys(drawn[row].tolist()) if i != row][:wanted]
        example = ClickExample(title.text, [title, *others], 1.0, [text_id(title.text)])
        records.append(example.serialize(vocabulary))
    return records
