"""`--corpus` without `--input`: titles without clicks, no queries and no pairs."""

from __future__ import annotations

import pytest

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import NGRAM_KINDS

CORPUS = "doc_id\ttitle\n1\tRed Hat\n2\tred  hat!\n3\t\n4\t?!\n5\tBlue Cotton Shirt\n6\tblue tie\n"
LOG = "query\ttitle\tclicks\n"


@pytest.fixture
def corpus(write) -> tuple[str, str]:
    return "--corpus", str(write("corpus.tsv", CORPUS))


@pytest.mark.parametrize("shards", ["1", "4"])
def test_titles_have_no_clicks_and_there_are_no_queries_and_no_pairs(run, corpus, capsys, shards):
    data = run(*corpus, "--shards", shards)
    # Equal titles are merged; the smallest text stays. A row without a title is counted, and a
    # title without a word is left out.
    assert data.titles == {"Red Hat": (0, 0), "Blue Cotton Shirt": (0, 0), "blue tie": (0, 0)}
    words = {"red", "hat", "blue", "cotton", "shirt", "tie"}
    assert {*data.words} == words
    ngrams = {ngram for word in words for ngram in letter_ngrams(word, kinds=NGRAM_KINDS)}
    assert {*data.vocabulary.ngrams} == ngrams
    assert data.vocabulary.ngrams[0] == "e#"  # of blue, twice, and tie
    counts = {kind: data.spec.count(kind) for kind in data.spec.rows}
    assert counts == {"words": 6, "titles": 3, "queries": 0, "train": 0, "validation": 0}
    assert data.spec.clicks == 0
    assert data.rejects == []
    error = capsys.readouterr().err
    assert error.startswith("3 titles in ")
    for text in (error, data.page):
        assert "corpus: 1 rows without a title" in text
        assert "titles: 3 in all, 3 of the corpus" in text
    assert "Titles to training records" in data.page


def test_the_directory_reads_back_as_titles_only(run, corpus):
    data = run(*corpus, "--shards", "2")
    read = Preprocessed(data.path)
    assert read.nonempty_splits == ()
    assert read.log() == read.texts("queries") == read.clicked.to_pylist() == []
    assert read.count("train", "validation") == 0
    assert {title.text: title.clicks for title in read.titles} == dict.fromkeys(data.titles, 0)
    words = read.distinct_words[0]
    for row, text in zip(read.words("titles").to_pylist(), read.texts("titles"), strict=True):
        assert [words[index] for index in row] == read.vocabulary.words(text)
    assert read.find("titles", ["RED HAT", "red"]).tolist()[1] == -1
    assert read.find("queries", ["red hat"]).tolist() == [-1]
    # `blue` is the only word that occurs twice.
    assert read.with_whole_words().vocabulary.whole_words.keys() == {"#blue#"}


def test_titles_are_those_of_a_log_with_the_same_corpus(run, corpus):
    with_log = run(*corpus, "--validation-fraction", "0", log=LOG + "hat\tRed Hat\t3\n")
    assert run(*corpus).titles == with_log.titles | {"Red Hat": (0, 0)}


def test_one_title_is_enough(run, write):
    data = run("--corpus", str(write("one.tsv", "title\nHat\n")))
    assert data.titles == {"Hat": (0, 0)}
    assert {*data.vocabulary.ngrams} == {*letter_ngrams("hat", kinds=NGRAM_KINDS)}


def test_titles_of_several_fields_have_their_own_rows(run, write):
    path = write("fields.csv", "title,brand\nHalo,Sony\nHalo,\n,Sony\n")
    flags = ("--corpus", str(path), "--title-fields", "title,brand", "--field-rows", "own")
    data = run(*flags)
    assert {*data.titles} == {"Halo␟Sony", "Halo", "␟Sony"}
    assert {*data.words} == {"halo", "1␟sony"}


def test_known_ngrams_keep_their_ids(run, corpus, write):
    earlier = run("--corpus", str(write("one.tsv", "title\nHat\n")))
    data = run(*corpus, "--vocabulary-from", str(earlier.path))
    assert data.vocabulary.ngrams[: earlier.spec.ngrams] == earlier.vocabulary.ngrams


def test_two_runs_write_the_same_bytes(run, corpus):
    assert run(*corpus).bytes() == run(*corpus).bytes()


def test_input_and_corpus_cannot_both_be_missing(error_of_run):
    assert "give --input, a click log, or --corpus, a table of titles" in error_of_run(code=2)


def test_position_weights_need_a_log(error_of_run, corpus):
    message = error_of_run(*corpus, "--position-weights", "harvesting", code=2)
    assert "--position-weights harvesting: without --input there are no clicks" in message


@pytest.mark.parametrize("text", ["title\n", "title\n?!\n", "title\n \n"])
def test_a_corpus_without_words_is_refused(error_of_run, write, text):
    message = error_of_run("--corpus", str(write("corpus.tsv", text)))
    assert "corpus.tsv has no title with a word" in message


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("", "log.tsv holds no rows; is it the right file?"),
        (LOG, "log.tsv holds no rows below the header; is it the right log?"),
        (LOG + "hat\tRed Hat\t0\n", "None of the 1 rows of"),
    ],
)
def test_a_log_without_clicks_is_refused_and_the_message_names_the_way_without_one(
    error_of_run, corpus, log, message
):
    hint = "To train on the titles of --corpus alone, leave out --input."
    error = error_of_run(*corpus, log=log)
    assert message in error
    assert hint in error
    assert hint not in error_of_run(log=log)
