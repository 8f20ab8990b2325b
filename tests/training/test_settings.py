"""`dssm train` under other settings, and those it refuses beforehand."""

from __future__ import annotations

import math
from dataclasses import replace

import keras
import numpy as np
import pytest
from pytest import approx

import dssm_tf
from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config, parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.training import fitting, keeper
from dssm_tf.training.devices import read_cluster
from dssm_tf.training.train import settled, train
from dssm_tf.training.validation import ValidationTask, encoded
from tests.clicks import Click, click_log, write_data
from tests.rounding import rounding
from tests.training.configuration import CONFIG, config, equal


def test_an_lstm_trained_in_reduced_precision_is_measured_in_float32(data, folder, monkeypatch):
    measured = []

    def watched(encode, task):
        measured.append(encoded(encode, task))
        return measured[-1]

    monkeypatch.setattr(keeper, "encoded", watched)
    tower = {"name": "lstm", "cells": 4}
    raw = config(tower=tower, training__precision="mixed_bfloat16", training__epochs=1)
    result = train(parse_config(raw), data.path, folder / "bfloat16", quiet=True)
    assert np.isfinite(result.history[0]["loss"])
    ranker = SemanticRanker.load(folder / "bfloat16")
    task = ValidationTask.of(Preprocessed(data.path), 2000, 20000)
    expected = ranker.encode_queries(task.queries), ranker.encode_titles(task.titles)
    # Vectors of some 20 trigrams through 4 cells; bfloat16 would be off by some 2^-8.
    for found, vectors in zip(measured[0], expected, strict=True):
        assert found == approx(vectors, abs=rounding(24, 2))


def test_data_without_a_validation_part_keeps_the_epoch_of_the_lowest_loss(tmp_path):
    data = write_data(tmp_path / "data", click_log(24), validation=())
    raw = config(training__monitor="ndcg@10", ranking={"prior": "auto"})
    result = train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
    losses = [epoch["loss"] for epoch in result.history]
    assert result.best_epoch == 1 + int(np.argmin(losses))
    assert result.ndcg == {}
    assert result.prior_weight == 0
    assert "no validation part" in (tmp_path / "run" / "MODEL_CARD.md").read_text("utf-8")
    assert len(SemanticRanker.load(tmp_path / "run").score("red fox", ["red fox", "owl"])) == 2


@pytest.mark.parametrize(
    ("refit", "share", "says"),
    [
        pytest.param(
            True,
            1,
            "trained anew on training and validation part for as many",
            marks=pytest.mark.slow,
        ),
        ("continue", 2 / 3, "trained on, on training and validation part, for two thirds as many"),
    ],
)
def test_every_epoch_of_both_trainings_is_told(data, tmp_path, refit, share, says):
    told, total = [], 5
    raw = config(training__epochs=total, training__patience=total, training__refit=refit)
    raw["optimizer"]["learning_rate"] = 0.002  # the last epoch is the best
    result = train(
        parse_config(raw),
        data.path,
        tmp_path / "run",
        quiet=True,
        told=lambda *one: told.append(one),
    )
    assert result.best_epoch == total
    epochs = math.ceil(total * share)
    expected = [("fit", epoch) for epoch in range(1, total + 1)]
    expected += [("refit", epoch) for epoch in range(1, epochs + 1)]
    assert [(phase, epoch) for phase, epoch, _ in told] == expected
    assert all("loss" in metrics for *_, metrics in told)
    assert f"; then {says}" in (tmp_path / "run" / "MODEL_CARD.md").read_text("utf-8")


@pytest.mark.parametrize("optimizer", ["adam", pytest.param("nesterov", marks=pytest.mark.slow)])
def test_going_on_starts_from_the_best_epoch_s_weights(data, tmp_path, monkeypatch, optimizer):
    raw = config(training__epochs=3, training__refit="continue", training__monitor="ndcg@1")
    raw["optimizer"] = {"learning_rate": 0.02, "name": optimizer}
    started, best, fit = [], [], fitting.fit

    def watched(model, *arguments):
        started.append(list(map(keras.ops.convert_to_numpy, model.weights)))
        assert int(model.optimizer.iterations) == 0
        fit(model, *arguments)
        best.append(arguments[-1][0].best)

    monkeypatch.setattr(fitting, "fit", watched)
    train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
    assert all(np.array_equal(*pair) for pair in zip(started[1], best[0], strict=True))
    assert not all(np.array_equal(*pair) for pair in zip(started[1], started[0], strict=True))
    assert not all(np.array_equal(*pair) for pair in zip(best[1], best[0], strict=True))


