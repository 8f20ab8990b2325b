"""`dssm data simulate`: judged lists to a click log."""

from __future__ import annotations

import pytest

from dssm_tf.cli import main
from dssm_tf.tables.reader import read_rows

COLUMNS = ("query", "title", "position", "impressions", "clicks")


@pytest.fixture
def judgments(tmp_path):
    path = tmp_path / "judgments.tsv"
    rows = [
        f"red fox {query}\t{'red ' * (title % 2)}fox {title}\t{title % 3}"
        for query in range(8)
        for title in range(5)
    ]
    head = "query\ttitle\tgrade"
    path.write_text("\n".join([head, *rows]) + "\n", "utf-8")
    return path


def simulate(judgments, out, *flags):
    return main(["data", "simulate", "--judgments", str(judgments), "--out", str(out), *flags])


def test_a_log_is_written_with_all_that_preprocess_asks_for(tmp_path, judgments, capsys):
    log = tmp_path / "log.tsv"
    assert simulate(judgments, log, "--sessions", "500", "--length", "4") == 0
    said = capsys.readouterr().out
    assert "500 sessions of 8 queries" in said
    assert "probability 1, 0.5, 0.333, 0.25\n" in said
    rows = [row for _, row in read_rows(log, COLUMNS)]
    assert {row[0] for row in rows} == {f"red fox {n}" for n in range(8)}
    assert sum(int(row[3]) for row in rows if row[2] == "1") == 500
    assert max(int(row[2]) for row in rows) == 4


@pytest.mark.parametrize("model", ["cascade", "trust"])
def test_flags_decide(tmp_path, judgments, model):
    written = []
    for name, flags in (("a", ()), ("b", ()), ("c", ("--model", model)), ("d", ("--seed", "1"))):
        assert simulate(judgments, tmp_path / name, "--sessions", "200", *flags) == 0
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert len(set(written)) == 3


def test_equal_titles_of_a_query_are_one_with_the_mean_grade(tmp_path):
    judgments, log = tmp_path / "judgments.tsv", tmp_path / "log.tsv"
    rows = ["fox\tRed Fox\t0", "Fox\tred  fox!\t2", "fox\tgrey fox\t0", "fox\tfox\t1"]
    head = "query\ttitle\tgrade"
    judgments.write_text("\n".join([head, *rows]) + "\n", "utf-8")
    flags = ("--rankers", "1", "--sessions", "100", "--click-noise", "0", "--eta", "0")
    assert simulate(judgments, log, *flags) == 0
    # No title moves: each stands at one place, where the two of the best grade are always clicked.
    found = {row[1]: row[3:] for _, row in read_rows(log, COLUMNS)}
    assert found == {"Red Fox": ("100", "100"), "grey fox": ("100", "0"), "fox": ("100", "100")}


def test_some_of_the_queries(tmp_path, judgments):
    assert simulate(judgments, tmp_path / "log.tsv", "--lists", "3", "--sessions", "99") == 0
    assert len({row[0] for _, row in read_rows(tmp_path / "log.tsv", ("query",))}) == 3


def test_a_corpus_is_what_bm25_counts_words_in(tmp_path, judgments):
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("doc_id\ttitle\n" + "".join(f"c{n}\tfox {n}\n" for n in range(50)), "utf-8")
    flags = ("--sessions", "200", "--rankers", "1", "--ranker-noise", "0")
    assert simulate(judgments, tmp_path / "log.tsv", "--corpus", str(corpus), *flags) == 0
    first = [row for _, row in read_rows(tmp_path / "log.tsv", COLUMNS) if row[2] == "1"]
    assert all(row[1].startswith("red ") for row in first)  # rare in the corpus


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--eta", "3"), "eta is 3; expected a number from 0 to 2"),
        (("--sessions", "0"), "sessions is 0; expected 1 or more"),
        (("--lists", "9"), "--lists 9: expected 0 to 8"),
        (("--ranker-noise", "-1"), "a ranker noise of -1; expected"),
    ],
)
def test_bad_flags_are_refused_in_one_line(tmp_path, judgments, capsys, flags, said):
    assert simulate(judgments, tmp_path / "log.tsv", *flags) == 1
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error
    assert not (tmp_path / "log.tsv").exists()


def test_a_file_that_is_there_is_kept(tmp_path, judgments, capsys):
    (tmp_path / "log.tsv").write_text("mine", "utf-8")
    assert simulate(judgments, tmp_path / "log.tsv") == 1
    assert (tmp_path / "log.tsv").read_text("utf-8") == "mine"
