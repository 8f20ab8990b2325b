"""Titles as queries for themselves: what ties the words of titles to the titles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dssm_tf.data.clicked_titles import ClickedTitles
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.data.schema import Title
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.rules import Key
from dssm_tf.text.vocabulary import Vocabulary

_MAX_TITLES = 200_000


def choose_titles(
    titles: Sequence[Title], max_unclicked: int, seed: int, max_titles: int = _MAX_TITLES
) -> list[Title]:
    """The titles to learn as queries for themselves, in the order given.

    Args:
        titles: of the log and of the corpus, most clicked first.
        max_unclicked: titles without a click, at most: a sample of them where there are more, so
            that a large corpus does not outweigh a small log.
        seed: of the sample.
        max_titles: all together; bounds memory.
    """
    clicked = [title for title in titles if title.clicks][:max_titles]
    unclicked = [title for title in titles if not title.clicks]
    room = min(max_unclicked, max_titles - len(clicked))
    if len(unclicked) > room:
        places = np.random.default_rng(seed).permutation(len(unclicked))[:room]
        unclicked = [unclicked[place] for place in np.sort(places)]
    return clicked + unclicked


def title_query_records(
    titles: Sequence[Title],
    vocabulary: Vocabulary,
    clicked: ClickedTitles,
    negatives: int,
    alpha: float,
    seed: int,
) -> list[bytes]:
    """Records of titles that were searched by their own text and clicked once.

    Rare titles and titles nobody clicked are otherwise learned from few queries or none; so
    every title is at least found by its name. A title whose text is a query of the log too keeps
    what that query's users clicked: those titles are never its negatives.

    Args:
        titles: to make records of, see `choose_titles`.
        vocabulary: hashes the texts.
        clicked: the titles clicked for each query of the log.
        negatives: titles a record, drawn in proportion to `clicks ** alpha`, where no clicks
            count as half a click.
        alpha: exponent of the draw.
        seed: of the draw.

    Returns:
        Serialised examples, one a distinct normalised title.
    """
    distinct: dict[Key, Title] = {}
    rng = np.random.default_rng(seed)
    for title in titles:
        if key := vocabulary.rules.key(title.text):
            distinct.setdefault(key, title)
    chosen = list(distinct.values())
    if not chosen:
        return []
    weights = np.maximum([title.clicks for title in chosen], 0.5) ** alpha
    wanted = min(negatives, len(chosen) - 1)
    drawn = rng.choice(len(chosen), (len(chosen), 4 * wanted + 1), p=weights / weights.sum())
    ids = [fingerprint64(key) for key in distinct]
    encoder = RecordEncoder(vocabulary)
    records = []
    for row, title in enumerate(chosen):
        liked = {ids[row], *clicked.of(ids[row])}
        others = [chosen[i] for i in dict.fromkeys(drawn[row].tolist()) if ids[i] not in liked]
        drawn_titles = [title, *others[:wanted]]
        records.append(encoder.encode(title.text, drawn_titles, 1.0))
    return records
