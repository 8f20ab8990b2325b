"""Training on the titles of a corpus, without clicks."""

from __future__ import annotations

from collections import Counter

import keras
import numpy as np
import pytest

import dssm_tf
from dssm_tf.common.errors import UserError
from dssm_tf.config import find_config, load_config, parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.run_files import is_finished, training_query_ids
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.training.train import train, validation_task
from dssm_tf.training.validation import (
    GRADED_BY_TITLES,
    ValidationTask,
    validation_title_queries,
)
from tests.clicks import Click, catalog, rows_of, texts_of, write_data
from tests.data.graded.files import write
from tests.training.configuration import batches_of, config, equal, trained

pytestmark = pytest.mark.long  # trainings

SETTINGS = {
    "training__monitor": "ndcg@10",
    "training__title_queries": 1,
    "training__typos": 0.3,
    "training__batch_size": 32,
    "training__refit": True,
    "whole_words": True,
}


@pytest.fixture(scope="module")
def titles(tmp_path_factory):
    others = ["red fox", "?!"]
    return write_data(tmp_path_factory.mktemp("titles") / "data", [], corpus=[*catalog(), *others])


def settings(**changes):
    return parse_config(config(**{**SETTINGS, **changes}))


def test_each_title_is_a_query_once_per_epoch_whatever_the_number_per_click(titles):
    data = Preprocessed(titles.path)
    for number in (0.1, 1, 5):
        batches = batches_of(settings(training__title_queries=number), data)
        assert batches.validation() is None
        rows = [row for element in batches.epochs(3, 0, 1) for row in rows_of(*element)]
        counts = Counter(row.clicked for row in rows if row.weight > 0)
        assert counts == Counter(
            tuple(data.vocabulary.look_up(word) for word in data.vocabulary.words(title))
            for title in titles.titles
            if title != "?!"
        )
        assert all(row.clicked not in row.negatives for row in rows)


def test_no_title_is_trained_on_with_the_words_of_a_validation_query(titles):
    data = Preprocessed(titles.path)
    words, _ = data.distinct_words
    held_out = {
        frozenset(data.vocabulary.look_up(words[index]) for index in query.words)
        for query in validation_title_queries(data)
    }
    batches = batches_of(settings(training__typos=0.0, training__batch_size=301), data)
    queries = {
        frozenset(query)
        for inputs, _, weights in batches.epochs(0, 0, 20)
        for query in texts_of(inputs, len(weights))[0]
    }
    assert len(held_out) > 100
    assert len(queries) > 500
    assert queries.isdisjoint(held_out)


@pytest.mark.numeric
def test_the_configuration_dssm_trains_and_a_resumed_training_is_equal(titles, tmp_path, capsys):
    chosen = load_config(find_config("dssm"), ["training.epochs=2", "tower.widths=[32]"])
    result = train(chosen, titles.path, tmp_path / "run")
    assert not (tmp_path / "run" / "state").exists()
    output = " ".join(capsys.readouterr().out.split())
    assert "training dssm on 302 titles: at most 2 epochs of 1 step " in output
    assert "The best weights are chosen on" in output
    assert "queries made from titles" in output
    assert "refit" not in output
    assert (result.epochs, result.refitted, result.prior_weight) == (2, False, 0.0)
    assert result.metrics["ndcg@10"] > 0.5
    assert result.metrics["queries"] == len(validation_title_queries(Preprocessed(titles.path)))

    class StopAfterOneEpoch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            chosen, titles.path, tmp_path / "resumed", quiet=True, callbacks=[StopAfterOneEpoch()]
        )
    resumed = train(chosen, titles.path, tmp_path / "resumed", quiet=True)
    assert (resumed.history, resumed.metrics) == (result.history, result.metrics)
    assert equal(tmp_path / "run", tmp_path / "resumed")


