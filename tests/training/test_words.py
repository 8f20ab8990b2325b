"""Trainings of the tower `words` with the score `maxsim`: starts, resume, warm start, refusals."""

from __future__ import annotations

import json
import re
import signal

import keras
import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config, parse_config
from dssm_tf.config.load import find_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.load_run import load_run
from dssm_tf.text.letter_ngrams import WHOLE_WORD
from dssm_tf.text.rules import TextRules
from dssm_tf.training.loop import TrainingLoop
from dssm_tf.training.run_directory import Result
from dssm_tf.training.train import train
from tests.clicks import Click, click_log, write_data
from tests.data.graded.files import lists, write
from tests.rounding import rounding_bound
from tests.training.configuration import assert_near, batches_of, equal

pytestmark = pytest.mark.long  # trainings

CONFIG = {
    "tower": {"name": "words", "units": 8, "dropout": 0.1},
    "score": {"name": "maxsim", "text_cosine": "auto", "text_units": 6, "text_dropout": 0.3},
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
    assert sum(stage["chosen"] for stage in ranking["stages"]) == 1
    card = (run / "MODEL_CARD.md").read_text("utf-8")
    assert card.startswith("# maxsim\n")
    assert "| start | spelling: validation NDCG@10" in card
    compared = [stage["compared"] for stage in ranking["stages"]]
    assert [values["epochs"] for values in compared] == [2, 2]
    best = max(values["ndcg@10"] for values in compared)
    history = json.loads((run / "history.json").read_text("utf-8"))
    assert best == max(epoch["ndcg@10"] for epoch in history)
    [chosen] = [stage for stage in ranking["stages"] if stage["chosen"]]
    assert chosen["compared"]["ndcg@10"] == best
    assert f" before clicks; NDCG@10 {best:.4f}, the best of 2 epochs; chosen |" in card
    assert card.count("; chosen |") == 1


def test_the_model_card_names_the_words_of_queries_that_the_run_contains(run):
    card = " ".join((run / "MODEL_CARD.md").read_text("utf-8").split())
    counts = load_run(run).vocabulary.counts
    words = counts.pop(WHOLE_WORD)
    assert f"| {sum(counts.values()):,}, and {words:,} words with rows of their own" in card
    assert "each word that occurs at least twice in the queries and titles" in card


def test_no_metric_of_a_model_without_vectors_is_called_a_cosine(run):
    for name in ("MODEL_CARD.md", "ranking.json", "history.json"):
        text = (run / name).read_text("utf-8")
        assert "cosine" not in text.replace("times the cosine of text vectors", "")


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
    monkeypatch.setattr("dssm_tf.training.fitting.COMPARED_STEPS", 1)  # one epoch of each start
    result, counter = train_and_count(data, tmp_path / "run", {"spelling": "auto"}, epochs=3)
    assert len(result.history) == 3
    assert counter.epochs == 1 + 3


@pytest.mark.slow
def test_a_training_interrupted_after_the_choice_records_the_compared_epochs_only(
    data, tmp_path, monkeypatch
):
    monkeypatch.setattr("dssm_tf.training.fitting.COMPARED_STEPS", 1)  # one epoch of each start
    training = CONFIG["training"] | {"epochs": 4, "refit": False, "save_every": 1}
    training["monitor"] = "val_loss"  # which later epochs improve
    config = parse_config(CONFIG | {"training": training})
    expected = train(config, data.path, tmp_path / "expected", quiet=True)

    class Interrupt(EpochCounter):
        def on_epoch_end(self, epoch, logs=None):
            super().on_epoch_end(epoch, logs)
            if self.epochs == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, data.path, tmp_path / "run", quiet=True, callbacks=[Interrupt()])
    resumed = train(config, data.path, tmp_path / "run", quiet=True)
    assert resumed.stages == expected.stages


