"""Kinds of letter n-grams that preprocess writes."""

from __future__ import annotations

from dssm_tf.data.preprocessed import Preprocessed

LOG = "query\ttitle\nbird\tthe bird\nbrid\tthe bird\nowl\tthe owl\n"
ALL = ("--validation-fraction", "0")


def test_every_kind_is_written_and_a_model_reads_those_that_it_names(run):
    every, alone = run(LOG, *ALL), run(LOG, *ALL, "--letter-ngrams", "trigrams")
    assert {"rd", "bird"[1:], "~dir", "~bir", "d#"} <= {*every.vocabulary.ngrams}
    kept = Preprocessed(every.path).with_letter_ngrams(["trigrams"])
    assert kept.vocabulary.ngrams == alone.vocabulary.ngrams
    assert kept.distinct_words == Preprocessed(alone.path).distinct_words
    settings = [data.report["settings"]["letter_ngrams"] for data in (every, alone)]
    assert settings == ["pairs,trigrams,sorted_trigrams", "trigrams"]


def test_limits_apply_to_each_kind(run):
    data = run(LOG, *ALL, "--vocabulary-size", "5", "--min-ngram-count", "2")
    assert data.vocabulary.counts == {"pairs": 5, "trigrams": 5, "sorted_trigrams": 5}
    # bird occurs three times (once in each of the two pairs with the title, once as a query) and
    # brid once: of their sorted trigrams, ~bir and ~dir occur four times, ~#bi three times.
    many = run(LOG, *ALL, "--min-ngram-count", "4", "--letter-ngrams", "sorted_trigrams")
    assert many.vocabulary.ngrams == ("~bir", "~dir")
    assert many.report["counts"]["letter n-grams: sorted trigrams"] == 2
    assert "letter n-grams: 2 sorted trigrams" in many.report["lines"]


def test_unknown_and_repeated_kinds_are_refused(refused):
    message = "--letter-ngrams is {!r}; expected one or more of pairs, trigrams, sorted_trigrams"
    for value in ("words", "pairs,pairs", "pairs,", "trigram"):
        assert message.format(value) in refused(LOG, "--letter-ngrams", value, code=2)
