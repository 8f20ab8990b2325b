"""The log of the order experiment: who can be right about it, and who cannot."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from dssm_tf import load
from dssm_tf.cli import main
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.tables.judgments import read_judgments
from dssm_tf.tables.reader import read_rows
from dssm_tf.text.letter_ngrams import letter_ngrams
from examples.order_log import (
    KINDS,
    LEARNED,
    NOISE,
    NOT,
    PARTS,
    WORDS,
    OrderLog,
    write_log,
)

DISTANCES = (1, 2, 5)
GROUPS = 40


def drawn(kind, distance=3, *, part=LEARNED, seed=0):
    return list(OrderLog(seed).groups(kind, distance, GROUPS, part))


def measured(ranker, judgments):
    """Mean NDCG@1 by kind and distance, which the queries' ids say."""
    found = evaluate({"scorer": ranker}, judgments, metrics=["ndcg@1"])
    of = {}
    for query, value in zip(found.task.query_ids, found.values["scorer"]["ndcg@1"], strict=True):
        kind, distance, _ = query.split("-")
        of.setdefault(kind, {}).setdefault(int(distance), []).append(value)
    return {kind: {at: np.mean(row) for at, row in rows.items()} for kind, rows in of.items()}


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
@pytest.mark.parametrize("part", PARTS)
def test_a_title_is_right_when_it_means_what_the_query_means(kind, part):
    for group in drawn(kind, part=part):
        for query, title, right in group.judged():
            assert (meaning(query, kind) == meaning(title, kind)) == right


def test_a_bag_of_trigrams_is_right_for_exactly_half_of_the_queries(judgments):
    found = measured(Scorer(bag_of_trigrams), judgments)
    for kind in ("order", "negation"):
        assert found[kind] == dict.fromkeys(DISTANCES, 0.5)


def test_who_reads_the_meaning_is_always_right(judgments):
    def score(query, title):  # which may be another query's
        kind, other = (
            next(kind for kind in KINDS if of_kind(text, kind)) for text in (query, title)
        )
        return kind == other and meaning(query, kind) == meaning(title, kind)

    found = measured(Scorer(score), judgments)
    assert found == {kind: dict.fromkeys(DISTANCES, 1.0) for kind in KINDS}


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
    write_log(OrderLog(), tmp_path, queries=600, share=share, distances=DISTANCES, judged=4)
    columns = ("query", "title", "clicks", "impressions")
    rows = [row for _, row in read_rows(tmp_path / "clicks.tsv", columns)]
    clicked = [query for query, _, clicks, _ in rows if clicks == "1"]
    assert len(rows) == 2 * len(clicked) == 1200
    for kind in ("order", "negation"):
        assert sum(bool(of_kind(query, kind)) for query in clicked) == expected
    assert sum(bool(of_kind(query, "topic")) for query in clicked) == 600 - 2 * expected


@pytest.mark.slow
def test_a_bag_of_words_trains_on_the_log_and_stays_at_chance_where_order_decides(tmp_path):
    """As a reader runs it."""
    log, data, run = (str(tmp_path / name) for name in ("log", "data", "run"))
    command = [sys.executable, "examples/order_log.py", "--out", log, "--queries", "400"]
    subprocess.run([*command, "--distances", "2", "--judged", "200"], check=True)
    clicks, judgments = f"{log}/clicks.tsv", f"{log}/judgments.tsv"
    negatives = ["--negatives", "1", "--negatives-from", "impressions"]
    assert main(["preprocess", "--input", clicks, "--output", data, *negatives]) == 0
    changes = ["negatives.recorded=1", "negatives.in_batch=false", "training.epochs=6"]
    changes += ["optimizer.learning_rate=0.01", "tower.dropout=0", "ranking.prior=0"]
    settings = [word for change in changes for word in ("--set", change)]
    assert main(["train", "--config", "dssm", "--data", data, "--out", run, *settings]) == 0
    found = measured(load(run), read_judgments(judgments))
    # Equal bags have equal vectors but for the rounding of a sum, which tosses a coin: of 200 the
    # share of heads has a standard deviation of .035.
    assert 0.3 <= found["order"][2] <= 0.7
    assert 0.3 <= found["negation"][2] <= 0.7
    assert found["topic"][2] >= 0.8
