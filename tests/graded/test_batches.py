"""Lists as batches: every title with its own grade, every pass whole, mixed evenly with clicks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.graded.batches import spread
from dssm_tf.graded.sources import read_sources
from dssm_tf.tables.graded_lists import write_lists
from dssm_tf.text.rules import FOLDED
from dssm_tf.training.fitting import training_batches
from tests.clicks import click_log, write_data
from tests.graded.files import lists
from tests.training.configuration import config


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("graded") / "data", click_log())


@pytest.fixture(scope="module")
def judged(data, tmp_path_factory):
    found = lists(data, 37)
    path = tmp_path_factory.mktemp("judged") / "j.tsv"
    write_lists(path, "grade", found)
    return path, found


@pytest.fixture(scope="module")
def mixed(data, judged):
    return batches(data, judged[0], judgments__weight=0.25)


def batches(data, path, **changes):
    made = parse_config(config(judgments__file=str(path), judgments__batch_size=8, **changes))
    read = Preprocessed(data.path)
    return training_batches(made, read, 1, sources=read_sources(made, read))


def rows(element, data, joint=False):
    """(query, {title: target}, weight) of each row of a batch, texts as sets of trigrams' words."""
    inputs, labels, weights = element
    vocabulary = data.vocabulary
    if joint:
        side = inputs["texts"]
        size = len(inputs["candidates"])
        found = texts(side, vocabulary)
        queries, titles = found[:size], found[size:]
    else:
        queries, titles = (texts(inputs[name], vocabulary) for name in ("query", "titles"))
    for row, columns in enumerate(inputs["candidates"].numpy()):
        mask = labels["mask"][row].numpy()
        values = labels["targets"][row].numpy()
        listed = {titles[column]: float(values[i]) for i, column in enumerate(columns) if mask[i]}
        yield queries[row], listed, float(weights[row])


def texts(batch, vocabulary):
    """Each text of a text batch as the trigram ids of its words."""
    ngrams = parts(batch["word_ngrams"])
    tokens = parts(batch["tokens"])
    order = batch["rows"].numpy() if "rows" in batch else range(len(tokens))
    found = [[tuple(i for i in ngrams[t] if i) for t in tokens[row] if t] for row in order]
    return [tuple(word for word in text if word) for text in found]


def parts(matrices):
    matrices = matrices if isinstance(matrices, tuple) else (matrices,)
    return [row.tolist() for matrix in matrices for row in matrix.numpy()]


def hashed(text, vocabulary):
    return tuple(ids for word in FOLDED.words(text) if (ids := tuple(vocabulary.ngram_ids(word))))


@pytest.mark.parametrize("joint", [False, True])
def test_a_pass_holds_every_list_once_with_its_own_grades(data, judged, mixed, joint):
    path, found = judged
    made = batches(data, path, training__clicks=False, shared_towers=True) if joint else mixed
    seen = Counter()
    for element in made.lists[0].epoch(seed=3):
        assert set(element[1]["source"].numpy()) == {1}
        for query, listed, weight in rows(element, data, joint):
            if weight:
                seen[query, tuple(sorted(listed.items()))] += 1
    training = made.lists[0].source.training
    assert 20 < len(training) < len(found)
    assert seen == Counter(
        (
            hashed(one.query, data.vocabulary),
            tuple(
                sorted(
                    (hashed(title, data.vocabulary), value)
                    for title, value in zip(one.titles, one.values, strict=True)
                )
            ),
        )
        for one in training
    )


def test_sources_take_even_turns_and_their_weights_have_the_mean_that_was_asked_for(mixed):
    weights, turns = {0: [], 1: []}, []
    for _, labels, found in mixed.epochs(0, 0, 2):
        turns.append(int(labels["source"][0]))
        weights[turns[-1]] += found.numpy().tolist()
    one_pass = spread([mixed.clicks.steps, mixed.lists[0].steps]).tolist()
    assert turns == 2 * one_pass
    assert len(one_pass) == mixed.steps
    assert np.mean(weights[0]) == pytest.approx(1, rel=1e-5)
    assert np.mean(weights[1]) == pytest.approx(0.25, rel=1e-5)


def test_a_run_that_goes_on_sees_what_an_uninterrupted_one_does(mixed):
    lists = mixed.lists[0]
    whole, rest = (
        [labels["targets"].numpy() for _, labels, _ in lists.epochs(5, start, 2)]
        for start in (0, 1)
    )
    np.testing.assert_array_equal(whole[lists.steps :], rest)
    assert not np.array_equal(whole[: lists.steps], rest)


def test_replicas_and_workers_share_the_rows_of_a_step(data, mixed):
    lists = mixed.lists[0]
    together = Counter(row[0] for e in lists.epoch(seed=1) for row in rows(e, data) if row[2])
    apart = Counter(
        row[0]
        for worker in range(2)
        for e in lists.epoch(1, worker, 2, 2)
        for row in rows(e, data)
        if row[2]
    )
    assert together == apart


def test_held_out_lists_are_validated_on_and_join_the_last_training(mixed):
    held = mixed.held_out().lists[0].lists
    assert held == list(mixed.lists[0].source.held_out)
    everything = mixed.of(["train", "validation"]).lists[0].lists
    assert len(everything) == len(held) + len(mixed.lists[0].lists) == 37


def test_turns_are_evenly_spread():
    assert spread([2, 4]).tolist() == [1, 0, 1, 1, 0, 1]
    assert spread([3]).tolist() == [0, 0, 0]
    turns = spread([30, 10, 5])
    for start in range(0, 45, 9):
        assert Counter(turns[start : start + 9].tolist()) == {0: 6, 1: 2, 2: 1}