@pytest.mark.parametrize("epochs", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_training_takes_the_whole_epochs_within_max_steps_but_at_least_one(data, tmp_path, epochs):
    steps = batches_of(parse_config(CONFIG), Preprocessed(data.path).with_whole_words()).steps
    limit = 2 * steps + 1 if epochs == 2 else 1
    result, counter = train_and_count(
        data, tmp_path / "run", {"spelling": False}, max_steps=limit, epochs=9
    )
    assert counter.epochs == len(result.history) == epochs


def test_a_trained_model_ranks_the_clicked_titles_first(run, data):
    ranker = load_run(run)
    clicks = data.pairs["train"]
    first = [ranker.rank(click.query, data.titles)[0].title for click in clicks]
    clicked_pairs = {(click.query, click.title) for click in clicks}
    is_clicked = [
        (click.query, title) in clicked_pairs for click, title in zip(clicks, first, strict=True)
    ]
    assert np.mean(is_clicked) > 0.6


@pytest.mark.slow
@pytest.mark.numeric
def test_two_trainings_are_equal_to_the_bit(run, data, tmp_path):
    train(parse_config(CONFIG), data.path, tmp_path / "again", quiet=True)
    assert equal(run, tmp_path / "again")


def test_a_warm_start_keeps_the_scores_and_needs_no_start_vectors(run, data, tmp_path):
    known = load_run(run).vocabulary
    # Without a corpus: most titles of the earlier run are not in today's log.
    later = write_data(
        tmp_path / "later",
        [*click_log()[:8], Click("purple fox", click_log()[0].title)],
        earlier_vocabulary=known,
        rules=known.rules,
    )
    config = {**CONFIG, "training": CONFIG["training"] | {"epochs": 1, "refit": False}}
    config |= {"optimizer": {"learning_rate": 1e-9}, "start": {"vectors": "missing.vec"}}
    result = train(parse_config(config), later.path, tmp_path / "out", start=run, quiet=True)
    assert result.epochs == 1
    before, after = load_run(run), load_run(tmp_path / "out")
    rows = len(before.vocabulary.ngrams) + 1
    for extended, matrix in zip(ngram_matrices(after), ngram_matrices(before), strict=True):
        assert extended.shape[0] > rows
        assert extended[:rows] == pytest.approx(matrix, abs=1e-5)
        assert abs(extended[rows:]).max() < 1e-5
    queries = [click.query for click in click_log()[20:]]
    scores = [ranker.similarity_matrix(queries, data.titles) for ranker in (before, after)]
    assert scores[1] == pytest.approx(scores[0], abs=1e-5)
    assert after.frequencies == before.frequencies


def ngram_matrices(ranker):
    """The matrices of a model that have a row per letter n-gram."""
    score = ranker.model.score
    kernels = ranker.model.query_tower.hashing.kernel, score.text_hashing.kernel
    return [matrix.numpy() for matrix in (*kernels, score.importance, score.text_importance)]


def test_text_vectors_are_trained_with_clicks(run):
    ranker = load_run(run)
    assert ranker.config.score.text_cosine == 0.15
    assert ranker.maxsim.text_vectors.factor == 0.15
    assert ranker.maxsim.text_vectors.importance.any()
    card = " ".join((run / "MODEL_CARD.md").read_text("utf-8").split())
    assert "The score includes 0.15 times the cosine of text vectors of length 6." in card


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text_cosine": 0}, "score.text_cosine was 'above 0', now 0"),
        ({"text_units": 5}, "score.text_units was 6, now 5"),
    ],
)
def test_a_warm_start_without_or_with_other_text_vectors_is_refused(
    run, data, tmp_path, changes, message
):
    config = parse_config(CONFIG | {"score": CONFIG["score"] | changes})
    with pytest.raises(UserError, match=re.escape(message)):
        train(config, data.path, tmp_path / "out", start=run, quiet=True)


