"""Preprocess with the letter n-grams of an earlier output."""

from __future__ import annotations

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.semantic_ranker import SemanticRanker
from tests.runs import finished_run

YESTERDAY = "query\ttitle\nred cat\tthe cat\nred dog\tthe dog\n"
TODAY = "query\ttitle\nblue cat\tthe owl\n"
NO_VALIDATION = ("--validation-fraction", "0")


def test_the_earlier_ngrams_keep_their_ids_and_records_use_the_new_ones(
    run, error_of_run, tmp_path
):
    before = run(*NO_VALIDATION, "--letter-ngrams", "trigrams", log=YESTERDAY)
    earlier = (*NO_VALIDATION, "--vocabulary-from", str(before.path))
    now = run(*earlier, log=TODAY)
    old, new = before.vocabulary.ngrams, now.vocabulary.ngrams
    assert new[: len(old)] == old
    # The trigrams of "blue cat" and "the owl" that yesterday's texts lack.
    added = {"#bl", "blu", "lue", "ue#", "#ow", "owl", "wl#"}
    assert {*new[len(old) :]} == added
    assert now.report["counts"]["letter n-grams: trigrams"] == len(new)
    assert now.words["owl"] == now.vocabulary.ngram_ids("owl")
    assert len(now.words["owl"]) == 3
    message = "--max-words 64; now it is --max-words 9"
    assert message in error_of_run(*earlier, "--max-words", "9", log=TODAY)
    message = "--letter-ngrams trigrams; now it is --letter-ngrams pairs,trigrams"
    assert message in error_of_run(*earlier, "--letter-ngrams", "trigrams,pairs", log=TODAY)
    assert "does not exist" in error_of_run("--vocabulary-from", str(tmp_path / "none"), log=TODAY)


def test_words_of_a_run_keep_their_ids_and_new_words_follow(run, tmp_path):
    tower = {"name": "dssm", "widths": [4]}
    finished_run(
        tmp_path / "RUN", run(*NO_VALIDATION, log=YESTERDAY), {"tower": tower, "whole_words": True}
    )
    now = run(
        *NO_VALIDATION, "--vocabulary-from", str(tmp_path / "RUN"), log=TODAY + "owl\tthe owl\n"
    )
    assert now.spec.rules.letter_ngrams == ("trigrams",)  # those of the run
    assert now.report["settings"]["letter_ngrams"] == "trigrams"
    extended = Preprocessed(now.path).with_whole_words().vocabulary
    before = SemanticRanker.load(tmp_path / "RUN").vocabulary
    assert {"#red#", "#the#", "#cat#"} <= {*before.whole_words}
    assert {*extended.whole_words} - {*before.whole_words} == {"#owl#"}
    assert extended.ngrams[: len(before.ngrams)] == before.ngrams
