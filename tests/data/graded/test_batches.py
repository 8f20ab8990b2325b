"""Lists as batches: each title with its grade, each list once per epoch, mixed with clicks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.tables.graded_lists import GradedList, write_lists
from dssm_tf.text.rules import FOLDED
from tests.clicks import all_candidates, full_labels, texts_of
from tests.data.graded.files import lists, sources
from tests.training.configuration import batches_of, config


@pytest.fixture(scope="module")
def judged(data, tmp_path_factory):
    graded = lists(data, 37)
    path = tmp_path_factory.mktemp("judged") / "j.tsv"
    write_lists(path, "grade", graded)
    return path, graded


@pytest.fixture(scope="module")
def mixed(data, judged):
    return batches(data, judged[0], judgments__weight=0.25)


def batches(data, path, **changes):
    settings = parse_config(config(judgments__file=str(path), judgments__batch_size=8, **changes))
    return batches_of(settings, Preprocessed(data.path))


def rows_of_batch(element):
    """(query, {title: target}, weight) of each row of a batch, texts as trigram ids of words."""
    inputs, labels, weights = element
    queries, titles = texts_of(inputs, len(weights))
    mask, _, values = full_labels(labels)
    for row, columns in enumerate(all_candidates(inputs)):
        targets = {titles[columns[i]]: float(values[row, i]) for i in np.flatnonzero(mask[row])}
        yield queries[row], targets, float(weights[row])


def trigram_ids(text, vocabulary):
    return tuple(map(vocabulary.ngram_ids, FOLDED.words(text)))


@pytest.mark.parametrize("joint", [False, True])
def test_an_epoch_has_every_list_once_with_its_grades(data, judged, joint):
    path, graded = judged
    list_batches = batches(data, path, training__clicks=False, shared_towers=joint)
    lists_of_epoch = Counter()
    for element in list_batches.epochs(3, 0, 1):
        assert set(element[1]["source"].numpy()) == {1}
        for query, targets, weight in rows_of_batch(element):
            if weight:
                lists_of_epoch[query, tuple(sorted(targets.items()))] += 1
    training = sources(data, path)[0].training
    assert 20 < len(training) < len(graded)
    assert lists_of_epoch == Counter(
        (
            trigram_ids(expected.query, data.vocabulary),
            tuple(
                sorted(
                    (trigram_ids(title, data.vocabulary), value)
                    for title, value in zip(expected.titles, expected.values, strict=True)
                )
            ),
        )
        for expected in training
    )


def test_texts_that_the_data_directory_lacks_are_trained_on(data, tmp_path):
    known = sorted(data.titles)[:2]
    new = GradedList("fox zebra", (known[0], "zebra foxes", known[1]), (2.0, 1.0, 0.0))
    write_lists(tmp_path / "j.tsv", "grade", [new])
    list_batches = batches(
        data, tmp_path / "j.tsv", training__clicks=False, judgments__validation=0.0
    )
    (row,) = [
        row
        for element in list_batches.epochs(None, 0, 1)
        for row in rows_of_batch(element)
        if row[2]
    ]
    titles = {
        trigram_ids(title, data.vocabulary): value for title, value in zip(*new[1:], strict=True)
    }
    assert row[:2] == (trigram_ids(new.query, data.vocabulary), titles)


def test_clicks_and_lists_have_the_mean_weights_of_their_sections(mixed):
    weights = {0: [], 1: []}
    for _, labels, weights_of_step in mixed.epochs(0, 0, 2):
        weights[int(labels["source"][0])] += weights_of_step.numpy().tolist()
    assert np.mean(weights[0]) == pytest.approx(1, rel=1e-5)
    assert np.mean(weights[1]) == pytest.approx(0.25, rel=1e-5)


def test_validation_lists_are_validated_on_and_then_refitted_on(data, judged, mixed):
    (source,) = sources(data, judged[0])
    validation = mixed.validation()
    assert [len(rows.query) for rows in validation.rows if rows.source] == [len(source.validation)]
    refit = mixed.with_splits(["train", "validation"])
    assert [len(rows.query) for rows in refit.rows if rows.source] == [37]
