"""Kinds of letter n-grams that preprocess writes."""

from __future__ import annotations

from dssm_tf.data.preprocessed import Preprocessed

LOG = "query\ttitle\nbird\tthe bird\nbrid\tthe bird\nowl\tthe owl\n"
NO_VALIDATION = ("--validation-fraction", "0")


def test_all_kinds_are_written_and_a_model_reads_those_of_its_configuration(run):
    all_kinds, trigrams = (
        run(*NO_VALIDATION, log=LOG),
        run(*NO_VALIDATION, "--letter-ngrams", "trigrams", log=LOG),
    )
    assert {"rd", "ird", "~dir", "~bir", "d#"} <= {*all_kinds.vocabulary.ngrams}
    selected = Preprocessed(all_kinds.path).with_letter_ngrams(["trigrams"])
    assert selected.vocabulary.ngrams == trigrams.vocabulary.ngrams
    assert selected.distinct_words == Preprocessed(trigrams.path).distinct_words
    settings = [data.report["settings"]["letter_ngrams"] for data in (all_kinds, trigrams)]
    assert settings == ["pairs,trigrams,sorted_trigrams", "trigrams"]


def test_limits_apply_to_each_kind(run):
    data = run(*NO_VALIDATION, "--vocabulary-size", "5", "--min-ngram-count", "2", log=LOG)
    assert data.vocabulary.counts == {"pairs": 5, "trigrams": 5, "sorted_trigrams": 5}
    # bird occurs three times (once in each of the two pairs with the title, once as a query) and
    # brid once: of their sorted trigrams, ~bir and ~dir occur four times, ~#bi three times.
    data = run(
        *NO_VALIDATION, "--min-ngram-count", "4", "--letter-ngrams", "sorted_trigrams", log=LOG
    )
    assert data.vocabulary.ngrams == ("~bir", "~dir")
    assert data.report["counts"]["letter n-grams: sorted trigrams"] == 2
    assert "letter n-grams: 2 sorted trigrams" in data.report["lines"]


def test_unknown_and_repeated_kinds_are_refused(error_of_run):
    message = "--letter-ngrams is {!r}; expected one or more of pairs, trigrams, sorted_trigrams"
    for value in ("words", "pairs,pairs", "pairs,", "trigram"):
        assert message.format(value) in error_of_run("--letter-ngrams", value, log=LOG, code=2)
