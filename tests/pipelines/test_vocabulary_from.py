"""Preprocess of today's log with the letter trigrams of an earlier output."""

from __future__ import annotations

import numpy as np

from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.semantic_ranker import Encoder, SemanticRanker, build_model
from dssm_tf.training.keeper import put
from dssm_tf.training.train import train
from dssm_tf.training.warm_start import WarmStart

YESTERDAY = "query\ttitle\nred cat\tthe cat\nred dog\tthe dog\n"
TODAY = "query\ttitle\nblue cat\tthe owl\n"
ALL = ("--validation-fraction", "0")


def test_the_earlier_trigrams_keep_their_ids_and_records_use_the_new_ones(run, refused, tmp_path):
    before = run(YESTERDAY, *ALL)
    earlier = (*ALL, "--vocabulary-from", str(before.path))
    now = run(TODAY, *earlier)
    old, new = before.vocabulary.ngrams, now.vocabulary.ngrams
    assert new[: len(old)] == old
    # Of "blue cat" and "the owl" those that yesterday's texts lacked.
    added = {"#bl", "blu", "lue", "ue#", "#ow", "owl", "wl#"}
    assert {*new[len(old) :]} == added
    assert now.report["counts"]["letter trigrams: new"] == len(added)
    assert now.words["owl"] == now.vocabulary.ngram_ids("owl")
    assert len(now.words["owl"]) == 3
    said = "--max-words 64, and now it is --max-words 9"
    assert said in refused(TODAY, *earlier, "--max-words", "9")
    assert "does not exist" in refused(TODAY, "--vocabulary-from", str(tmp_path / "none"))


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
