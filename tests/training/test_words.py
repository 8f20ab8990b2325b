"""Trainings of the tower `words` with the score `maxsim`: starts, resume, warm start, refusals."""

from __future__ import annotations

import json

import keras
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config, parse_config
from dssm_tf.config.load import find_config
from dssm_tf.model.load_run import load_run
from dssm_tf.training.train import train
from tests.clicks import Click, click_log, write_data
from tests.training.configuration import equal

CONFIG = {
    "tower": {"name": "words", "units": 8, "dropout": 0.1},
    "score": {"name": "maxsim"},
    "shared_towers": True,
    "whole_words": True,
    "optimizer": {"learning_rate": 0.02},
    "start": {"spelling": "auto"},
    "training": {
        "epochs": 2,
        "batch_size": 16,
        "averaging": 0.5,
        "title_queries": 2,
        "neighboring_words": 0.5,
        "letters_only": 0.3,
        "typos": 0.3,
        "idf_start": True,
        "refit": True,
    },
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("words") / "data", click_log())


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    train(parse_config(CONFIG), data.path, out, quiet=True)
    return out


def test_validation_chooses_between_random_and_spelled_rows(run):
    ranking = json.loads((run / "ranking.json").read_text("utf-8"))
    assert [stage["name"] for stage in ranking["stages"]] == ["random rows", "spelling"]
    assert all(0 <= stage["ndcg@10"] <= 1 for stage in ranking["stages"])
    card = (run / "MODEL_CARD.md").read_text("utf-8")
    assert card.startswith("# maxsim\n")
    assert "| start | spelling: validation NDCG@10" in card


class EpochCounter(keras.callbacks.Callback):
    """Counts the steps and epochs of all phases of a training."""

    def __init__(self):
        super().__init__()
        self.steps, self.epochs = 0, 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1

    def on_epoch_end(self, epoch, logs=None):
        self.epochs += 1


def train_and_count(data, out, start, **settings):
    training = CONFIG["training"] | {"refit": False} | settings
    counter = EpochCounter()
    config = parse_config(CONFIG | {"training": training, "start": start})
    return train(config, data.path, out, quiet=True, callbacks=[counter]), counter


def test_the_better_start_continues_after_the_compared_epochs(data, tmp_path, monkeypatch):
    monkeypatch.setattr("dssm_tf.training.train.COMPARED_STEPS", 1)  # one epoch of each start
    result, counter = train_and_count(data, tmp_path / "run", {"spelling": "auto"}, epochs=3)
    assert len(result.history) == 3
    assert counter.epochs == 1 + 3


def test_training_takes_the_whole_epochs_within_max_steps(data, tmp_path):
    start = {"spelling": False}
    _, counter = train_and_count(data, tmp_path / "one", start, max_steps=1)
    assert counter.epochs == 1
    limit = 2 * counter.steps + 1
    result, _ = train_and_count(data, tmp_path / "two", start, max_steps=limit, epochs=9)
    assert len(result.history) == 2


def test_a_trained_model_ranks_the_clicked_titles_first(run, data):
    ranker = load_run(run)
    clicks = data.pairs["train"]
    first = [ranker.rank(click.query, data.titles)[0].title for click in clicks]
    clicked = [
        any(other == (click.query, title, other.clicks) for other in clicks)
        for click, title in zip(clicks, first, strict=True)
    ]
    assert sum(clicked) > 0.6 * len(clicked)


@pytest.mark.numeric
def test_two_trainings_are_equal_to_the_bit(run, data, tmp_path):
    train(parse_config(CONFIG), data.path, tmp_path / "again", quiet=True)
    assert equal(run, tmp_path / "again")


def test_a_warm_start_keeps_the_scores_of_the_earlier_run(run, data, tmp_path):
    known = load_run(run).vocabulary
    later = write_data(
        tmp_path / "later",
        [*click_log(), Click("purple fox", "the purple fox")],
        earlier_vocabulary=known,
        rules=known.rules,
    )
    config = {**CONFIG, "training": CONFIG["training"] | {"epochs": 1, "refit": False}}
    config["optimizer"] = {"learning_rate": 1e-9}
    train(parse_config(config), later.path, tmp_path / "out", start=run, quiet=True)
    before, after = load_run(run), load_run(tmp_path / "out")
    importance = [ranker.model.score.importance.numpy() for ranker in (before, after)]
    rows = len(before.vocabulary.ngrams) + 1
    assert importance[1].shape[0] > rows
    assert importance[1][:rows] == pytest.approx(importance[0], abs=1e-5)


def test_the_default_configuration_is_maxsim():
    config = load_config(find_config("maxsim"))
    assert (config.model_name, config.tower.name) == ("maxsim", "words")
    assert config.letter_ngrams == ("pairs", "trigrams", "sorted_trigrams")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tower": {"name": "dssm"}, "start": {}}, "needs the tower words; received dssm"),
        ({"shared_towers": False}, "needs shared_towers: true"),
        ({"whole_words": False}, "whole_words: true; received words and whole_words: false"),
        (
            {"tower": {"name": "dssm"}, "score": {"name": "cosine"}},
            "start: vectors and spelling are for the tower words",
        ),
    ],
)
def test_combinations_that_cannot_be_trained_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        parse_config(CONFIG | changes)


def test_a_missing_source_of_start_vectors_is_refused_before_anything_else(data, tmp_path):
    config = parse_config(CONFIG | {"start": {"vectors": "nowhere.vec"}})
    with pytest.raises(UserError, match=r"'nowhere\.vec', and there is no such file"):
        train(config, data.path, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
