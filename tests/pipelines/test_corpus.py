"""`--corpus`: titles without clicks are in the output too."""

from __future__ import annotations

import pytest

from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import NGRAM_KINDS

NO_VALIDATION = ("--validation-fraction", "0")


def test_titles_of_files_of_every_format_follow_the_clicked_ones(
    run, topics, write, tmp_path, capsys
):
    write("c.tsv", "doc_id\ttitle\nd1\tTitle Number 3!\nno tab\nd2\t?!\n")
    write("c.csv", 'id,title\n1,"Zephyr\nquux"\n2,\n')
    write("c.jsonl", '{"title": "zephyr, QUUX"}\n{"title": null}\n{}\n')
    packed = write("d.tsv.gz", "\ufeffTITLE \tother\r\nred\rfox\x0b \tx\r\n")
    corpus = [str(tmp_path / "c.*"), str(packed)]
    without, data = (
        run(*NO_VALIDATION, log=topics),
        run("--corpus", *corpus, *NO_VALIDATION, log=topics),
    )
    assert "corpus: 4 rows without a title" in capsys.readouterr().err
    # A title of the log keeps its text and clicks; titles with the same key are merged; a title
    # without a word is dropped.
    assert data.titles == without.titles | {"Zephyr quux": (0, 0), "red fox": (0, 0)}
    assert data.records() == without.records()
    words = ("zephyr", "quux", "red", "fox")
    new = {ngram for word in words for ngram in letter_ngrams(word, kinds=NGRAM_KINDS)}
    assert {*data.vocabulary.ngrams} == {*without.vocabulary.ngrams} | new
    names = "in all", "clicked in the training part", "of the corpus"
    assert [data.report["counts"][f"titles: {name}"] for name in names] == [27, 25, 3]
    assert "titles: 25 clicked in the training part, 27 in all, 3 of the corpus" in data.page
    assert "of the corpus" not in without.page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "doc_id\tname\n1\tx\n",
            "c.tsv has the columns 'doc_id', 'name'; expected 'title' (missing: title)",
        ),
        ("", "c.tsv holds no rows; is it the right file?"),
        (None, "--corpus {} matches no file"),
    ],
)
def test_the_error_for_an_unusable_corpus_names_it(
    error_of_run, topics, write, tmp_path, text, message
):
    path = tmp_path / "c.tsv"
    if text is not None:
        write(path.name, text)
    assert message.format(path) in error_of_run("--corpus", str(path), log=topics)
