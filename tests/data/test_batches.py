"""Batches equal the rules in plain Python, repeat by seed, and are divided among workers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.data.texts import BatchShapes, LengthGroup, TextShape
from dssm_tf.losses import ClickSoftmax
from tests.clicks import all_candidates, full_labels
from tests.data.click_batches import (
    FOXES,
    LOG,
    SIZE,
    WORDS,
    Click,
    batches,
    rows,
    steps,
    tensors,
    text,
)


def test_negatives_are_recorded_titles_and_clicked_titles_of_other_queries():
    red, fox, owl = rows(FOXES)
    assert [row.clicked for row in (red, fox, owl)] == [
        text("red fox"), text("red fox"), text("green owl")
    ]  # fmt: skip
    # green owl is recorded once, and clicked once in the batch: 1 + 1.
    assert red.negatives == {text("green owl"): approx(2), text("fish"): approx(1)}
    # Elsewhere in the log `green owl` was clicked for `fox`, so it is not a negative.
    assert fox.negatives == {text("bear"): approx(1), text("fish"): approx(1)}
    # `red fox` was clicked in two rows, so it counts twice: exp(log 2).
    assert owl.negatives == {text("bear"): approx(1), text("red fox"): approx(2)}


def test_rows_with_the_same_query_have_no_title_that_it_clicked_as_a_negative():
    clicks = [Click("red", "red fox"), Click("owl", "fish"), Click("red", "green owl")]
    first, other, second = rows(clicks)
    assert (first.clicked, second.clicked) == (text("red fox"), text("green owl"))
    assert first.negatives == second.negatives == {text("fish"): approx(1)}
    assert other.negatives == {text("red fox"): approx(1), text("green owl"): approx(1)}
    inputs, _ = tensors(clicks)
    tokens = inputs["query"]["tokens"].numpy()
    assert tokens[0] == tokens[2] != tokens[1]


def test_a_batch_encodes_each_title_and_word_once_and_adds_only_clicked_titles_as_columns():
    # Two of four distinct titles are clicked: 1 + 4 of each record, and 2 in the batch.
    inputs, labels = tensors(FOXES)
    assert all_candidates(inputs).shape == labels["mask"].shape == (3, 5 + 2)
    # Fixed shapes, for compiled programs, have one column per row.
    fixed, _ = tensors(FOXES, shapes=BatchShapes(distinct_titles=20))
    assert all_candidates(fixed).shape == (3, 5 + 3)
    titles = [tuple(row) for row in inputs["titles"]["tokens"].numpy()]
    assert len(titles) == len(set(titles)) == len({"red fox", "green owl", "fish", "bear"})
    words = [tuple(row) for row in inputs["titles"]["word_ngrams"].numpy()]
    assert len(words) == len(set(words)) == 1 + len(WORDS)
    assert not any(words[0])
    assert inputs["query"]["word_ngrams"].shape[0] == 1 + len({"red", "fox", "owl"})


def test_a_single_click_without_negatives_has_no_other_candidate_and_no_loss():
    inputs, labels = tensors([Click("red", "red fox")])
    shape = all_candidates(inputs).shape
    assert float(ClickSoftmax()(labels, tf.ones(shape))) == 0.0
    assert {label.shape for label in full_labels(labels)} == {shape}


def test_a_batch_of_empty_texts_still_has_a_column_and_a_row():
    inputs, _ = tensors([Click("", ""), Click("", "")])
    assert inputs["query"]["tokens"].shape == (2, 1)
    assert inputs["titles"]["tokens"].shape == (1, 1)
    assert inputs["titles"]["word_ngrams"].shape == (1, 1)


# -------------------------------------------------------------------------------- random logs

texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
few_texts = st.lists(texts, max_size=3, unique=True).map(tuple)
clicks = st.builds(Click, texts, texts, few_texts, few_texts, st.just(1.0))


def clicked_titles(log: list[Click]) -> dict[str, set[str]]:
    """All titles that were clicked for each query."""
    titles: dict[str, set[str]] = {}
    for click in log:
        titles.setdefault(click.query, set()).update((click.title, *click.clicked))
    return titles


def without_clicked_negatives(log: list[Click]) -> list[Click]:
    """Drops recorded negatives that the query clicked, which preprocess never draws."""
    clicked = clicked_titles(log)
    return [
        click._replace(
            negatives=tuple(title for title in click.negatives if title not in clicked[click.query])
        )
        for click in log
    ]


def expected_rows(step: list[Click], log: list[Click], in_batch: bool):
    """(query, clicked title, negatives) of each row of a step, by the rules."""
    clicked = clicked_titles(log)
    for click in step:
        negatives = [*click.negatives]
        if in_batch:
            negatives += [other.title for other in step if other.title not in clicked[click.query]]
        yield text(click.query), text(click.title), Counter(map(text, negatives))


@st.composite
def length_groups(draw, longest: int) -> tuple[LengthGroup, ...]:
    """Length groups of increasing width, all with padded rows or none."""
    widths = draw(st.lists(st.integers(1, longest), max_size=3, unique=True))
    row_count = draw(st.sampled_from([0, 2, 9]))
    return tuple(LengthGroup(width, row_count) for width in sorted(widths))


text_shapes = st.builds(TextShape, length_groups(4), length_groups(6))
shapes_by_name = st.fixed_dictionaries(dict.fromkeys(("query", "titles", "texts"), text_shapes))
shapes = st.builds(BatchShapes, shapes_by_name, st.sampled_from([0, 3, 20]))


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(
    log=st.lists(clicks, min_size=1, max_size=6).map(without_clicked_negatives),
    size=st.integers(1, 6),
    in_batch=st.booleans(),
    joint=st.booleans(),
    shape=shapes,
)
def test_an_epoch_equals_the_rules_in_plain_python(log, size, in_batch, joint, shape):
    log_batches = batches(log, size, shape, negatives=3, in_batch=in_batch, joint=joint)
    epoch = steps(log_batches.epochs(None, 0, 1))
    assert len(epoch) == log_batches.steps == -(-len(log) // size)
    for index, step in enumerate(epoch):
        clicks_of_step = log[index * size : (index + 1) * size]
        padding = size - len(clicks_of_step)
        assert [row.weight > 0 for row in step] == [True] * len(clicks_of_step) + [False] * padding
        expected = expected_rows(clicks_of_step, log, in_batch)
        for row, (query, title, negatives) in zip(step, expected, strict=False):
            assert (row.query, row.clicked, row.clicked_weight) == (query, title, 1.0)
            assert row.negatives == {
                key: approx(value, rel=1e-5) for key, value in negatives.items()
            }


# -------------------------------------------------------------------------------- whole epochs


def pairs(epoch) -> list:
    """(query, clicked title) of every row that counts."""
    return [(row.query, row.clicked) for step in epoch for row in step if row.weight > 0]


ALL_PAIRS = [(text(click.query), text(click.title)) for click in LOG]


def test_the_order_of_an_epoch_depends_on_the_seed_and_the_epoch():
    shuffled, unshuffled = batches(LOG, SIZE), batches(LOG, SIZE)
    count = shuffled.steps
    three_epochs = steps(shuffled.epochs(seed=1, start=0, stop=3))
    epochs = [pairs(three_epochs[i * count : (i + 1) * count]) for i in range(3)]
    assert all(Counter(epoch) == Counter(ALL_PAIRS) for epoch in epochs)
    assert all(a != b for a, b in pairwise(epochs))
    assert pairs(steps(shuffled.epochs(seed=2, start=0, stop=1))) != epochs[0]
    assert pairs(steps(unshuffled.epochs(None, 0, 1))) == ALL_PAIRS


MINED = {click.query: [other.title for other in LOG if other.title != click.title] for click in LOG}


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"fresh": 2}, {"mined": MINED, "mined_count": 1}])
def test_a_run_resumes_at_any_step_as_if_it_had_not_stopped(options):
    resumable = batches(LOG, SIZE, draw_probabilities=uniform_probabilities(LOG), **options)
    uninterrupted = steps(resumable.epochs(5, 0, 3))
    count = resumable.steps
    for done in (1, count, count + 2, 3 * count - 1):
        start, step = divmod(done, count)
        assert steps(resumable.epochs(5, start, 3, step=step)) == uninterrupted[done:]


def uniform_probabilities(log) -> np.ndarray:
    """Equal probabilities of all titles."""
    titles = batches(log).texts
    count = int(titles.words.nrows()) - titles.first_title
    return np.full(count, 1 / count)


@pytest.mark.parametrize(("workers", "replicas"), [(2, 1), (1, 2), (2, 2)])
def test_the_batches_of_all_replicas_together_are_the_batch_of_one_process(workers, replicas):
    log_batches = batches(
        LOG, SIZE, in_batch=False, fresh=2, draw_probabilities=uniform_probabilities(LOG)
    )
    expected = steps(log_batches.epochs(7, 0, 1))
    by_worker = [
        steps(log_batches.epochs(7, 0, 1, worker, workers, replicas)) for worker in range(workers)
    ]
    assert all(len(elements) == log_batches.steps * replicas for elements in by_worker)
    joined = [
        [
            row
            for elements in by_worker
            for replica in range(replicas)
            for row in elements[step * replicas + replica]
        ]
        for step in range(log_batches.steps)
    ]
    assert joined == expected


def test_weights_have_a_mean_of_1_counting_the_padding_rows_of_the_last_step():
    epoch = steps(batches(LOG, SIZE).epochs(None, 0, 1))
    weights = [row.weight for step in epoch for row in step]
    assert np.mean(weights) == approx(1, rel=1e-5)
    raw = [click.weight for click in LOG]
    assert np.divide(weights[: len(raw)], weights[0]) == approx(np.divide(raw, raw[0]))
    assert not any(weights[len(raw) :])


def test_sources_alternate_evenly_and_each_has_its_mean_weight():
    clicks_only = batches(LOG, SIZE)
    (clicks,) = clicks_only.sources
    judged = clicks["train"]._replace(
        source=1,
        batch_size=4,
        mean_weight=0.25,
        targets=np.zeros(clicks["train"].titles.shape, np.float32),
    )
    both = replace(clicks_only, sources=(clicks, {"train": judged, "validation": judged}))
    weights, turns = {0: [], 1: []}, []
    for _, labels, weights_of_step in both.epochs(0, 0, 2):
        turns.append(int(labels["source"][0]))
        weights[turns[-1]] += weights_of_step.numpy().tolist()
    assert len(turns) == 2 * both.steps
    assert Counter(turns[: both.steps]) == {0: clicks_only.steps, 1: -(-len(LOG) // 4)}
    for start in range(0, 2 * both.steps - 6, 6):
        assert 1 <= turns[start : start + 6].count(0) <= 3  # a third of them
    assert turns == turns[::-1]
    assert (np.mean(weights[0]), np.mean(weights[1])) == (approx(1), approx(0.25))
    assert both.validation().rows[0].source == 1
    assert clicks_only.validation() is None


def test_fresh_negatives_are_drawn_by_their_weights_and_never_clicked():
    log = [click._replace(negatives=()) for click in LOG[:12]]
    count = len(uniform_probabilities(log))
    probabilities = np.linspace(1, 3, count) / np.linspace(1, 3, count).sum()
    log_batches = batches(log, 12, in_batch=False, fresh=3, draw_probabilities=probabilities)
    times_drawn = Counter()
    for step in steps(log_batches.epochs(0, 0, 200)):
        for row in step:
            assert row.clicked not in row.negatives
            assert sum(row.negatives.values()) <= 3 + 1e-5
            times_drawn.update({key: round(times) for key, times in row.negatives.items()})
    titles = list(dict.fromkeys(text(click.title) for click in log))
    assert set(times_drawn) <= set(titles)
    # The last title is drawn three times as often as the first; 100 draws vary by a tenth.
    ratio = times_drawn[titles[-1]] / times_drawn[titles[0]]
    assert 2 < ratio < 4.5


def test_each_epoch_draws_from_the_mined_negatives_of_the_query_without_clicked_titles():
    mined = {"red": ("bear", "fish", "green owl", "red fox"), "owl": ("bear",)}
    log = [click._replace(negatives=()) for click in FOXES]
    log_batches = batches(log, more=("bear", "fish"), in_batch=False, mined=mined, mined_count=2)
    times_drawn = Counter()
    for step in steps(log_batches.epochs(0, 0, 30)):
        by_query = {row.query: row.negatives for row in step}
        assert by_query[text("fox")] == {}
        assert by_query[text("owl")] == {text("bear"): approx(1)}
        assert len(by_query[text("red")]) == 2
        times_drawn.update(by_query[text("red")])
    # Never the clicked title, though it is in the table; the other three equally often.
    assert set(times_drawn) == {text(title) for title in ("bear", "fish", "green owl")}
    assert min(times_drawn.values()) > 8
