"""`training.folds`: cross-validation chooses the epoch, then all records are trained on."""

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
from dssm_tf.training.build import build_loop
from dssm_tf.training.cross_validation import _choose
from dssm_tf.training.devices import Devices
from dssm_tf.training.loop import LoopOptions
from tests.clicks import click_log, write_data
from tests.training.configuration import batches_of, config, trained

pytestmark = pytest.mark.long  # trainings

FOLDS = 3


@pytest.fixture(scope="module")
def folds(data):
    return [Preprocessed(data.path).fold(index, FOLDS) for index in range(FOLDS)]


@pytest.fixture(scope="module")
def cross_validated_run(data, folder):
    settings = {"training__folds": 2, "training__epochs": 3, "training__monitor": "ndcg@10"}
    return folder / "folds", settings, trained(data, folder / "folds", **settings)


def test_every_query_is_held_out_once_with_all_its_clicks(folds):
    log = sorted((click.query, click.title, float(click.clicks)) for click in click_log())
    for fold in folds:
        train, validation = fold.log("train"), fold.log("validation")
        assert sorted([*train, *validation]) == log
        assert not {query for query, _, _ in train} & {query for query, _, _ in validation}
        assert (fold.count("train"), fold.count("validation")) == (len(train), len(validation))
    held_out = [{query for query, _, _ in fold.log("validation")} for fold in folds]
    all_held_out = [query for queries in held_out for query in queries]
    assert sorted(all_held_out) == sorted({query for query, _, _ in log})
    assert max(map(len, held_out)) - min(map(len, held_out)) <= 1


def test_a_fold_weighs_and_counts_the_clicks_of_its_training_split(tmp_path):
    log = [click._replace(clicks=click.clicks + 0.375) for click in click_log()]
    data = Preprocessed(write_data(tmp_path / "data", log).path)
    settings = parse_config(config(training__click_weight="linear"))
    for index in range(FOLDS):
        fold = data.fold(index, FOLDS)
        clicks, queries = Counter[str](), Counter[str]()
        for _, title, count in fold.log("train"):
            clicks[title] += count
            queries[title] += 1
        assert {title.text: title.queries for title in fold.titles if title.queries} == queries
        # A title's sum is rounded, as in preprocess; a pair's clicks are not.
        assert {title.text: title.clicks for title in fold.titles if title.clicks} == {
            title: round(count) for title, count in clicks.items()
        }
        batches = batches_of(settings, fold).epochs(None, 0, 1)
        weights = np.concatenate([weights_of_step.numpy() for _, _, weights_of_step in batches])
        assert np.mean(weights) == approx(1, rel=1e-5)
        assert not np.allclose(weights, np.rint(weights))


def test_epoch_and_weight_are_the_best_by_the_mean_over_all_queries():
    # Values `(epochs, queries)` of two epochs and four queries, without and with the prior.
    by_cosine = np.array([[1.0, 0.1, 0.1, 0.1], [0.5, 0.5, 0.5, 0.5]])
    with_prior = np.array([[0.0, 1.0, 1.0, 1.0], [0.6, 0.5, 0.5, 0.7]])
    values = np.stack([by_cosine, with_prior], axis=1)[..., None].repeat(3, axis=3)
    losses = [[{"loss": 3.0, "val_loss": 1.0}, {"loss": 2.0, "val_loss": 2.0}]] * 2
    choice = _choose(values, losses, "ndcg@10", [0.0, 0.1])
    assert (choice.best_epoch, choice.prior_weight) == (2, 0.1)
    assert choice.metrics["ndcg@10"] == approx(0.575)
    assert choice.metrics["similarity ndcg@10"] == approx(0.5)
    assert choice.metrics["low ndcg@1"] < 0.575 < choice.metrics["high ndcg@1"]
    assert choice.metrics["queries"] == 4
    assert [epoch["ndcg@3"] for epoch in choice.history] == approx([0.325, 0.5])
    assert [epoch["best"] for epoch in choice.history] == [0.0, 1.0]
    assert _choose(values, losses, "val_loss", [0.0, 0.1]).best_epoch == 1
    equal = np.full((1, 3, 2, 3), 0.5)
    assert _choose(equal, [losses[0][:1]], "ndcg@10", [0.0, 0.1, 0.2]).prior_weight == 0


def test_the_run_is_trained_on_all_records_for_the_chosen_epochs(cross_validated_run, data, folder):
    run, settings, result = cross_validated_run
    assert not (run / "state").exists()
    assert (result.epochs, len(result.history), result.refitted) == (3, 3, True)
    assert result.metrics["queries"] == len({click.query for click in click_log()})
    loop = build_loop(
        parse_config(config(**settings)),
        Preprocessed(data.path),
        devices=Devices.choose(),
        options=LoopOptions(folder / "loop", quiet=True),
    )
    loop.fit("fit", ("train", "validation"), result.best_epoch)
    weights = SemanticRanker.load(run).model.get_weights()
    for weight, expected in zip(weights, loop.ranking_model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)


def test_the_model_card_describes_the_cross_validation(cross_validated_run):
    run, _, result = cross_validated_run
    card = (run / "MODEL_CARD.md").read_text("utf-8")
    assert f"{result.best_epoch}, the best of 3 by cross-validation; trained on all records" in card
    assert "Each query of the log was held out once, in 2 trainings" in " ".join(card.split())
    assert json.loads((run / "history.json").read_text("utf-8")) == result.history
    assert SemanticRanker.load(run).prior_weight == result.prior_weight


def test_folds_are_refused_with_judgments_or_an_earlier_run(
    data, cross_validated_run, write, tmp_path
):
    lists = write("judgments.tsv", "query\ttitle\tgrade\nfox\tred fox\t2\n")
    for changes, start in (({"judgments__file": str(lists)}, None), ({}, cross_validated_run[0])):
        with pytest.raises(UserError, match=r"training\.folds is for training from scratch"):
            trained(data, tmp_path / "none", start=start, training__folds=2, **changes)
    assert not (tmp_path / "none").exists()
