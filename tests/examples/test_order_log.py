"""The log of the word order experiment: which titles are relevant, and what reveals it."""

from collections import Counter
from itertools import combinations

import pytest

from dssm_tf.tables.columns import unchanged
from dssm_tf.tables.judgments import read_judgments
from dssm_tf.tables.read import read
from examples.order_log import KINDS, NOISE, NOT, SPLITS, TRAIN, WORDS, OrderLog, write_log


def example_groups(kind, distance=3):
    return list(OrderLog().groups(kind, distance, 40, TRAIN))


def words_of_kind(text, kind):
    return [word for word in text.split() if word in WORDS[kind]]


def meaning(text, kind):
    """The meaning of a text, by an independent rule."""
    if kind == "order":
        return tuple(words_of_kind(text, kind))
    if kind == "topic":
        return frozenset(words_of_kind(text, kind))
    _, _, after = text.partition(f" {NOT} ")
    return words_of_kind(after, kind)[0], frozenset(words_of_kind(text, kind))


def windows(text, width):
    """All windows of `width` words over a text; noise words are replaced by `.`."""
    half = width // 2
    tokens = [None] * half + text.split() + [None] * half
    slices = (tuple(tokens[i : i + width]) for i in range(len(tokens) - width + 1))
    noise = {*NOISE}
    return {tuple("." if word in noise else word for word in window) for window in slices}


@pytest.mark.parametrize("kind", KINDS)
def test_a_title_is_relevant_if_it_has_the_meaning_of_the_query(kind):
    for group in example_groups(kind):
        for query, title, relevant in group.judged():
            assert (meaning(query, kind) == meaning(title, kind)) == relevant


def test_judgments_grade_titles_by_meaning_for_every_kind_and_distance(tmp_path):
    write_log(
        OrderLog(5), tmp_path, queries=600, order_fraction=0.6, distances=(1, 2, 5), judged=40
    )
    queries = set()
    for judgment in read_judgments(tmp_path / "judgments.tsv"):
        kind = judgment.query_id.split("-")[0]
        same = meaning(judgment.query, kind) == meaning(judgment.title, kind)
        assert same == judgment.grade
        queries.add(judgment.query_id)
    counts = Counter(query.rpartition("-")[0] for query in queries)
    assert counts == {f"{kind}-{distance}": 40 for kind in KINDS for distance in (1, 2, 5)}


@pytest.mark.parametrize("kind", ["order", "negation"])
def test_both_queries_and_both_titles_of_a_group_have_the_same_bag_of_words(kind):
    for group in example_groups(kind):
        for first, second in group:
            assert first != second
            assert Counter(first.split()) == Counter(second.split())


@pytest.mark.parametrize("kind", ["order", "negation"])
@pytest.mark.parametrize("width", [1, 3, 5])
def test_windows_differ_if_the_distance_is_below_their_width(kind, width):
    for distance in range(1, 8):
        for group in example_groups(kind, distance):
            first, second = (windows(text, width) for text in group.titles)
            assert (first != second) == (distance < width)


@pytest.mark.parametrize("kind", KINDS)
def test_word_pairs_of_the_splits_are_disjoint_but_every_word_is_in_training(kind):
    def pairs(split):
        groups = OrderLog(1).groups(kind, 2, 3000, split)
        texts = (text for group in groups for side in group for text in side)
        return {frozenset(words_of_kind(text, kind)) for text in texts}

    train, *others = map(pairs, SPLITS)
    assert not train & set.union(*others)
    assert not set.intersection(*others)
    assert {word for pair in train for word in pair} == {*WORDS[kind]}
    assert len(train.union(*others)) == len(list(combinations(WORDS[kind], 2)))


@pytest.mark.parametrize(("order_fraction", "expected"), [(0.2, 60), (0.6, 180), (1.0, 300)])
def test_order_fraction_covers_order_and_negation_together(tmp_path, order_fraction, expected):
    write_log(
        OrderLog(),
        tmp_path,
        queries=600,
        order_fraction=order_fraction,
        distances=(1, 2, 5),
        judged=4,
    )
    columns = ("query", "title", "clicks", "impressions")
    rows = read(tmp_path / "clicks.tsv", [*map(unchanged, columns)]).select(columns).rows()
    clicked = [query for query, _, clicks, _ in rows if clicks == "1"]
    assert len(rows) == 2 * len(clicked) == 1200
    counts = Counter(kind for query in clicked for kind in KINDS if words_of_kind(query, kind))
    assert counts == Counter(order=expected, negation=expected, topic=600 - 2 * expected)
