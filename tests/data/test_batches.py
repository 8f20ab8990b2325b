"""Batches: by the rules in plain Python, whole, in a reproducible order, cut among workers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.data.batches import Batches
from dssm_tf.data.rows import Rows
from dssm_tf.data.texts import Part, Shapes, Texts, TextShape
from dssm_tf.losses import ClickSoftmax
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from tests.clicks import Row, rows_of

WORDS = ("red", "fox", "green", "owl", "bear", "fish")
NGRAMS = dict.fromkeys(ngram for word in WORDS for ngram in letter_ngrams(word))
VOCABULARY = Vocabulary(NGRAMS, FOLDED)


class Click(NamedTuple):
    """A pair with its negatives, and what else was clicked for the query."""

    query: str
    title: str
    negatives: tuple[str, ...] = ()
    clicked: tuple[str, ...] = ()
    weight: float = 1.0


FOXES = [
    Click("red", "red fox", ("green owl", "fish")),
    Click("fox", "red fox", ("bear", "fish"), ("green owl",)),
    Click("owl", "green owl", ("bear",)),
]


def batches(clicks, size=0, shapes=None, negatives=4, more=(), mined=None, **options) -> Batches:
    """Batches of pairs, in steps of so many, or in one."""
    queries = dict.fromkeys(one.query for one in clicks)
    titles = dict.fromkeys(
        title for one in clicks for title in (one.title, *one.negatives, *one.clicked, *more)
    )
    query = {text: number for number, text in enumerate(queries)}
    title = {text: number for number, text in enumerate(titles)}
    split = [[WORDS.index(word) for word in text.split()] for text in (*queries, *titles)]
    clicked: list[set[int]] = [set() for _ in split]
    for one in clicks:
        clicked[query[one.query]] |= {title[text] for text in (one.title, *one.clicked)}
    texts = Texts(
        listed(split),
        listed([VOCABULARY.look_up(word) for word in WORDS]),
        listed([sorted(found) for found in clicked]),
        len(queries),
    )
    table = np.full((len(clicks), 1 + negatives), -1, np.int32)
    for row, one in enumerate(clicks):
        found = [title[text] for text in (one.title, *one.negatives)][: 1 + negatives]
        table[row, : len(found)] = found
    numbers = np.array([query[one.query] for one in clicks], np.int32)
    weights = np.array([one.weight for one in clicks], np.float32)
    rows = Rows(0, numbers, table, weights, size or len(clicks))
    pairs = [(query[text], title[one]) for text, found in (mined or {}).items() for one in found]
    options["mined"] = np.array(pairs, np.int64).reshape(-1, 2)
    return Batches(texts, ({"train": rows},), shapes=shapes or Shapes(), **options)


def listed(lists) -> tf.RaggedTensor:
    flat = np.array([number for one in lists for number in one], np.int32)
    return tf.RaggedTensor.from_row_lengths(flat, np.array([*map(len, lists)], np.int64))


def steps(dataset) -> list[list[Row]]:
    return [rows_of(*element) for element in dataset]


def rows(clicks, **options) -> list[Row]:
    """The rows of the only batch."""
    (found,) = steps(batches(clicks, **options).epochs(None, 0, 1))
    return found


def tensors(clicks, **options):
    """Inputs and labels of the only batch."""
    ((inputs, labels, _),) = batches(clicks, **options).epochs(None, 0, 1)
    return inputs, labels


def text(words: str):
    """A text as `rows_of` sees it."""
    return tuple(VOCABULARY.ngram_ids(word) for word in words.split())


def test_candidates_are_recorded_and_clicked_titles_that_the_query_never_clicked():
    red, fox, owl = rows(FOXES)
    assert [row.clicked for row in (red, fox, owl)] == [
        text("red fox"), text("red fox"), text("green owl")
    ]  # fmt: skip
    # green owl is recorded once, and clicked once in the batch: 1 + 1.
    assert red.rivals == {text("green owl"): approx(2), text("fish"): approx(1)}
    # Somebody who asked for `fox` clicked `green owl` elsewhere in the log: it is no rival.
    assert fox.rivals == {text("bear"): approx(1), text("fish"): approx(1)}
    # `red fox` was clicked in two rows, so it counts twice: exp(log 2).
    assert owl.rivals == {text("bear"): approx(1), text("red fox"): approx(2)}


def test_every_title_and_word_of_a_batch_is_there_once_and_only_clicked_titles_are_columns():
    # Two of four distinct titles are clicked: 1 + 4 of each record, and 2 in the batch.
    inputs, labels = tensors(FOXES)
    assert inputs["candidates"].shape == labels["mask"].shape == (3, 5 + 2)
    # Of compiled programs the shape stays: a column a row.
    fixed, _ = tensors(FOXES, shapes=Shapes(distinct_titles=20))
    assert fixed["candidates"].shape == (3, 5 + 3)
    titles = [tuple(row) for row in inputs["titles"]["tokens"].numpy()]
    assert len(titles) == len(set(titles)) == len({"red fox", "green owl", "fish", "bear"})
    words = [tuple(row) for row in inputs["titles"]["word_ngrams"].numpy()]
    assert len(words) == len(set(words)) == 1 + len(WORDS)
    assert not any(words[0])
    assert inputs["query"]["word_ngrams"].shape[0] == 1 + len({"red", "fox", "owl"})


def test_a_batch_of_one_without_negatives_has_no_rival_and_no_loss():
    inputs, labels = tensors([Click("red", "red fox")])
    cosines = tf.ones(inputs["candidates"].shape)
    assert float(ClickSoftmax()(labels, cosines)) == 0.0
    assert {one.shape for one in labels.values()} == {inputs["candidates"].shape}


def test_a_batch_of_empty_texts_still_has_a_column_and_a_row():
    inputs, _ = tensors([Click("", ""), Click("", "")])
    assert inputs["query"]["tokens"].shape == (2, 1)
    assert inputs["titles"]["tokens"].shape == (1, 1)
    assert inputs["titles"]["word_ngrams"].shape == (1, 1)


# ------------------------------------------------------------------------- the same, for any log

texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
some = st.lists(texts, max_size=3, unique=True).map(tuple)
clicks = st.builds(Click, texts, texts, some, some, st.just(1.0))


def liked(log: list[Click]) -> dict[str, set[str]]:
    """All titles that were clicked for each query."""
    found: dict[str, set[str]] = {}
    for one in log:
        found.setdefault(one.query, set()).update((one.title, *one.clicked))
    return found


def sound(log: list[Click]) -> list[Click]:
    """Without recorded negatives that the query clicked, which preprocess never draws."""
    clicked = liked(log)
    return [
        one._replace(negatives=tuple(t for t in one.negatives if t not in clicked[one.query]))
        for one in log
    ]


def oracle(step: list[Click], log: list[Click], in_batch: bool):
    """(query, clicked title, rivals) of each row of a step, by the rules."""
    clicked = liked(log)
    for one in step:
        rivals = [*one.negatives]
        if in_batch:
            rivals += [row.title for row in step if row.title not in clicked[one.query]]
        yield text(one.query), text(one.title), Counter(map(text, rivals))


def parts(longest: int) -> st.SearchStrategy[tuple[Part, ...]]:
    """Parts with rows padded, or not; the widths increase."""
    widths = st.lists(st.integers(1, longest), max_size=3, unique=True)
    rows_ = st.sampled_from([0, 2, 9])
    return st.tuples(widths, rows_).map(lambda one: tuple(Part(w, one[1]) for w in sorted(one[0])))


text_shapes = st.builds(TextShape, parts(4), parts(6))
sides = st.fixed_dictionaries(dict.fromkeys(("query", "titles", "texts"), text_shapes))
shapes = st.builds(Shapes, sides, st.sampled_from([0, 3, 20]))


@settings(max_examples=15, deadline=None)
@given(
    log=st.lists(clicks, min_size=1, max_size=6).map(sound),
    size=st.integers(1, 6),
    in_batch=st.booleans(),
    joint=st.booleans(),
    shape=shapes,
)
def test_any_pass_equals_the_rules_in_plain_python(log, size, in_batch, joint, shape):
    made = batches(log, size, shape, negatives=3, in_batch=in_batch, joint=joint)
    found = steps(made.epochs(None, 0, 1))
    assert len(found) == made.steps == -(-len(log) // size)
    for number, step in enumerate(found):
        mine = log[number * size : (number + 1) * size]
        assert [row.weight > 0 for row in step] == [True] * len(mine) + [False] * (size - len(mine))
        for row, (query, title, rivals) in zip(step, oracle(mine, log, in_batch), strict=False):
            assert (row.query, row.clicked, row.positive) == (query, title, 1.0)
            assert row.rivals == {key: approx(value, rel=1e-5) for key, value in rivals.items()}


# ---------------------------------------------------------------------------------- whole passes

LOG = [
    Click(f"{a} {b}", f"{b} {c}", (f"{c} {a} {b}",), weight=float(1 + number % 5))
    for number, (a, b, c) in enumerate(
        (a, b, c) for a in WORDS for b in WORDS[:3] for c in WORDS[:3] if len({a, b, c}) == 3
    )
]
SIZE = 8


def pairs(found) -> list:
    """(query, clicked title) of every row that counts."""
    return [(row.query, row.clicked) for step in found for row in step if row.weight > 0]


EVERY = [(text(one.query), text(one.title)) for one in LOG]


def test_seed_and_number_of_an_epoch_decide_its_order():
    one, again = batches(LOG, SIZE), batches(LOG, SIZE)
    count = one.steps
    found = steps(one.epochs(seed=1, start=0, stop=3))
    epochs = [pairs(found[i * count : (i + 1) * count]) for i in range(3)]
    assert all(Counter(epoch) == Counter(EVERY) for epoch in epochs)
    assert all(a != b for a, b in pairwise(epochs))
    assert pairs(steps(one.epochs(seed=2, start=0, stop=1))) != epochs[0]
    assert pairs(steps(again.epochs(None, 0, 1))) == EVERY


MINED = {one.query: [other.title for other in LOG if other.title != one.title] for one in LOG}


@pytest.mark.parametrize("options", [{}, {"fresh": 2}, {"mined": MINED, "mined_count": 1}])
def test_a_run_resumes_at_any_step_as_if_it_had_not_stopped(options):
    one = batches(LOG, SIZE, draw=drawing(LOG), **options)
    whole = steps(one.epochs(5, 0, 3))
    for at in (1, one.steps, one.steps + 2, 3 * one.steps - 1):
        start, step = divmod(at, one.steps)
        assert steps(one.epochs(5, start, 3, step=step)) == whole[at:]


def drawing(log) -> np.ndarray:
    titles = batches(log).texts
    count = int(titles.words.nrows()) - titles.first_title
    return np.full(count, 1 / count)


@pytest.mark.parametrize(("workers", "replicas"), [(2, 1), (1, 2), (2, 2)])
def test_the_parts_of_a_step_are_together_the_batch_of_one_process(workers, replicas):
    one = batches(LOG, SIZE, in_batch=False, fresh=2, draw=drawing(LOG))
    whole = steps(one.epochs(7, 0, 1))
    found = [steps(one.epochs(7, 0, 1, worker, workers, replicas)) for worker in range(workers)]
    assert all(len(part) == one.steps * replicas for part in found)
    joined = [
        [row for part in found for at in range(replicas) for row in part[step * replicas + at]]
        for step in range(one.steps)
    ]
    assert joined == whole


def test_weights_have_mean_one_with_the_rows_that_fill_a_step():
    found = [row.weight for step in steps(batches(LOG, SIZE).epochs(None, 0, 1)) for row in step]
    assert np.mean(found) == approx(1, rel=1e-5)
    raw = [one.weight for one in LOG]
    assert np.divide(found[: len(raw)], found[0]) == approx(np.divide(raw, raw[0]))
    assert not any(found[len(raw) :])


def test_sources_take_even_turns_each_with_its_own_mean():
    one = batches(LOG, SIZE)
    (clicked,) = one.sources
    judged = clicked["train"]._replace(
        source=1, size=4, mean=0.25, targets=np.zeros(clicked["train"].titles.shape, np.float32)
    )
    both = replace(one, sources=(clicked, {"train": judged, "validation": judged}))
    weights, turns = {0: [], 1: []}, []
    for _, labels, found in both.epochs(0, 0, 2):
        turns.append(int(labels["source"][0]))
        weights[turns[-1]] += found.numpy().tolist()
    assert len(turns) == 2 * both.steps
    assert Counter(turns[: both.steps]) == {0: one.steps, 1: -(-len(LOG) // 4)}
    for start in range(0, 2 * both.steps - 6, 6):
        assert 1 <= turns[start : start + 6].count(0) <= 3  # a third of them
    assert turns == turns[::-1]
    assert (np.mean(weights[0]), np.mean(weights[1])) == (approx(1), approx(0.25))
    assert both.held_out().rows[0].source == 1
    assert one.held_out() is None


def test_fresh_negatives_are_drawn_by_their_weights_and_never_clicked():
    log = [one._replace(negatives=()) for one in LOG[:12]]
    count = len(drawing(log))
    draw = np.linspace(1, 3, count) / np.linspace(1, 3, count).sum()
    one = batches(log, 12, in_batch=False, fresh=3, draw=draw)
    seen = Counter()
    for step in steps(one.epochs(0, 0, 200)):
        for row in step:
            assert row.clicked not in row.rivals
            assert sum(row.rivals.values()) <= 3 + 1e-5
            seen.update({key: round(times) for key, times in row.rivals.items()})
    titles = list(dict.fromkeys(text(one.title) for one in log))
    assert set(seen) <= set(titles)
    # The last title is drawn three times as often as the first; 100 draws vary by a tenth.
    ratio = seen[titles[-1]] / seen[titles[0]]
    assert 2 < ratio < 4.5


def test_mined_negatives_are_some_of_the_query_s_other_ones_in_each_pass():
    mined = {"red": ("bear", "fish", "green owl", "red fox"), "owl": ("bear",)}
    log = [one._replace(negatives=()) for one in FOXES]
    one = batches(log, more=("bear", "fish"), in_batch=False, mined=mined, mined_count=2)
    seen = Counter()
    for step in steps(one.epochs(0, 0, 30)):
        by_query = {row.query: row.rivals for row in step}
        assert by_query[text("fox")] == {}
        assert by_query[text("owl")] == {text("bear"): approx(1)}
        assert len(by_query[text("red")]) == 2
        seen.update(by_query[text("red")])
    # Never the clicked one, though it was named; the other three alike.
    assert set(seen) == {text(title) for title in ("bear", "fish", "green owl")}
    assert min(seen.values()) > 8


# --------------------------------------------------------------------------------------- shapes


def sizes(found) -> list[tuple[int, ...]]:
    found = found if isinstance(found, tuple) else (found,)
    return [tuple(part.shape) for part in found]


def test_a_batch_that_does_not_fit_grows_by_eighths_of_the_plan():
    # 4 distinct titles on a plan of 3: the step is max(3 // 8, 1) = 1, so 4. The longest has two
    # words, and `#green#` five trigrams; 7 words are 6 distinct ones and the padding.
    shape = TextShape((Part(1, 3),), (Part(2, 3),))
    inputs, _ = tensors(FOXES, shapes=Shapes({"titles": shape}, distinct_titles=3))
    assert sizes(inputs["titles"]["tokens"]) == [(4, 2)]
    assert sizes(inputs["titles"]["word_ngrams"]) == [(7, 5)]
    # 32 words on a plan of 24 with steps of 3: 24, 27, 30, 33.
    long = Shapes({"query": TextShape((Part(24, 1),))})
    grown, _ = tensors([Click("red " * 32, "fox")], shapes=long)
    assert sizes(grown["query"]["tokens"]) == [(1, 33)]


def test_rows_of_like_length_stand_together_and_each_text_knows_its_row():
    titles = TextShape((Part(1), Part(2)), (Part(3), Part(5)))
    inputs, _ = tensors(FOXES, shapes=Shapes({"titles": titles}))
    found = inputs["titles"]
    # `fish` and `bear` have one word; `red fox` and `green owl` two.
    assert sizes(found["tokens"]) == [(2, 1), (2, 2)]
    # Padding, red, fox and owl have up to 3 trigrams; fish and bear 4, green 5.
    assert sizes(found["word_ngrams"]) == [(4, 3), (3, 5)]
    assert not found["word_ngrams"][0].numpy()[0].any()
    assert sorted(found["rows"].numpy()) == [0, 1, 2, 3]


@pytest.mark.parametrize("joint", [False, True])
def test_planned_shapes_are_those_of_every_batch_and_change_nothing_it_says(joint):
    free = batches(LOG, SIZE, joint=joint)
    planned = free.planned(fixed=True)
    found = [*planned.epochs(0, 0, 2)]
    assert len({tuple(tuple(t.shape) for t in tf.nest.flatten(one)) for one, _, _ in found}) == 1
    assert steps(found) == [
        [row._replace(rivals={k: approx(v) for k, v in row.rivals.items()}) for row in step]
        for step in steps(free.epochs(0, 0, 2))
    ]
    assert planned.shapes == free.planned(fixed=True).shapes


def test_in_one_text_batch_a_word_of_a_query_and_of_a_title_stay_two():
    inputs, _ = tensors(FOXES, joint=True)
    assert set(inputs) == {"texts", "candidates"}
    words = [tuple(row) for row in inputs["texts"]["word_ngrams"].numpy()]
    named = [tuple(id for id in word if id) for word in words if any(word)]
    assert sorted(named) == sorted(text(word)[0] for word in ("red", "fox", "owl", *WORDS))
