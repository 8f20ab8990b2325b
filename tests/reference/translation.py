"""Word and phrase translation models, one pair and one word at a time, in float64.

Texts are lists of words. Tables are dicts: `table[source word][target word]`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

Text = Sequence[str]
Table = dict[str, dict[str, float]]
Pair = tuple[Text, Text, float]
EMPTY = ""


def ibm1(pairs: Sequence[Pair], iterations: int, empty_word: bool) -> tuple[Table, list[float]]:
    """Brown et al. 1993: the table after EM, and the likelihood before and after each step.

    Args:
        pairs: source, target and weight.
        iterations: steps of EM.
        empty_word: whether every source also has the empty word.
    """
    pairs = [([*source, EMPTY] if empty_word else source, target, c) for source, target, c in pairs]
    words = {word for source, target, _ in pairs for word in [*source, *target]} - {EMPTY}
    table: Table = {
        e: dict.fromkeys(words, 1 / len(words)) for source, _, _ in pairs for e in source
    }
    likelihoods = []
    for step in range(iterations + 1):
        expected: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        likelihood = 0.0
        for source, target, weight in pairs:
            for f in target:
                mass = sum(table[e].get(f, 0.0) for e in source)
                likelihood += weight * math.log(mass / len(source))
                for e in source:
                    expected[e][f] += weight * table[e].get(f, 0.0) / mass
        likelihoods.append(likelihood / sum(weight for *_, weight in pairs))
        if step < iterations:
            table = {
                e: {f: count / sum(row.values()) for f, count in row.items()}
                for e, row in expected.items()
            }
    return table, likelihoods


def symmetrize(
    query_links: set[tuple[int, int]], title_links: set[tuple[int, int]]
) -> set[tuple[int, int]]:
    """Koehn, Och and Marcu 2003: grow-diag-final-and, over (query position, title position)."""
    links, either = query_links & title_links, query_links | title_links

    def without_link(j: int, i: int) -> tuple[bool, bool]:
        return all(a != j for a, _ in links), all(b != i for _, b in links)

    grown = True
    while grown:
        grown = False
        for j, i in sorted(either - links):
            touches = any((j + a, i + b) in links for a, b in product((-1, 0, 1), repeat=2))
            if touches and any(without_link(j, i)):
                links = links | {(j, i)}
                grown = True
    for j, i in sorted(either - links):
        if all(without_link(j, i)):
            links = links | {(j, i)}
    return links


def bi_phrases(
    query: Text, title: Text, links: set[tuple[int, int]], longest: int
) -> list[tuple[str, str]]:
    """Och, Tillmann and Ney 1999: all pairs of spans that have a link and that no link leaves."""
    phrases = []
    for j1, j2 in spans(len(query), longest):
        for i1, i2 in spans(len(title), longest):
            inside = [(j, i) for j, i in links if j1 <= j < j2 and i1 <= i < i2]
            touching = [(j, i) for j, i in links if j1 <= j < j2 or i1 <= i < i2]
            if inside and len(inside) == len(touching):
                phrases.append((" ".join(query[j1:j2]), " ".join(title[i1:i2])))
    return sorted(phrases)


def spans(length: int, longest: int) -> Iterator[tuple[int, int]]:
    """Starts and ends of all spans of up to `longest` words."""
    for start in range(length):
        for end in range(start + 1, min(start + longest, length) + 1):
            yield start, end


def mixed(word: str, title: Text, table: Table, self_weight: float) -> float:
    """P_mx(q | D): a mixture of the word's fraction of the title and of its translations."""
    fraction = list(title).count(word) / len(title)
    translated = sum(table.get(w, {}).get(word, 0.0) for w in title) / len(title)
    return self_weight * fraction + (1 - self_weight) * translated


def segmentations(query: Text, longest: int) -> Iterator[list[str]]:
    """All ways to split a query into phrases of up to `longest` words."""
    if not query:
        yield []
    for length in range(1, min(longest, len(query)) + 1):
        for rest in segmentations(query[length:], longest):
            yield [" ".join(query[:length]), *rest]


def phrase_likelihood(
    query: Text,
    title: Text,
    table: Table,
    phrases: Table,
    background: dict[str, float],
    *,
    mu: float,
    self_weight: float,
    phrase_fraction: float,
    longest: int,
) -> float:
    """log P_pt(Q | D) by trying every segmentation; see `dssm_tf.baselines.ptm`."""
    s = mu / (len(title) + mu)
    title_phrases = [" ".join(title[a:b]) for a, b in spans(len(title), longest)]

    def probability(phrase: str) -> float:
        of_phrases = sum(phrases.get(w, {}).get(phrase, 0.0) for w in title_phrases)
        total = (1 - s) * phrase_fraction * of_phrases / max(len(title_phrases), 1)
        if " " not in phrase:
            of_words = mixed(phrase, title, table, self_weight) if title else 0.0
            total += (1 - s) * (1 - phrase_fraction) * of_words + s * background[phrase]
        return total

    return max(
        sum(math.log(p) if p > 0 else -math.inf for p in map(probability, phrases_of_query))
        for phrases_of_query in segmentations(query, longest)
    )
