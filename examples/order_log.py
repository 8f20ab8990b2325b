r"""Makes a click log in which order, a negation far away or a topic among noise decides.

    python examples/order_log.py --out ORDER
    dssm preprocess --input ORDER/clicks.tsv --negatives 1 --negatives-from impressions --output D
    dssm train --config lstm --data D --out R \
        --set negatives.recorded=1 --set negatives.in_batch=false
    dssm evaluate --model R --judgments ORDER/judgments.tsv --out EVALUATION

Texts come in groups of two queries and two titles: each title is right for one of the queries and
wrong for the other, so a title alone says nothing. The words that matter are a given distance
apart; the words before, between and after them are noise, drawn alike:

    order     oslo .. rome        against  rome .. oslo
    negation  pool .. not .. spa  against  spa .. not .. pool
    topic     opera .. canal      against  opera .. ruins

`not` refuses the next word that matters, and a title is right that refuses the same word, before
the other one or after it. In `order` and `negation` the two queries have one bag of words, and the
two titles have one: whatever ignores order is right for exactly one query of a group.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dssm_tf.tables.judgments import Judgment, write_judgments
from dssm_tf.tables.writer import write_table

KINDS = ("order", "negation", "topic")
NOT = "not"
WORDS = {
    "order": (
        "oslo", "rome", "paris", "madrid", "vienna", "athens", "dublin", "prague",
        "lisbon", "warsaw", "berlin", "cairo", "tokyo", "delhi", "sydney", "boston",
    ),
    "negation": (
        "pool", "spa", "breakfast", "parking", "wifi", "balcony", "kitchen", "garden",
        "terrace", "laundry", "shuttle", "fitness", "dinner", "heating", "fireplace", "bathtub",
    ),
    "topic": (
        "opera", "canal", "ruins", "museum", "harbour", "castle", "zoo", "brewery",
        "market", "glacier", "vineyard", "temple", "aquarium", "lighthouse", "bridge", "volcano",
    ),
}  # fmt: skip
NOISE = (
    "cheap", "best", "top", "great", "nice", "super", "good", "special", "full", "early",
    "offer", "deal", "price", "sale", "ticket", "booking", "trip", "tour", "visit", "stay",
    "weekend", "summer", "winter", "daily", "online", "direct", "family", "group", "luxury",
    "budget",
)  # fmt: skip
EDGE = 4
"""Fewest words of noise on either side: a window of five over a word that matters sees no edge."""

LEARNED, VALIDATION, JUDGED = "learned", "validation", "judgments"
PARTS = {LEARNED: 0.6, VALIDATION: 0.2, JUDGED: 0.2}
"""Shares of the pairs of words of each kind."""
_JITTER = 3  # 0 to 2 more words of noise on either side, so that places tell nothing


class Group(NamedTuple):
    """Two queries and two titles: `titles[i]` is right for `queries[i]`, wrong for the other."""

    queries: tuple[str, str]
    titles: tuple[str, str]

    def judged(self) -> Iterator[tuple[str, str, bool]]:
        """Each query with each title, and whether that is right."""
        for place, query in enumerate(self.queries):
            for other, title in enumerate(self.titles):
                yield query, title, place == other


class OrderLog:
    """Draws groups to learn from, and groups of other pairs of words to judge by.

    A pair of words of the validation part or of the judgments is together in no text of the log,
    so what a pair is clicked for cannot be memorised; each of its words is learned in other pairs.

    Args:
        seed: of all that is drawn.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._pairs = {}
        for kind, words in WORDS.items():
            pairs = list(combinations(words, 2))
            mixed = [pairs[place] for place in self._random.permutation(len(pairs))]
            ends = np.rint(np.cumsum([*PARTS.values()]) * len(pairs)).astype(int)
            parts = zip(PARTS, (0, *ends), ends, strict=False)
            self._pairs[kind] = {part: mixed[start:end] for part, start, end in parts}

    def groups(self, kind: str, distance: int, number: int, part: str) -> Iterator[Group]:
        """Draws groups of one kind and distance.

        Args:
            kind: one of `KINDS`.
            distance: from a word that matters to the next, in words; 1 is side by side.
            number: of groups.
            part: of `PARTS`, whose pairs of words are drawn.
        """
        choices: Sequence[tuple[str, ...]] = self._pairs[kind][part]
        if kind == "topic":
            choices = [found for both in combinations(choices, 2) if (found := _shared(*both))]
        for place in self._random.integers(len(choices), size=number):
            words = choices[place]
            yield Group(self._texts(kind, distance, words), self._texts(kind, distance, words))

    def _texts(self, kind: str, distance: int, words: tuple[str, ...]) -> tuple[str, str]:
        """Two texts in the same noise, one of either meaning."""
        flip = bool(self._random.integers(2))
        both: list[tuple[str, ...]]
        if kind == "topic":
            common, *others = words
            both = [(other, common) if flip else (common, other) for other in others]
        elif kind == "negation":
            both = [(NOT, b, a) if flip else (a, NOT, b) for a, b in permutations(words)]
        else:
            both = list(permutations(words))
        before, after = (EDGE + self._random.integers(_JITTER, size=2)).tolist()
        gaps = [*[distance - 1] * (len(both[0]) - 1), after]
        lead = self._noise(before)
        noise = [self._noise(gap) for gap in gaps]

        def text(keys: tuple[str, ...]) -> str:
            rest = (word for key, gap in zip(keys, noise, strict=True) for word in (key, *gap))
            return " ".join([*lead, *rest])

        return text(both[0]), text(both[1])

    def _noise(self, number: int) -> list[str]:
        return [NOISE[place] for place in self._random.integers(len(NOISE), size=number)]


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The word that two different pairs share, then the two others; empty if they share none."""
    if common := set(one) & set(other):
        return (*common, *(set(one) - common), *(set(other) - common))
    return ()


def write_log(
    log: OrderLog,
    directory: Path,
    *,
    queries: int = 2000,
    share: float = 0.6,
    distances: Sequence[int] = (1, 2, 4, 8),
    judged: int = 100,
) -> None:
    """Writes `clicks.tsv`, and `judgments.tsv`, `validation.tsv` and `learned.tsv` to judge by.

    Each query was shown both titles of its group, and the right one was clicked. The log has all
    distances alike; of each kind and distance as many queries are judged, whatever `share` is.
    `learned.tsv` has queries of the log itself. A query's id is KIND-DISTANCE-NUMBER.

    Args:
        log: draws the groups.
        directory: where to write.
        queries: of the log, about.
        share: of them, those of `order` and of `negation` together; the others are of `topic`.
        distances: of the words that matter.
        judged: queries of each kind and distance, about.
    """
    each = queries / 2 / len(distances)
    of_order = int(share * each / 2)
    numbers = {"order": of_order, "negation": of_order, "topic": round(each) - 2 * of_order}
    groups = {
        (kind, distance): list(log.groups(kind, distance, number, LEARNED))
        for kind, number in numbers.items()
        for distance in distances
    }
    rows = (
        (query, title, str(int(right)), "1")
        for some in groups.values()
        for group in some
        for query, title, right in group.judged()
    )
    write_table(directory / "clicks.tsv", ("query", "title", "clicks", "impressions"), rows)
    for part in PARTS:
        judgments = []
        for kind, distance in groups:
            drawn = log.groups(kind, distance, judged // 2, part)
            if part == LEARNED:
                drawn = iter(groups[kind, distance][: judged // 2])
            for place, group in enumerate(drawn):
                ids = {text: 2 * place + i for side in group for i, text in enumerate(side)}
                judgments += [
                    Judgment(
                        f"{kind}-{distance}-{ids[query]}", query,
                        f"{kind}-{distance}-{ids[title]}", title, float(right),
                    )
                    for query, title, right in group.judged()
                ]  # fmt: skip
        write_judgments(directory / f"{part}.tsv", judgments)


def main(argv: Sequence[str] | None = None) -> None:
    """Writes a log and its judgments."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--share", type=float, default=0.6, help="of order and negation")
    parser.add_argument("--distances", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--judged", type=int, default=100, help="queries a kind and distance")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.out.exists():
        parser.error(f"--out: {options.out} exists; name a new directory")
    options.out.mkdir(parents=True)
    write_log(
        OrderLog(options.seed),
        options.out,
        queries=options.queries,
        share=options.share,
        distances=options.distances,
        judged=options.judged,
    )


if __name__ == "__main__":
    main()