def test_going_on_with_averages_starts_from_the_best_ones(data, tmp_path, monkeypatch):
    raw = config(training__refit="continue", training__averaging=0.9, tower__dropout=0.0)
    kept, fit = [], fitting.fit

    def watched(model, *arguments):
        if kept:  # going on, with steps that change nothing
            model.optimizer.learning_rate.assign(1e-12)
        fit(model, *arguments)
        kept.append(arguments[-1][0].best)

    monkeypatch.setattr(fitting, "fit", watched)
    train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
    assert all(np.allclose(*pair, atol=1e-7) for pair in zip(*kept, strict=True))
    assert len(kept) == 2


def test_going_on_that_is_interrupted_ends_as_if_it_had_not_been(data, tmp_path):
    raw = config(training__epochs=6, training__refit="continue", optimizer__learning_rate=0.004)
    train(parse_config(raw), data.path, tmp_path / "whole", quiet=True)

    def stop(phase, done, epochs):
        if phase == "refit" and done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(parse_config(raw), data.path, tmp_path / "cut", quiet=True, told=stop)
    train(parse_config(raw), data.path, tmp_path / "cut", quiet=True)
    assert equal(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
def test_compiled_by_xla_the_losses_are_the_same(data, folder):
    found = [
        train(parse_config(raw), data.path, folder / f"xla-{raw['training']['xla']}", quiet=True)
        for raw in (
            config(training__xla=choice, tower__dropout=0.0, shared_towers=True)
            for choice in (False, True)
        )
    ]
    plain, compiled = (result.history for result in found)
    for one, other in zip(plain, compiled, strict=True):
        assert other["loss"] == approx(one["loss"], rel=1e-4)
        assert other["val_loss"] == approx(one["val_loss"], rel=1e-4)


def test_more_negatives_than_were_recorded_are_refused(data, tmp_path):
    raw = config(negatives={"recorded": 5})
    with pytest.raises(UserError, match=r"negatives.recorded: 5 .* holds 4 .*--negatives 5"):
        train(parse_config(raw), data.path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_click_without_any_rival_is_refused(data, tmp_path):
    raw = config(negatives={"recorded": 0, "in_batch": False})
    with pytest.raises(UserError, match="the click needs rivals"):
        train(parse_config(raw), data.path, tmp_path / "run")


def test_records_without_negatives_and_no_other_rivals_are_refused(tmp_path):
    log = [Click(query, "red fox") for query in ("fox", "red", "fur")]
    data = write_data(tmp_path / "data", log, validation=())
    raw = config(negatives={"recorded": 2, "in_batch": False})
    with pytest.raises(UserError, match=r"no record holds a negative.*nothing to tell"):
        train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_no_training_records_are_a_message(tmp_path):
    log = click_log(10)
    data = write_data(tmp_path / "data", log, validation={click.query for click in log})
    with pytest.raises(UserError, match="holds no training records"):
        train(parse_config(CONFIG), data.path, tmp_path / "run")


@pytest.mark.parametrize(
    "value",
    [
        "not json",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_an_unusable_tf_config_is_explained(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match="TF_CONFIG is not usable"):
        read_cluster()


@pytest.mark.parametrize(
    ("titles", "gamma"),
    [(1, 10.0), (2_500, 10.0), (4_000, 16.0), (6_250, 25.0), (54_667, 25.0)],
)
def test_an_automatic_gamma_grows_with_the_catalogue(data, titles, gamma):
    raw = config(loss={"gamma": "auto"})
    read = Preprocessed(data.path)
    read.spec = replace(read.spec, rows={"titles": [titles]})
    assert settled(parse_config(raw), read)[0].loss.arguments["gamma"] == gamma
    fixed = parse_config(config(loss={"gamma": 7}))
    assert settled(fixed, read)[0] == fixed


def test_the_run_says_which_gamma_was_chosen(data, folder):
    raw = config(loss={"gamma": "auto"}, training__epochs=1)
    train(parse_config(raw), data.path, folder / "auto", quiet=True)
    assert load_config(folder / "auto" / "config.yaml").loss.arguments["gamma"] == 10
    again = train(parse_config(raw), data.path, folder / "auto", quiet=True)
    assert again.seconds == 0  # the same run, finished
    assert dssm_tf.ClickData(data.path, raw).loss().parameters["gamma"] == 10


@pytest.mark.parametrize("gamma", ["max", 0, -1])
def test_a_gamma_that_is_no_number_says_what_it_may_be(gamma):
    with pytest.raises(UserError, match=r"loss\.gamma: .*greater than 0|loss\.gamma: .*'auto'"):
        parse_config(config(loss={"gamma": gamma}))