def test_a_warm_start_may_change_the_factor_of_the_cosine(run, data, tmp_path):
    config = parse_config(
        CONFIG
        | {"score": CONFIG["score"] | {"text_cosine": 0.3}}
        | {"training": CONFIG["training"] | {"epochs": 1, "refit": False}}
    )
    train(config, data.path, tmp_path / "out", start=run, quiet=True)
    assert load_run(tmp_path / "out").maxsim.text_vectors.factor == 0.3


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
            {"training": {"precision": "mixed_bfloat16"}},
            "training.precision: maxsim is trained in float32; received mixed_bfloat16",
        ),
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


GRADED = {
    "judgments": {"validation": 0.3, "batch_size": 8, "loss": {"name": "listwise_softmax"}},
    "teacher": {"validation": 0.3, "batch_size": 8, "loss": {"name": "margin_mse"}},
}


@pytest.mark.parametrize(
    ("section", "column", "clicks"),
    [
        ("judgments", "grade", True),
        pytest.param("judgments", "grade", False, marks=pytest.mark.slow),
        ("teacher", "score", True),
    ],
)
def test_grades_and_scores_of_a_teacher_are_learned(
    data, catalog_data, tmp_path, section, column, clicks
):
    """With clicks, and from a catalog without any."""
    records = data if clicks else catalog_data
    file = write(tmp_path / "lists.tsv", data, column, queries=40)
    training = CONFIG["training"] | {"refit": False, "title_queries": 0, "epochs": 10}
    training["monitor"] = "val_loss"
    if clicks:
        training["clicks"] = False  # so that only the lists are learned
    config = CONFIG | {
        "training": training,
        "start": {"spelling": False},
        section: GRADED[section] | {"file": str(file)},
    }
    result = train(parse_config(config), records.path, tmp_path / "run", quiet=True)
    losses = [epoch["loss"] for epoch in result.history]
    assert losses[-1] < losses[0]
    ranker = load_run(tmp_path / "run")
    new = [judged for judged in lists(data, 40, seed=9) if len(set(judged.values)) > 1]
    best = [
        judged.values[int(np.argmax(ranker.score(judged.query, judged.titles)))]
        == max(judged.values)
        for judged in new
    ]
    assert np.mean(best) > 0.8
    assert ranker.maxsim.text_vectors is not None
    assert f"| {section} | " in (tmp_path / "run" / "MODEL_CARD.md").read_text("utf-8")


@pytest.fixture(scope="module")
def catalog_data(data, tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("catalog") / "data", [], corpus=data.titles)


def test_cross_validation_chooses_the_start_and_trains_it_on_all_records(
    data, tmp_path, monkeypatch
):
    starts = []

    def cross_validated(*arguments):
        starts.append(arguments[-1])
        ndcg = 0.1 * len(starts)
        return Result(1, 1, [{"ndcg@10": ndcg}], 0.0, refitted=True)

    monkeypatch.setattr("dssm_tf.training.fitting.choose_epochs_by_folds", cross_validated)
    refits = []
    monkeypatch.setattr(
        TrainingLoop, "fit", lambda self, *arguments, weights, save_at_end: refits.append(weights)
    )
    training = CONFIG["training"] | {"folds": 2}
    config = parse_config(CONFIG | {"training": training})
    result = train(config, data.path, tmp_path / "run", quiet=True)
    assert result.stages == [
        {"name": "random rows", "ndcg@10": 0.1, "chosen": False},
        {"name": "spelling", "ndcg@10": 0.2, "chosen": True},
    ]
    random_rows, spelled = starts
    assert not np.array_equal(random_rows[0], spelled[0])
    assert refits[0] is spelled


def test_folds_are_trained_from_each_start(data, tmp_path):
    training = CONFIG["training"] | {"folds": 2}
    config = parse_config(CONFIG | {"training": training})
    result = train(config, data.path, tmp_path / "run", quiet=True)
    assert [stage["name"] for stage in result.stages] == ["random rows", "spelling"]
    assert sum(stage["chosen"] for stage in result.stages) == 1
    [chosen] = [stage for stage in result.stages if stage["chosen"]]
    assert chosen["ndcg@10"] == result.history[result.best_epoch - 1]["ndcg@10"]
    assert result.refit_epochs == result.best_epoch
    assert result.history[-1]["loss"] < result.history[0]["loss"]
    ranker = load_run(tmp_path / "run")
    click = data.pairs["train"][0]
    assert ranker.rank(click.query, data.titles)[0].title


