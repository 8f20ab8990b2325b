"""The log of the order experiment: who can be right about it, and who cannot."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest

from dssm_tf.order.log import EDGE, KINDS, NOISE, NOT, WORDS, OrderLog, write_log
from dssm_tf.order.trial import measured
from dssm_tf.tables.judgments import read_judgments
from dssm_tf.tables.reader import read_rows
from dssm_tf.text.letter_ngrams import letter_ngrams

DISTANCES = (1, 2, 5)
GROUPS = 40


def drawn(kind, distance=3, *, judged=False, seed=0):
    return list(OrderLog(seed).groups(kind, distance, GROUPS, judged=judged))


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


class Scorer:
    """A ranker by a function of two texts."""

    name = "scorer"

    def __init__(self, score):
        self._score = score

    def score(self, query, titles):
        return np.array([self._score(query, title) for title in titles], np.float32)

    def score_matrix(self, queries, titles):
        return np.stack([self.score(query, titles) for query in queries])


def bag(text):
    return Counter(gram for word in text.split() for gram in letter_ngrams(word))


def bag_of_trigrams(query, title):
    one, other = bag(query), bag(title)
    return sum(one[gram] * other[gram] for gram in one) / sum(other.values()) ** 0.5


def windows(text, words):
    """What a window of so many words sees of those that matter, and in which order."""
    half = words // 2
    tokens = [None] * half + text.split() + [None] * half
    cut = (tuple(tokens[i : i + words]) for i in range(len(tokens) - words + 1))
    noise = {*NOISE}
    return {tuple("." if word in noise else word for word in one) for one in cut}


@pytest.fixture
def judgments(tmp_path):
    write_log(OrderLog(5), tmp_path, queries=600, share=0.6, distances=DISTANCES, judged=40)
    return read_judgments(tmp_path / "judgments.tsv")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("judged", [False, True])
def test_a_title_is_right_when_it_means_what_the_query_means(kind, judged):
    for group in drawn(kind, judged=judged):
        for query, title, right in group.judged():
            assert (meaning(query, kind) == meaning(title, kind)) == right


@pytest.mark.parametrize("kind", ["order", "negation"])
def test_the_queries_of_a_group_have_one_bag_of_words_and_so_have_its_titles(kind):
    for group in drawn(kind):
        for first, second in group:
            assert first != second
            assert sorted(first.split()) == sorted(second.split())


def test_a_bag_of_trigrams_is_right_for_exactly_half_of_the_queries(judgments):
    found = measured(Scorer(bag_of_trigrams), judgments)
    for kind in ("order", "negation"):
        assert found[kind] == dict.fromkeys(DISTANCES, 0.5)


def test_titles_alone_are_right_for_exactly_half_of_the_queries_of_any_kind(judgments):
    found = measured(Scorer(lambda query, title: hash(title) % 1000), judgments)
    assert found == {kind: dict.fromkeys(DISTANCES, 0.5) for kind in KINDS}


def test_who_reads_the_meaning_is_always_right(judgments):
    def score(query, title):  # which may be another query's
        kind, other = (
            next(kind for kind in KINDS if of_kind(text, kind)) for text in (query, title)
        )
        return kind == other and meaning(query, kind) == meaning(title, kind)

    found = measured(Scorer(score), judgments)
    assert found == {kind: dict.fromkeys(DISTANCES, 1.0) for kind in KINDS}


@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
@pytest.mark.parametrize("queries", [160, 1016, 1018, 1999])
def test_a_log_has_about_as_many_queries_as_asked_for(tmp_path, queries, share):
    write_log(OrderLog(), tmp_path, queries=queries, share=share, distances=DISTANCES, judged=4)
    lines = (tmp_path / "clicks.tsv").read_text("utf-8").splitlines()[1:]
    # Two rows a query: one for each title that was shown.
    assert abs(len(lines) / 2 - queries) <= len(DISTANCES) * 2


@pytest.mark.parametrize("kind", ["order", "negation"])
@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_window_sees_order_up_to_one_word_less_than_its_width(kind, width):
    for distance in range(1, 8):
        for group in drawn(kind, distance):
            first, second = (windows(text, width) for text in group.titles)
            assert (first != second) == (distance < width)


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_that_matter_stand_the_distance_apart_and_far_from_the_ends(kind):
    for distance in DISTANCES:
        for group in drawn(kind, distance):
            for text in (*group.queries, *group.titles):
                tokens = text.split()
                at = [i for i, word in enumerate(tokens) if word not in NOISE]
                assert {b - a for a, b in pairwise(at)} == {distance}
                assert min(at[0], len(tokens) - 1 - at[-1]) >= EDGE


@pytest.mark.parametrize("kind", KINDS)
def test_judged_pairs_stand_together_in_no_text_of_the_training_and_their_words_do(kind):
    def pairs(judged):
        groups = OrderLog(1).groups(kind, 2, 3000, judged=judged)
        texts = (text for group in groups for side in group for text in side)
        return {frozenset(of_kind(text, kind)) for text in texts}

    learned, judged = pairs(False), pairs(True)
    assert not learned & judged
    assert {word for pair in learned for word in pair} == {*WORDS[kind]}
    assert len(learned | judged) == len(list(combinations(WORDS[kind], 2)))


def test_the_words_of_the_kinds_and_the_noise_are_all_different():
    every = [*NOISE, NOT, *(word for words in WORDS.values() for word in words)]
    assert len(every) == len(set(every))


def test_equal_seeds_give_equal_logs_and_others_do_not():
    assert drawn("negation", seed=3) == drawn("negation", seed=3)
    assert drawn("negation", seed=3) != drawn("negation", seed=4)


@pytest.mark.parametrize(("share", "expected"), [(0.2, 60), (0.6, 180), (1.0, 300)])
def test_the_share_is_that_of_order_and_of_negation_together(tmp_path, share, expected):
    write_log(OrderLog(), tmp_path, queries=600, share=share, distances=DISTANCES, judged=4)
    columns = ("query", "title", "clicks", "impressions")
    rows = [row for _, row in read_rows(tmp_path / "clicks.tsv", columns)]
    clicked = [query for query, _, clicks, _ in rows if clicks == "1"]
    assert len(rows) == 2 * len(clicked) == 1200
    for kind in ("order", "negation"):
        assert sum(bool(of_kind(query, kind)) for query in clicked) == expected
    assert sum(bool(of_kind(query, "topic")) for query in clicked) == 600 - 2 * expected