@pytest.fixture(scope="module")
def run(titles, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    return out, trained(titles, out, **SETTINGS)


def test_the_run_has_its_titles_no_query_and_a_model_card_without_a_log(run, titles):
    out, result = run
    assert result.validation_description == GRADED_BY_TITLES
    assert training_query_ids(out).tolist() == []
    ranker = SemanticRanker.load(out)
    # One click per title, and one more.
    assert ranker.prior(titles.titles) == pytest.approx(np.full(302, -np.log(303)))
    assert len(ranker.score("red fox", ["red fox", "never seen"])) == 2
    card = (out / "MODEL_CARD.md").read_text("utf-8")
    for text in (
        "| clicks | 0 |",
        "Queries made from titles rank the titles",
        "trained on titles alone. It has not learned from users",
    ):
        assert text in card
    for text in ("Clicks are not relevance", "weight of the log-prior, the best", "guessed query"):
        assert text not in card


def test_a_training_on_titles_that_becomes_significantly_worse_is_not_marked_as_finished(
    titles, tmp_path, monkeypatch
):
    best = dict.fromkeys(["ndcg@1", "ndcg@3", "ndcg@10"], 1.1)  # better than any ranking
    monkeypatch.setattr(ValidationTask, "ndcg", lambda *_: best)
    changes = ["start.vectors=none", "start.spelling=false", "letter_ngrams=[trigrams]"]
    chosen = load_config(find_config("maxsim"), changes)
    with pytest.raises(UserError, match="ranks the validation queries worse"):
        train(chosen, titles.path, tmp_path / "run", quiet=True)
    assert not is_finished(tmp_path / "run")


def test_titles_too_short_for_validation_queries_are_trained_on_for_all_epochs(tmp_path, capsys):
    data = write_data(tmp_path / "data", [], corpus=["red fox", "blue owl", "hat"])
    result = train(settings(training__epochs=2), data.path, tmp_path / "run")
    assert (result.epochs, result.best_epoch, result.metrics) == (2, 2, {})
    output = " ".join(capsys.readouterr().out.split())
    assert "There is no validation, so training takes all epochs" in output
    clicks = dssm_tf.ClickData(data.path, settings())
    with pytest.raises(UserError, match="no title with three different words"):
        clicks.ranking_validation()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training__title_queries": 0}, r"has no clicks.*set training\.title_queries=1"),
        ({"training__monitor": "val_loss"}, r"val_loss is the loss of validation clicks"),
        ({"training__folds": 2}, r"2 folds divide the queries of a log.*training\.folds=null"),
        ({"negatives": {"in_batch": False, "recorded": 2}}, r"set negatives\.in_batch=true"),
    ],
)
def test_settings_that_need_clicks_are_refused(titles, tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        trained(titles, tmp_path / "run", **{**SETTINGS, **changes})
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match=message):
        dssm_tf.ClickData(titles.path, settings(**changes))


@pytest.mark.parametrize("corpus", [["red wool fox"], ["red wool fox", "?!"]])
def test_one_title_with_words_is_nothing_to_learn_from(tmp_path, corpus):
    data = write_data(tmp_path / "data", [], corpus=corpus)
    with pytest.raises(UserError, match="it has 1 title and no clicks"):
        trained(data, tmp_path / "run", **SETTINGS)


@pytest.mark.slow
def test_fresh_negatives_are_enough(titles, tmp_path):
    changes = {"negatives": {"in_batch": False, "fresh": 3}, "training__epochs": 1}
    result = trained(titles, tmp_path / "run", **{**SETTINGS, **changes})
    assert result.history[0]["loss"] > 0


def test_keras_fit_trains_on_titles_as_dssm_train_does(titles, run, tmp_path):
    clicks = dssm_tf.ClickData(titles.path, settings())
    assert clicks.validation() is clicks.validation_steps is None
    model = clicks.build_model()
    model.compile(optimizer=clicks.optimizer(2), loss=clicks.loss())
    history = model.fit(
        clicks.training(2),
        epochs=2,
        steps_per_epoch=clicks.steps,
        callbacks=[clicks.ranking_validation()],
        shuffle=False,
        verbose=0,
    ).history
    for name in ("loss", "ndcg@10"):
        assert history[name] == pytest.approx([epoch[name] for epoch in run[1].history])
    clicks.save(model, tmp_path / "saved")
    assert "Queries made from titles" in (tmp_path / "saved" / "MODEL_CARD.md").read_text("utf-8")


def test_judgments_are_validated_on_and_refitted_to(titles, tmp_path):
    log = write_data(tmp_path / "log", [Click(f"query {n}", t) for n, t in enumerate(catalog(40))])
    judged = {"file": str(write(tmp_path / "judged.tsv", log)), "validation": 0.5, "max_grade": 9}
    changes = {"judgments": judged, "training__title_queries": 0}
    result = trained(titles, tmp_path / "run", **{**SETTINGS, **changes})
    assert result.refitted
    assert "Judged queries held out" in result.validation_description
    assert result.prior_weight == 0


def test_a_log_without_validation_clicks_still_has_no_validation(tmp_path):
    log = [Click(f"query {n}", title) for n, title in enumerate(catalog(30))]
    data = Preprocessed(write_data(tmp_path / "data", log, validation=()).path)
    assert validation_task(settings().validation, data, None) is None
    assert validation_title_queries(data) == []


def test_a_run_on_titles_starts_a_run_on_clicks_and_the_reverse(titles, run, tmp_path):
    log = [Click(title.split()[0], title, 3) for title in catalog(40)]
    vocabulary = Preprocessed(titles.path).with_whole_words().vocabulary
    now = write_data(tmp_path / "now", log, earlier_vocabulary=vocabulary, corpus=catalog())
    changes = {**SETTINGS, "training__epochs": 1, "training__refit": False}
    trained(now, tmp_path / "clicks", start=run[0], **changes)
    later = write_data(
        tmp_path / "later",
        [],
        corpus=catalog(),
        earlier_vocabulary=Preprocessed(now.path).with_whole_words().vocabulary,
    )
    result = trained(later, tmp_path / "later run", start=tmp_path / "clicks", **changes)
    assert result.validation_description == GRADED_BY_TITLES
    assert len(SemanticRanker.load(tmp_path / "later run").prior.log_priors) > 0