# No dropout: its random numbers depend on the shape of a replica's batch. Plain SGD amplifies
# rounding less than Adam.
DEVICES = CONFIG | {
    "tower": {"name": "words", "units": 8},
    "negatives": {"recorded": 2, "in_batch": False},
    "score": CONFIG["score"] | {"text_dropout": 0.0},
    "start": {"spelling": False},
    "optimizer": {"name": "sgd", "learning_rate": 0.1},
    "training": CONFIG["training"] | {"epochs": 1, "refit": False, "title_queries": 0},
}


@pytest.mark.slow
@pytest.mark.numeric
def test_two_devices_have_the_losses_and_the_weights_of_one(data, processes, tmp_path):
    runs = [
        processes.start(DEVICES, data.path, tmp_path / str(devices), devices=devices)
        for devices in (1, 2)
    ]
    histories = [run.wait().result["history"] for run in runs]
    # 3 steps, each of which adds a sum over 16 pairs of 3 candidates to weights of about 1.
    tolerance = rounding_bound(3 * 16 * 3, 1)
    assert_near(tmp_path / "1", tmp_path / "2", *histories, tolerance)


@pytest.mark.slow
def test_the_shipped_settings_train_on_two_devices(data, processes, tmp_path):
    """With in-batch negatives, titles as queries, typing errors, dropout, starts and refit."""
    config = CONFIG | {"negatives": {"in_batch": True}}
    config["training"] = CONFIG["training"] | {"epochs": 8}
    result = processes.train(config, data.path, tmp_path / "run", devices=2).result
    losses = [epoch["loss"] for epoch in result["history"]]
    assert losses[-1] < losses[0]
    ranker = load_run(tmp_path / "run")
    clicks = data.pairs["train"]
    clicked = {(click.query, click.title) for click in clicks}
    first = [(click.query, ranker.rank(click.query, data.titles)[0].title) for click in clicks]
    assert np.mean([pair in clicked for pair in first]) > 0.6


@pytest.mark.numeric
def test_a_training_killed_in_its_second_start_equals_an_uninterrupted_one(
    data, processes, tmp_path
):
    training = CONFIG["training"] | {"epochs": 1, "save_every": 2, "refit": False}
    config = CONFIG | {"training": training}
    counter = EpochCounter()
    expected = train(
        parse_config(config), data.path, tmp_path / "expected", quiet=True, callbacks=[counter]
    )
    in_second_start = counter.steps // 2 + 3
    killed = processes.train(
        config, data.path, tmp_path / "killed", die_at=("batch", in_second_start)
    )
    assert killed.signal == signal.SIGKILL, killed
    finished = processes.train(config, data.path, tmp_path / "killed")
    assert finished.result["history"] == expected.history
    assert finished.result["stages"] == expected.stages
    assert equal(tmp_path / "expected", tmp_path / "killed")


@pytest.mark.parametrize("own_fields", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_titles_of_several_fields_are_trained_on(own_fields, tmp_path):
    clicks = [
        Click(click.query, f"{click.title}␟brand {click.title[0]}", click.clicks)
        for click in click_log()
    ]
    data = write_data(tmp_path / "data", clicks, rules=TextRules(False, own_fields=own_fields))
    training = CONFIG["training"] | {"epochs": 1, "refit": False}
    config = CONFIG | {"training": training, "start": {"spelling": True}}
    train(parse_config(config), data.path, tmp_path / "run", quiet=True)
    ranker = load_run(tmp_path / "run")
    title = next(title for title in data.titles if title.startswith("red fox"))
    matches = {
        match.word: match.matched_word for match in ranker.word_matches("red fox", title).title
    }
    assert matches["red"] == "red"
    assert ("1␟brand" in matches) == (own_fields == 2)
