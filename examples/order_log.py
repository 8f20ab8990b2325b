r"""Makes a click log in which word order, a distant negation, or a topic decides relevance.

    python examples/order_log.py --out ORDER
    dssm preprocess --input ORDER/clicks.tsv --negatives 1 --negatives-from impressions --output D
    dssm train --config lstm --data D --out R \
        --set negatives.recorded=1 --set negatives.in_batch=false
    dssm evaluate --model R --judgments ORDER/judgments.tsv --out EVALUATION

Texts come in groups of two queries and two titles. Each title is relevant for one of the queries
and irrelevant for the other, so a title's popularity gives no information. The words that matter
are a given distance apart. The other words are noise from one distribution:

    order     oslo .. rome        against  rome .. oslo
    negation  pool .. not .. spa  against  spa .. not .. pool
    topic     opera .. canal      against  opera .. ruins

`not` negates the next word that matters. A title is relevant if it negates the same word, before or
after the other one. In `order` and `negation`, the two queries have the same bag of words, and so
have the two titles. A model that ignores order is therefore right for exactly one query of a group.
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
"""Minimum number of noise words on either side, so that a window of five never reaches an edge."""

TRAIN, VALIDATION, TEST = "train", "validation", "judgments"
SPLITS = {TRAIN: 0.6, VALIDATION: 0.2, TEST: 0.2}
"""Fractions of the word pairs of each kind. Files are named after the splits."""
_JITTER = 3  # 0 to 2 more noise words on either side, so that positions give no information


class Group(NamedTuple):
    """Two queries and two titles; `titles[i]` is relevant for `queries[i]` only."""

    queries: tuple[str, str]
    titles: tuple[str, str]

    def judged(self) -> Iterator[tuple[str, str, bool]]:
        """Yields each query with each title, and whether the title is relevant."""
        for i, query in enumerate(self.queries):
            for j, title in enumerate(self.titles):
                yield query, title, i == j


class OrderLog:
    """Draws groups for training, and groups of other word pairs for validation and test.

    No text of the log contains both words of a validation or test pair, so the pairs cannot be
    memorized. Each of their words occurs in the log in other pairs.

    Args:
        seed: random seed.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._pairs = {}
        for kind, words in WORDS.items():
            pairs = list(combinations(words, 2))
            shuffled = [pairs[index] for index in self._random.permutation(len(pairs))]
            ends = np.rint(np.cumsum([*SPLITS.values()]) * len(pairs)).astype(int)
            ranges = zip(SPLITS, (0, *ends), ends, strict=False)
            self._pairs[kind] = {split: shuffled[start:end] for split, start, end in ranges}

    def groups(self, kind: str, distance: int, count: int, split: str) -> Iterator[Group]:
        """Draws groups of one kind and distance.

        Args:
            kind: one of `KINDS`.
            distance: distance between the words that matter, in words; 1 means adjacent.
            count: number of groups.
            split: one of `SPLITS`, whose word pairs are drawn.
        """
        choices: Sequence[tuple[str, ...]] = self._pairs[kind][split]
        if kind == "topic":
            candidates = (_common_word_first(a, b) for a, b in combinations(choices, 2))
            choices = [words for words in candidates if words]
        for index in self._random.integers(len(choices), size=count):
            words = choices[index]
            yield Group(self._texts(kind, distance, words), self._texts(kind, distance, words))

    def _texts(self, kind: str, distance: int, words: tuple[str, ...]) -> tuple[str, str]:
        """Two texts with the same noise, one per meaning."""
        flip = bool(self._random.integers(2))
        meanings: list[tuple[str, ...]]
        if kind == "topic":
            common, *others = words
            meanings = [(other, common) if flip else (common, other) for other in others]
        elif kind == "negation":
            meanings = [(NOT, b, a) if flip else (a, NOT, b) for a, b in permutations(words)]
        else:
            meanings = list(permutations(words))
        before, after = (EDGE + self._random.integers(_JITTER, size=2)).tolist()
        gaps = [*[distance - 1] * (len(meanings[0]) - 1), after]
        lead = self._noise(before)
        noise = [self._noise(gap) for gap in gaps]

        def text(keys: tuple[str, ...]) -> str:
            rest = (word for key, gap in zip(keys, noise, strict=True) for word in (key, *gap))
            return " ".join([*lead, *rest])

        return text(meanings[0]), text(meanings[1])

    def _noise(self, count: int) -> list[str]:
        return [NOISE[index] for index in self._random.integers(len(NOISE), size=count)]


def _common_word_first(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    """The common word of two different pairs, then the two others; empty if there is none."""
    if common := set(a) & set(b):
        return (*common, *(set(a) - common), *(set(b) - common))
    return ()


def write_log(
    log: OrderLog,
    directory: Path,
    *,
    queries: int = 2000,
    order_fraction: float = 0.6,
    distances: Sequence[int] = (1, 2, 4, 8),
    judged: int = 100,
) -> None:
    """Writes `clicks.tsv`, and the judgments `judgments.tsv`, `validation.tsv` and `train.tsv`.

    Each query has an impression of both titles of its group, and a click on the relevant one. The
    log has equally many queries of each distance. The judgments have equally many queries of each
    kind and distance. Queries of `train.tsv` are from the log. Query ids are KIND-DISTANCE-NUMBER.

    Args:
        log: draws the groups.
        directory: directory to write into.
        queries: approximate number of queries in the log.
        order_fraction: fraction of `order` and `negation` queries together; the rest are `topic`.
        distances: distances of the words that matter.
        judged: approximate number of judged queries per kind and distance.
    """
    per_distance = queries / 2 / len(distances)
    order_groups = int(order_fraction * per_distance / 2)
    counts = {
        "order": order_groups,
        "negation": order_groups,
        "topic": round(per_distance) - 2 * order_groups,
    }
    groups = {
        (kind, distance): list(log.groups(kind, distance, count, TRAIN))
        for kind, count in counts.items()
        for distance in distances
    }
    rows = (
        (query, title, str(int(relevant)), "1")
        for kind_groups in groups.values()
        for group in kind_groups
        for query, title, relevant in group.judged()
    )
    write_table(directory / "clicks.tsv", ("query", "title", "clicks", "impressions"), rows)
    for split in SPLITS:
        judgments = []
        for kind, distance in groups:
            split_groups = log.groups(kind, distance, judged // 2, split)
            if split == TRAIN:
                split_groups = iter(groups[kind, distance][: judged // 2])
            for number, group in enumerate(split_groups):
                ids = {text: 2 * number + i for side in group for i, text in enumerate(side)}
                judgments += [
                    Judgment(
                        f"{kind}-{distance}-{ids[query]}", query,
                        f"{kind}-{distance}-{ids[title]}", title, float(relevant),
                    )
                    for query, title, relevant in group.judged()
                ]  # fmt: skip
        write_judgments(directory / f"{split}.tsv", judgments)


def main(argv: Sequence[str] | None = None) -> None:
    """Writes a log and its judgments."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument(
        "--order-fraction",
        type=float,
        default=0.6,
        metavar="FRACTION",
        help="fraction of order and negation queries",
    )
    parser.add_argument("--distances", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument(
        "--judged", type=int, default=100, help="judged queries per kind and distance"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.out.exists():
        parser.error(f"--out: {options.out} exists; name a new directory")
    options.out.mkdir(parents=True)
    write_log(
        OrderLog(options.seed),
        options.out,
        queries=options.queries,
        order_fraction=options.order_fraction,
        distances=options.distances,
        judged=options.judged,
    )


if __name__ == "__main__":
    main()
