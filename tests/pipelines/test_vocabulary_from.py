"""Preprocess of today's log with the letter trigrams of an earlier output."""

from __future__ import annotations

import json

import numpy as np

from dssm_tf.config import parse_config
from dssm_tf.data.format import Spec, load_vocabulary
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.semantic_ranker import Encoder, SemanticRanker, build_model
from dssm_tf.training.keeper import put
from dssm_tf.training.train import train
from dssm_tf.training.warm_start import WarmStart
from pipelines import preprocess

YESTERDAY = "query\ttitle\nred cat\tthe cat\nred dog\tthe dog\n"
TODAY = "query\ttitle\nblue cat\tthe owl\n"
ALL = ("--validation-fraction", "0")


def vocabulary(path):
    return load_vocabulary(path, Spec.load(path))


def test_the_earlier_trigrams_keep_their_ids_and_records_use_the_new_ones(run):
    before = run(YESTERDAY, *ALL)
    now = run(TODAY, *ALL, "--vocabulary-from", str(before.path))
    old, new = vocabulary(before.path), vocabulary(now.path)
    assert new.ngrams[: len(old.ngrams)] == old.ngrams
    # Of "blue cat" and "the owl" those that yesterday's texts lacked.
    added = {"#bl", "blu", "lue", "ue#", "#ow", "owl", "wl#"}
    assert set(new.ngrams[len(old.ngrams) :]) == added
    report = json.loads((now.path / "report.json").read_text("utf-8"))
    assert report["counts"]["letter trigrams: new"] == len(added)
    assert len(now.records()) == 1


def test_whole_words_of_a_run_keep_their_rows_and_new_ones_follow(run, tmp_path):
    tower = {"name": "dssm", "widths": [4]}
    config = parse_config({"tower": tower, "whole_words": True, "training": {"epochs": 1}})
    train(config, run(YESTERDAY, *ALL).path, tmp_path / "RUN", quiet=True)
    now = run(TODAY + "owl\tthe owl\n", *ALL, "--vocabulary-from", str(tmp_path / "RUN"))
    data = Preprocessed(now.path).with_whole_words()
    earlier = SemanticRanker.load(tmp_path / "RUN")
    assert {"#red#", "#the#", "#cat#"} <= {*earlier.vocabulary.whole_words}
    assert {*data.vocabulary.whole_words} - {*earlier.vocabulary.whole_words} == {"#owl#"}
    begun = WarmStart.load(tmp_path / "RUN", config, data)
    model = build_model(config, data.vocabulary.size)
    put(model.weights, begun.weights)
    texts = ["red cat", "the blue owl", "dog"]
    found = Encoder(model, data.vocabulary)("title", texts)
    np.testing.assert_array_equal(found, earlier.encode_titles(texts))


def test_a_full_vocabulary_takes_no_new_ones(run):
    before = run(YESTERDAY, *ALL)
    now = run(TODAY, *ALL, "--vocabulary-from", str(before.path), "--vocabulary-size", "3")
    assert vocabulary(now.path).ngrams == vocabulary(before.path).ngrams


def test_other_text_rules_are_refused(run, tmp_path, capsys):
    before, log = run(YESTERDAY, *ALL), tmp_path / "today.tsv"
    log.write_text(TODAY, "utf-8")
    words = ["--input", str(log), "--output", str(tmp_path / "out"), *ALL]
    words += ["--vocabulary-from", str(before.path)]
    assert preprocess.run([*words, "--max-words", "9"]) == 1
    assert "--max-words 64, and now it is --max-words 9" in capsys.readouterr().err
    assert preprocess.run([*words[:-1], str(tmp_path / "none")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
