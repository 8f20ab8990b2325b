"""Titles drawn while training: whose they are, how often, and that passes differ."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from pytest import approx

from dssm_tf.data.dataset import BatchOptions, ClickBatches
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.schema import Title
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from tests.clicks import ALPHA, click_log, rows_of, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("fresh") / "data", click_log())


def batches(data, **options):
    defaults = {"batch_size": 8, "negatives": 0, "fresh": 3, "in_batch": False}
    return ClickBatches(Preprocessed(data.path), ("train",), BatchOptions(**(defaults | options)))


def rows(dataset):
    return [row for element in dataset for row in rows_of(*element) if row.weight > 0]


def test_no_fresh_negative_was_ever_clicked_for_its_query(data):
    clicked = {
        tuple(data.vocabulary.ngram_ids(w) for w in data.vocabulary.words(example.query)): {
            tuple(data.vocabulary.ngram_ids(w) for w in data.vocabulary.words(title.text))
            for other in data.examples["train"]
            if other.query == example.query
            for title in other.titles[:1]
        }
        for example in data.examples["train"]
    }
    assert any(len(titles) > 1 for titles in clicked.values())
    for row in rows(batches(data, fresh=20).epochs(0, 0, 3)):
        assert not set(row.rivals) & clicked[row.query]


def test_each_query_gets_as_many_as_asked_for(data):
    for row in rows(batches(data).epoch(seed=1)):
        assert sum(row.rivals.values()) == approx(3)


def test_passes_draw_other_titles_and_a_pass_always_the_same(data):
    def drawn(number):
        return {
            (row.query, row.clicked): row.rivals
            for row in rows(batches(data).epochs(7, number, number + 1))
        }

    first, again, second = drawn(0), drawn(0), drawn(1)
    assert first == again
    assert first.keys() == second.keys()
    assert sum(first[pair] != second[pair] for pair in first) > len(first) / 2


def test_workers_and_replicas_see_the_negatives_one_process_sees(data):
    whole = rows(batches(data).epochs(3, 0, 1))
    cut = [
        row
        for worker in (0, 1)
        for row in rows(batches(data).epochs(3, 0, 1, worker=worker, workers=2, replicas=2))
    ]
    key = repr
    assert sorted(cut, key=key) == sorted(whole, key=key)


def test_titles_are_drawn_in_proportion_to_their_clicks_to_the_alpha(data):
    from dssm_tf.data.fresh_negatives import FreshNegatives

    titles = [Title("red", 16, 1), Title("owl", 1, 1), Title("fox", 0, 0)]
    vocabulary = Vocabulary(["#re", "red", "ed#"], FOLDED)
    draws = FreshNegatives(titles, vocabulary, 0.5, 1000).draw(10, np.array([1, 2], np.int64))
    counts = Counter(draws.numpy().ravel().tolist())
    # Weights 16 ** .5 = 4, 1 and .5 ** .5 = .707.
    total = 4 + 1 + 0.5**0.5
    share = [counts[place] / sum(counts.values()) for place in range(3)]
    assert share == approx([4 / total, 1 / total, 0.5**0.5 / total], abs=0.01)


def test_recorded_and_fresh_negatives_stand_side_by_side(data):
    for row in rows(batches(data, negatives=2).epoch(seed=1)):
        assert sum(row.rivals.values()) == approx(5)


def test_logq_expects_fresh_negatives_from_all_titles_and_recorded_ones_from_the_clicked(data):
    fresh = batches(data, logq=1.0, in_batch=False)
    recorded = batches(data, fresh=0, negatives=3, logq=1.0, in_batch=False)
    weights = [max(int(row.split("\t")[1]), 0.5) ** ALPHA for row in data.titles]
    clicked = sum(weight for weight in weights if weight >= 1)
    assert clicked < sum(weights)
    corrected = [
        {(row.query, row.clicked): row.positive for row in rows(one.epoch())}
        for one in (fresh, recorded)
    ]
    for pair, positive in corrected[0].items():
        assert positive / corrected[1][pair] == approx(sum(weights) / clicked, rel=1e-4)


def test_a_log_whose_every_title_was_clicked_for_the_query_leaves_no_rival(tmp_path):
    from tests.clicks import Click

    log = [Click("red", "red fox"), Click("red", "red owl")]
    data = write_data(tmp_path / "data", log, validation=set(), shards=1)
    assert all(row.rivals == {} for row in rows(batches(data, batch_size=2).epoch(seed=0)))
