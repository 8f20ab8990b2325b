"""`training.folds`: every query held out once, the epoch by all of them, all records in the end."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.training.devices import Devices
from dssm_tf.training.folds import _choose
from dssm_tf.training.loop import LoopOptions
from dssm_tf.training.train import build_loop
from tests.clicks import click_log, write_data
from tests.training.configuration import batches_of, config, trained

FOLDS = 3


@pytest.fixture(scope="module")
def folds(data):
    return [Preprocessed(data.path).fold(number, FOLDS) for number in range(FOLDS)]


@pytest.fixture(scope="module")
def by_folds(data, folder):
    settings = {"training__folds": 2, "training__epochs": 3, "training__monitor": "ndcg@10"}
    return folder / "folds", settings, trained(data, folder / "folds", **settings)


def test_every_query_is_held_out_once_with_all_its_clicks(folds):
    log = sorted((one.query, one.title, float(one.clicks)) for one in click_log())
    for fold in folds:
        parts = [fold.log(split) for split in ("train", "validation")]
        assert sorted([*parts[0], *parts[1]]) == log
        learned, held_out = ({query for query, _, _ in part} for part in parts)
        assert not learned & held_out
        assert [fold.count(split) for split in ("train", "validation")] == [*map(len, parts)]
    held_out = [{query for query, _, _ in fold.log("validation")} for fold in folds]
    assert sorted(query for one in held_out for query in one) == sorted({row[0] for row in log})
    assert max(map(len, held_out)) - min(map(len, held_out)) <= 1


def test_a_fold_weighs_and_counts_the_clicks_of_its_own_training_part(tmp_path):
    log = [one._replace(clicks=one.clicks + 0.375) for one in click_log()]
    data = Preprocessed(write_data(tmp_path / "data", log).path)
    settings = parse_config(config(training__click_weight="linear"))
    for number in range(FOLDS):
        fold = data.fold(number, FOLDS)
        clicks, queries = Counter[str](), Counter[str]()
        for _, title, count in fold.log("train"):
            clicks[title] += count
            queries[title] += 1
        assert {one.text: one.queries for one in fold.titles if one.queries} == queries
        # A title's sum is rounded, as preprocess rounds it; a pair's clicks are not.
        assert {one.text: one.clicks for one in fold.titles if one.clicks} == {
            title: round(count) for title, count in clicks.items()
        }
        batches = batches_of(settings, fold).epochs(None, 0, 1)
        weights = np.concatenate([found.numpy() for _, _, found in batches])
        assert np.mean(weights) == approx(1, rel=1e-5)
        assert not np.allclose(weights, np.rint(weights))


def test_epoch_and_weight_are_the_best_by_the_mean_over_all_queries():
    """Four queries, one of which would choose epoch 1; the three others 2."""
    by_cosine = np.array([[1.0, 0.1, 0.1, 0.1], [0.5, 0.5, 0.5, 0.5]])
    with_prior = np.array([[0.0, 1.0, 1.0, 1.0], [0.6, 0.5, 0.5, 0.7]])
    values = np.stack([by_cosine, with_prior], axis=1)[..., None].repeat(3, axis=3)
    losses = [[{"loss": 3.0, "val_loss": 1.0}, {"loss": 2.0, "val_loss": 2.0}]] * 2
    choice = _choose(values, losses, "ndcg@10", [0.0, 0.1])
    assert (choice.best_epoch, choice.prior_weight) == (2, 0.1)
    assert choice.ndcg["ndcg@10"] == approx(0.575)
    assert choice.ndcg["cosine ndcg@10"] == approx(0.5)
    assert choice.ndcg["low ndcg@1"] < 0.575 < choice.ndcg["high ndcg@1"]
    assert choice.ndcg["queries"] == 4
    assert [one["ndcg@3"] for one in choice.history] == approx([0.325, 0.5])
    assert [one["best"] for one in choice.history] == [0.0, 1.0]
    assert _choose(values, losses, "loss", [0.0, 0.1]).best_epoch == 1
    equal = np.full((1, 3, 2, 3), 0.5)
    assert _choose(equal, [losses[0][:1]], "ndcg@10", [0.0, 0.1, 0.2]).prior_weight == 0


def test_the_run_is_trained_on_all_records_for_the_chosen_epochs(by_folds, data, folder):
    run, settings, result = by_folds
    assert (result.epochs, len(result.history), result.refitted) == (3, 3, True)
    assert result.ndcg["queries"] == len({one.query for one in click_log()})
    plain = build_loop(
        parse_config(config(**settings)),
        Preprocessed(data.path),
        devices=Devices.choose(),
        options=LoopOptions(folder / "plain", quiet=True),
    )
    plain.fit("fit", ("train", "validation"), result.best_epoch)
    found = SemanticRanker.load(run).model.get_weights()
    for one, other in zip(plain.ranked.get_weights(), found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_run_says_how_it_was_chosen(by_folds):
    run, _, result = by_folds
    card = (run / "MODEL_CARD.md").read_text("utf-8")
    assert f"{result.best_epoch}, the best of 3 by folds; on all records" in card
    assert "Each query of the log was held out once, in 2 trainings" in " ".join(card.split())
    assert json.loads((run / "history.json").read_text("utf-8")) == result.history
    assert SemanticRanker.load(run).prior_weight == result.prior_weight


def test_it_is_refused_beside_judgments_and_an_earlier_run(data, by_folds, write, tmp_path):
    lists = write("judgments.tsv", "query\ttitle\tgrade\nfox\tred fox\t2\n")
    for changes, start in (({"judgments__file": str(lists)}, None), ({}, by_folds[0])):
        with pytest.raises(UserError, match=r"training\.folds is for a log learned from scratch"):
            trained(data, tmp_path / "none", start=start, training__folds=2, **changes)
    assert not (tmp_path / "none").exists()
