"""The log of the order experiment: who can be right about it, and who cannot."""

from collections import Counter
from itertools import combinations

import pytest

from dssm_tf.tables.columns import raw
from dssm_tf.tables.judgments import read_judgments
from dssm_tf.tables.read import read
from examples.order_log import KINDS, LEARNED, NOISE, NOT, PARTS, WORDS, OrderLog, write_log


def drawn(kind, distance=3):
    return list(OrderLog().groups(kind, distance, 40, LEARNED))


def of_kind(text, kind):
    return [word for word in text.split() if word in WORDS[kind]]


def meaning(text, kind):
    """What a text asks for, by a rule of its own."""
    if kind == "order":
        return tuple(of_kind(text, kind))
    if kind == "topic":
        return frozenset(of_kind(text, kind))
    _, _, after = text.partition(f" {NOT} ")
    return of_kind(after, kind)[0], frozenset(of_kind(text, kind))


def windows(text, words):
    """What a window of so many words sees of those that matter, and in which order."""
    half = words // 2
    tokens = [None] * half + text.split() + [None] * half
    cut = (tuple(tokens[i : i + words]) for i in range(len(tokens) - words + 1))
    noise = {*NOISE}
    return {tuple("." if word in noise else word for word in one) for one in cut}


@pytest.mark.parametrize("kind", KINDS)
def test_a_title_is_right_when_it_means_what_the_query_means(kind):
    for group in drawn(kind):
        for query, title, right in group.judged():
            assert (meaning(query, kind) == meaning(title, kind)) == right


def test_judgments_of_every_kind_and_distance_say_which_title_is_right(tmp_path):
    write_log(OrderLog(5), tmp_path, queries=600, share=0.6, distances=(1, 2, 5), judged=40)
    queries = set()
    for one in read_judgments(tmp_path / "judgments.tsv"):
        kind = one.query_id.split("-")[0]
        assert (meaning(one.query, kind) == meaning(one.title, kind)) == one.grade
        queries.add(one.query_id)
    found = Counter(query.rpartition("-")[0] for query in queries)
    assert found == {f"{kind}-{distance}": 40 for kind in KINDS for distance in (1, 2, 5)}


@pytest.mark.parametrize("kind", ["order", "negation"])
def test_both_texts_of_a_side_have_one_bag_of_words_so_it_is_right_for_half_of_them(kind):
    for group in drawn(kind):
        for one, other in group:
            assert one != other
            assert Counter(one.split()) == Counter(other.split())


@pytest.mark.parametrize("kind", ["order", "negation"])
@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_window_sees_order_up_to_one_word_less_than_its_width(kind, width):
    for distance in range(1, 8):
        for group in drawn(kind, distance):
            first, second = (windows(text, width) for text in group.titles)
            assert (first != second) == (distance < width)


@pytest.mark.parametrize("kind", KINDS)
def test_judged_pairs_stand_together_in_no_text_of_the_training_and_their_words_do(kind):
    def pairs(part):
        groups = OrderLog(1).groups(kind, 2, 3000, part)
        texts = (text for group in groups for side in group for text in side)
        return {frozenset(of_kind(text, kind)) for text in texts}

    learned, *others = map(pairs, PARTS)
    assert not learned & set.union(*others)
    assert not set.intersection(*others)
    assert {word for pair in learned for word in pair} == {*WORDS[kind]}
    assert len(learned.union(*others)) == len(list(combinations(WORDS[kind], 2)))


@pytest.mark.parametrize(("share", "expected"), [(0.2, 60), (0.6, 180), (1.0, 300)])
def test_the_share_is_that_of_order_and_of_negation_together(tmp_path, share, expected):
    write_log(OrderLog(), tmp_path, queries=600, share=share, distances=(1, 2, 5), judged=4)
    columns = ("query", "title", "clicks", "impressions")
    rows = read(tmp_path / "clicks.tsv", [*map(raw, columns)]).select(columns).rows()
    clicked = [query for query, _, clicks, _ in rows if clicks == "1"]
    assert len(rows) == 2 * len(clicked) == 1200
    found = Counter(kind for query in clicked for kind in KINDS if of_kind(query, kind))
    assert found == Counter(order=expected, negation=expected, topic=600 - 2 * expected)
