"""Lists as batches: every title with its own grade, every pass whole, mixed evenly with clicks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.tables.graded_lists import GradedList, write_lists
from dssm_tf.text.rules import FOLDED
from tests.clicks import texts_of
from tests.data.graded.files import lists, sources
from tests.training.configuration import batches_of, config


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
    return batches_of(made, Preprocessed(data.path))


def rows(element):
    """(query, {title: target}, weight) of each row of a batch, texts as trigram ids of words."""
    inputs, labels, weights = element
    queries, titles = texts_of(inputs, len(weights))
    for row, columns in enumerate(inputs["candidates"].numpy()):
        mask = labels["mask"][row].numpy()
        values = labels["targets"][row].numpy()
        listed = {titles[column]: float(values[i]) for i, column in enumerate(columns) if mask[i]}
        yield queries[row], listed, float(weights[row])


def hashed(text, vocabulary):
    return tuple(map(vocabulary.ngram_ids, FOLDED.words(text)))


@pytest.mark.parametrize("joint", [False, True])
def test_a_pass_holds_every_list_once_with_its_own_grades(data, judged, joint):
    path, found = judged
    made, seen = batches(data, path, training__clicks=False, shared_towers=joint), Counter()
    for element in made.epochs(3, 0, 1):
        assert set(element[1]["source"].numpy()) == {1}
        for query, listed, weight in rows(element):
            if weight:
                seen[query, tuple(sorted(listed.items()))] += 1
    training = sources(data, path)[0].training
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


def test_texts_that_the_data_lack_are_read_all_the_same(data, tmp_path):
    known = sorted(data.titles)[:2]
    strange = GradedList("fox zebra", (known[0], "zebra foxes", known[1]), (2.0, 1.0, 0.0))
    write_lists(tmp_path / "j.tsv", "grade", [strange])
    made = batches(data, tmp_path / "j.tsv", training__clicks=False, judgments__validation=0.0)
    (found,) = [row for element in made.epochs(None, 0, 1) for row in rows(element) if row[2]]
    titles = {
        hashed(title, data.vocabulary): value for title, value in zip(*strange[1:], strict=True)
    }
    assert found[:2] == (hashed(strange.query, data.vocabulary), titles)


def test_clicks_and_lists_have_the_weights_that_were_asked_for(mixed):
    weights = {0: [], 1: []}
    for _, labels, found in mixed.epochs(0, 0, 2):
        weights[int(labels["source"][0])] += found.numpy().tolist()
    assert np.mean(weights[0]) == pytest.approx(1, rel=1e-5)
    assert np.mean(weights[1]) == pytest.approx(0.25, rel=1e-5)


def test_held_out_lists_are_validated_on_and_join_the_last_training(data, judged, mixed):
    (source,) = sources(data, judged[0])
    held = mixed.held_out()
    assert [len(one.query) for one in held.rows if one.source] == [len(source.held_out)]
    everything = mixed.of(["train", "validation"])
    assert [len(one.query) for one in everything.rows if one.source] == [37]
