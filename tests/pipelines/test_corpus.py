"""`--corpus`: titles that nobody clicked are known all the same."""

from __future__ import annotations

import gzip
import json

import pytest

from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED

ALL = ("--validation_fraction", "0")
CORPUS = """doc_id\ttitle
d1\tTitle Number 3!
d2\tZephyr quux
d3\tzephyr, QUUX
d4\t?!
   
d6\t
d5\tZeppelin
"""


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text(CORPUS, "utf-8")
    return str(path)


def ngrams(data):
    return set(data.vocabulary.ngrams)


def test_titles_of_the_corpus_follow_the_clicked_ones(run, topics, corpus):
    without, data = run(topics, *ALL), run(topics, "--corpus", corpus, *ALL)
    # One that the log has keeps the log's text and clicks; two that no model can tell apart are
    # one; what has no word is none.
    assert data.titles == without.titles | {"Zeppelin": (0, 0), "Zephyr quux": (0, 0)}


def test_a_title_is_on_one_line_and_can_be_learnt_from(run, tmp_path):
    path = tmp_path / "odd.tsv"
    path.write_bytes(b"title\r\nred\rfox\x0b \r\n")
    data = run("query\ttitle\na\tb\n", "--corpus", str(path), *ALL)
    assert {*data.titles} == {"b", "red fox"}


def test_a_title_that_was_only_shown_keeps_the_logs_text(run, corpus):
    log = "query\ttitle\tclicks\timpressions\na\tb\t1\t1\na\tzeppelin\t0\t3\n"
    data = run(log, "--corpus", corpus, "--negatives_from", "impressions", *ALL)
    assert data.titles["zeppelin"] == (0, 0)
    assert "Zeppelin" not in data.titles


def test_what_the_log_teaches_stays_the_same(run, topics, corpus):
    flags = ("--negatives", "6", "--validation_fraction", "0.5")
    without, data = run(topics, *flags), run(topics, "--corpus", corpus, *flags)
    for split in ("train", "validation"):
        assert data.records(split) == without.records(split) != []


def test_no_corpus_title_is_a_recorded_negative(run, corpus):
    log = "query\ttitle\n" + "".join(f"query {n}\ttitle {n}\n" for n in range(5))
    for alpha in ("0", "0.75"):
        data = run(log, "--corpus", corpus, "--negatives", "9", "--negative_alpha", alpha, *ALL)
        for record in data.records():
            assert {FOLDED.key(title) for title in record.titles} == {
                f"title {n}" for n in range(5)
            }


def test_their_trigrams_are_in_the_vocabulary_and_count_once(run, corpus):
    log = "query\ttitle\n" + "a\tzeppelin\n" * 3 + "b\tb\n"
    without, data = run(log, *ALL), run(log, "--corpus", corpus, *ALL)
    before, after = map(ngrams, (without, data))
    new = {
        gram for word in ("title", "number", "3", "zephyr", "quux") for gram in letter_ngrams(word)
    }
    assert after == before | new
    # Occurring once, but in a title with clicks of the training part, it counts for those alone.
    rare = run(log, "--corpus", corpus, "--min_ngram_count", "2", *ALL)
    assert set(letter_ngrams("zeppelin")[2:]).isdisjoint(ngrams(rare))


def test_a_title_of_the_held_out_part_alone_is_learnt_from_the_corpus_if_it_is_there(run, corpus):
    log = "query\ttitle\n" + "".join(f"query {n}\tzeppelin\n" for n in range(3))
    log += "".join(f"question {n}\tthing\n" for n in range(40))
    for seed in range(20):
        held_out = ("--validation_fraction", "0.5", "--seed", str(seed))
        without = run(log, *held_out)
        if without.titles["zeppelin"] == (0, 0):
            break
    gram = letter_ngrams("zeppelin")[2]
    assert gram not in ngrams(without)
    assert gram in ngrams(run(log, "--corpus", corpus, *held_out))


def test_the_report_says_how_many_titles_are_of_the_corpus(run, topics, corpus):
    data = run(topics, "--corpus", corpus, *ALL)
    report = json.loads((data.path / "report.json").read_text("utf-8"))
    names = "in all", "clicked in the training part", "of the corpus"
    assert [report["counts"][f"titles: {name}"] for name in names] == [27, 25, 3]
    page = (data.path / "report.html").read_text("utf-8")
    assert "titles: 25 clicked in the training part, 27 in all, 3 of the corpus" in page
    page = (run(topics, *ALL).path / "report.html").read_text("utf-8")
    assert "of the corpus" not in page


def test_any_number_of_files_packed_or_not_gives_the_same(run, topics, corpus, tmp_path):
    lines = CORPUS.splitlines(keepends=True)
    (tmp_path / "part-1.tsv").write_text("".join(lines[:3]), "utf-8")
    with gzip.open(tmp_path / "part-2.tsv.gz", "wt", encoding="utf-8", newline="") as file:
        file.write("\ufeffTITLE \tother\r\n")
        cells = (line.rstrip("\n").split("\t") for line in lines[3:] if "\t" in line)
        file.writelines(f"{one[1]}\tx\r\n" for one in cells)
    one = run(topics, "--corpus", corpus, *ALL).bytes()
    parts = run(topics, "--corpus", str(tmp_path / "part-*"), *ALL).bytes()
    for name in one.keys() - {"report.json", "report.md", "report.html", "spec.json"}:
        assert one[name] == parts[name], name


def test_a_corpus_is_read_in_pieces_and_rows_without_a_title_are_counted(
    run, topics, tmp_path, monkeypatch, capsys
):
    lines = ["doc_id\ttitle", *(f"d{n}\tthing {n}" for n in range(99))]
    path = tmp_path / "many.tsv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    whole = run(topics, "--corpus", str(path), *ALL)
    monkeypatch.setattr("pipelines.sources.MIN_PIECE_BYTES", 50)
    monkeypatch.setattr("pipelines.sources.PIECES", 1000)
    cut = run(topics, "--corpus", str(path), *ALL)
    assert cut.table("titles") == whole.table("titles")
    path.write_text("\n".join([*lines[:76], "no tab", *lines[76:]]) + "\n", "utf-8")
    assert run(topics, "--corpus", str(path), *ALL).table("titles") == whole.table("titles")
    assert "corpus: 1 rows without a title" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.csv", 'id,title\n1,"Zephyr\nquux"\n2,\n3,Zeppelin\n'),
        ("c.jsonl", '{"title": "Zephyr quux"}\n{"title": null}\n{}\n{"title": "Zeppelin"}\n'),
    ],
)
def test_a_corpus_may_be_of_every_format(run, topics, tmp_path, name, text):
    (tmp_path / name).write_text(text, "utf-8")
    data = run(topics, "--corpus", str(tmp_path / name), *ALL)
    assert {"Zephyr quux", "Zeppelin"} < {*data.titles}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "c.tsv",
            "doc_id\tname\n1\tx\n",
            "c.tsv has the columns 'doc_id', 'name'; expected 'title' (missing: title)",
        ),
        ("c.tsv", "", "c.tsv holds no rows; is it the right file?"),
        ("none.tsv", None, "none.tsv matches no file"),
    ],
)
def test_an_unusable_corpus_is_said_in_one_line_and_nothing_is_written(
    run, topics, tmp_path, capsys, name, text, message
):
    if text is not None:
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    data = run(topics, "--corpus", str(tmp_path / name), *ALL, code=1)
    # A slow machine shows progress lines before it.
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("dssm preprocess: ")
    assert message in error
    assert not data.path.exists()
