"""The whole pipeline on small logs: what comes out, and what happens to bad input."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from hashlib import blake2b
from itertools import pairwise

import pytest

from dssm_tf.text.rules import FOLDED

SPLIT_HALF = ("--validation_fraction", "0.5")


def report(data):
    return json.loads((data.path / "report.json").read_text("utf-8"))


def test_clicks_are_summed_over_rows_that_no_model_can_tell_apart(run):
    log = (
        "query\ttitle\tclicks\n"
        "Ice Cream\tThe Best\t2\nice cream!\tthe best\t3\nICE-cream\tThe Best\t2\nother\tthing\t1\n"
    )
    data = run(log, "--validation_fraction", "0")
    by_pair = {record.pair: record for record in data.records()}
    record = by_pair["ice cream", "the best"]
    assert record.clicks == 7
    # The texts with most clicks: 3 of 7 for the query, 4 of 7 for the title.
    assert record.query == "ice cream!"
    assert record.titles[0] == "The Best"
    assert data.titles == {"The Best": (7, 1), "thing": (1, 1)}


def test_texts_that_differ_in_accents_are_one_unless_accents_are_kept(run, tmp_path):
    log = (
        "query\ttitle\tclicks\nleixões\tPorto de Leixões\t2\nLeixoes\tPorto de Leixoes\t3\n"
        "pão\tPadaria\t1\npao\tBambu\t1\n"
    )
    (tmp_path / "blocked.txt").write_text("pao\n", "utf-8")
    flags = ("--validation_fraction", "0", "--block_list", str(tmp_path / "blocked.txt"))
    folded, kept = run(log, *flags), run(log, *flags, "--keep-accents")
    assert folded.titles == {"Porto de Leixoes": (5, 1)}
    assert {(one.query, one.clicks) for one in folded.records()} == {("Leixoes", 5)}
    queries = {"leixões": 2, "Leixoes": 3, "pão": 1}
    assert {one.query: one.clicks for one in kept.records()} == queries
    known = ["õ" in "".join(one.vocabulary.ngrams) for one in (folded, kept)]
    assert known == [False, True]
    assert [*folded.words] != [*kept.words]
    assert tuple(folded.words["leixoes"]) == folded.vocabulary.ngram_ids("leixoes")


def test_of_equally_clicked_texts_the_smallest_stands_for_all(run):
    log = "query\ttitle\nb b\tx\nB b\tx\nc\ty\n"
    records = run(log, "--validation_fraction", "0").records()
    assert {record.query for record in records} == {"B b", "c"}


def test_no_query_is_in_two_parts_and_the_parts_have_their_shares(run):
    log = "query\ttitle\n" + "".join(f"query {n}\ttitle {n % 50}\n" for n in range(2000))
    data = run(log, "--validation_fraction", "0.2")
    parts = {
        split: {FOLDED.key(record.query) for record in data.records(split)}
        for split in ("train", "validation")
    }
    assert len(set().union(*parts.values())) == 2000 == sum(map(len, parts.values()))
    # Standard deviation of a share: sqrt(.2 * .8 / 2000) = 0.009.
    assert abs(len(parts["validation"]) / 2000 - 0.2) < 0.04
    assert {split: data.spec.count(split) for split in parts} == {
        split: len(part) for split, part in parts.items()
    }


def test_records_are_shuffled_and_shards_are_of_like_size(run):
    log = "query\ttitle\n" + "".join(f"query {n:04d}\ttitle {n % 50}\n" for n in range(1200))
    data = run(log, "--shards", "4", "--validation_fraction", "0")
    names = sorted(file.name for file in data.path.glob("train-*"))
    assert names == [f"train-{n:05d}-of-00004.tfrecord.gz" for n in range(4)]
    assert not list(data.path.glob("validation-*"))
    queries = [record.query for record in data.records()]
    assert len(queries) == 1200
    steps = sum(a < b for a, b in pairwise(queries))
    assert 500 < steps < 700  # as many up as down


def test_sessions_are_cleaned_and_every_row_is_accounted_for(run, tmp_path):
    (tmp_path / "blocked.txt").write_text("bad\n", "utf-8")
    rows = ["query\ttitle\tclicks\tsession_id"]
    rows += [f"bot {n}\tspam\t1\tbot" for n in range(12)]
    rows += ["halo\tReach\t1\tclicker"] * 30
    rows += ["halo\tReach\t1\ta", "Halo\tReach\t1\ta", "halo\tWars\t1\tb", "halo\tReach\t1\t"]
    rows += ["!!\tReach\t1\ta", "bad halo\tReach\t1\ta", "halo\tReach\tmany\ta"]
    data = run(
        "\n".join(rows) + "\n", "--max_queries_per_session", "10", "--max_clicks_per_session",
        "20", "--validation_fraction", "0", "--max_reject_fraction", "0.5", "--block_list",
        str(tmp_path / "blocked.txt"),
    )  # fmt: skip
    found = report(data)
    assert found["rows"] == {
        "in": 49,
        "clicks": 49,
        "rejected": {"clicks is not a number": 1},
        "rejected_clicks": 1,
        "largest_rejected": [{
            "file": str(tmp_path / "log.tsv"), "line": 50, "reason": "clicks is not a number",
            "text": "halo Reach many a", "clicks": 1,
        }],
    }  # fmt: skip
    counts = found["counts"]
    dropped = {name: n for name, n in counts.items() if name.startswith("dropped")}
    assert dropped == {
        "dropped: blocked": 1, "dropped: no words": 1, "dropped: repeated in session": 1,
        "dropped: session with many clicks": 30, "dropped: session with many queries": 12,
    }  # fmt: skip
    assert (counts["rows: read"], counts["sessions: in all"]) == (48, 4)
    clicks = {record.pair: record.clicks for record in data.records()}
    assert clicks == {("halo", "reach"): 2, ("halo", "wars"): 1}


def test_malformed_rows_are_listed_with_file_line_and_reason(run, tmp_path):
    good = "".join(f"q{n}\tt{n}\t1\n" for n in range(40))
    data = run("query\ttitle\tclicks\n" + good + "a\tb\nc\td\t-1\n", "--validation_fraction", "0")
    path = str(tmp_path / "log.tsv")
    assert data.rows("rejects.tsv") == [
        [path, "42", "wrong column count", "1", "a b"],
        [path, "43", "clicks is negative", "1", "c d -1"],
    ]
    assert report(data)["rows"]["rejected"] == {"clicks is negative": 1, "wrong column count": 1}


def test_a_log_whose_clicks_are_mostly_in_rejected_rows_is_refused(run, tmp_path, capsys):
    good = "".join(f"q{n}\tt{n}\t10\n" for n in range(40))
    log = "query\ttitle\tclicks\n" + good + "a\t\t67998\n"
    data = run(log, "--validation_fraction", "0", code=1)
    message = capsys.readouterr().err
    # 67,998 of 68,398 clicks are 99.4 %.
    assert "99.4% of the clicks" in message
    assert "log.tsv:42: a  67998" in message
    data = run(log, "--validation_fraction", "0", "--max_reject_fraction", "1")
    assert report(data)["rows"]["largest_rejected"][0]["clicks"] == 67998
    assert "a 67998" in (data.path / "report.html").read_text("utf-8")
    assert "99.4% of the clicks" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_log_that_is_not_utf8_is_read_when_its_encoding_is_told(run, tmp_path, capsys, encoding):
    log = "query\ttitle\n" + "".join(f"café {n}\tCafé {n}\n" for n in range(20))
    (tmp_path / "log.tsv").write_bytes(log.encode(encoding))
    arguments = ("--input", str(tmp_path / "log.tsv"), "--validation_fraction", "0")
    run(None, *arguments, code=1)
    assert "--encoding" in capsys.readouterr().err
    data = run(None, *arguments, "--encoding", encoding)
    assert "café 7" in {record.query for record in data.records()}


def test_line_numbers_are_those_of_the_file_when_it_is_read_in_pieces(run, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.sources.MIN_PIECE_BYTES", 50)
    monkeypatch.setattr("pipelines.sources.PIECES", 1000)
    lines = ["query\ttitle"] + ["bad" if n % 20 == 7 else f"q{n}\tt{n}" for n in range(100)]
    data = run("\n".join(lines) + "\n", "--validation_fraction", "0")
    assert [int(row[1]) for row in data.rows("rejects.tsv")] == [9, 29, 49, 69, 89]


def test_row_numbers_are_those_of_a_parquet_file_of_several_row_groups(run, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    titles = [None if n in (3, 17) else f"t{n}" for n in range(1, 31)]
    table = pyarrow.table({"query": [f"q{n}" for n in range(1, 31)], "title": titles})
    parquet.write_table(table, tmp_path / "log.parquet", row_group_size=7)
    data = run(None, "--input", str(tmp_path / "log.parquet"), "--validation_fraction", "0")
    assert [row[1:3] for row in data.rows("rejects.tsv")] == [["3", "no title"], ["17", "no title"]]


def test_too_many_malformed_rows_fail_the_job(run, capsys):
    data = run("query\ttitle\na\tb\nc\nd\n", code=1)
    message = capsys.readouterr().err
    assert "2 of 3 rows are malformed; allowed are 10.0%. rejected: 2 wrong column" in message
    assert not data.path.exists()
    run("query\ttitle\na\tb\nc\nd\n", "--max_reject_fraction", "0.7", "--validation_fraction", "0")


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("query\ttitle\n", "holds no rows below the header"),
        ("query\ttitle\n!!\t??\n", "Nothing of the 1 rows"),
        ("search\tpage\na\tb\n", "has the columns 'search', 'page'"),
        ("", "holds no rows"),
    ],
)
def test_a_log_with_nothing_to_learn_from_fails_in_one_line(run, capsys, log, message):
    data = run(log, code=1)
    error = capsys.readouterr().err
    assert message in error
    assert error.splitlines()[-1].startswith("dssm preprocess: ")
    assert not data.path.exists()


def test_a_log_of_one_title_makes_records_without_negatives(run):
    data = run("query\ttitle\na\tb\nc\tb\n", "--validation_fraction", "0")
    assert sorted(record.titles for record in data.records()) == [("b",), ("b",)]


def test_two_texts_of_one_fingerprint_become_one_title(run, monkeypatch):
    def alike(data, **size):
        return blake2b(b"one" if data in (b"red hat", b"green tie") else data, **size)

    monkeypatch.setattr("dssm_tf.text.columns.blake2b", alike)
    log = "query\ttitle\tclicks\na\tRed Hat\t3\nb\tgreen tie\t5\nb\tother\t1\n"
    data = run(log, "--validation_fraction", "0")
    assert data.titles == {"green tie": (8, 2), "other": (1, 1)}
    # Who clicked one clicked the other, so neither is a negative.
    assert (data.clicked("a"), data.clicked("b")) == ({"green tie"}, {"green tie", "other"})
    negatives = {one.query: one.titles[1:] for one in data.records()}
    assert negatives == {"a": ("other",), "b": ()}


@pytest.mark.parametrize(
    "flags",
    [["--negatives", "-1"], ["--validation_fraction", "1"], ["--field-rows", "onw"],
     ["--negative_alpha", "nan"], ["--negatives", str(10**18)],
     ["--negative-alpha", "1e308"], ["--shards", str(10**12)]],
)  # fmt: skip
def test_wrong_usage_exits_with_two_and_names_the_flag(run, flags, capsys):
    run("query\ttitle\na\tb\n", *flags, code=2)
    assert f"dssm preprocess: {flags[0].replace('_', '-')} is " in capsys.readouterr().err


def test_all_formats_of_the_same_log_give_the_same_records(run, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [(f"query, {n}", f'The "title" {n % 7}', 1 + n % 3) for n in range(30)]
    tsv = "query\ttitle\tclicks\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows)
    quoted = "".join(
        ",".join('"' + str(one).replace('"', '""') + '"' for one in row) + "\r\n" for row in rows
    )
    jsonl = "".join(
        json.dumps(dict(zip(("query", "title", "clicks"), row, strict=True))) + "\n" for row in rows
    )
    table = dict(zip(("query", "title", "clicks"), map(list, zip(*rows, strict=True)), strict=True))
    parquet.write_table(pyarrow.table(table), tmp_path / "log.parquet")
    (tmp_path / "log.tsv.gz").write_bytes(gzip.compress(tsv.encode()))
    expected = run(tsv).records()
    assert len(expected) > 20
    assert run("query,title,clicks\r\n" + quoted, name="log.csv").records() == expected
    assert run(jsonl, name="log.jsonl").records() == expected
    assert run(None, "--input", str(tmp_path / "log.parquet")).records() == expected
    assert run(None, "--input", str(tmp_path / "log.tsv.gz")).records() == expected


def test_workers_load_neither_tensorflow_nor_keras():
    code = (
        "import sys, pipelines.preprocess;"
        "print([name for name in ('tensorflow', 'keras', 'matplotlib') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (found.stdout.strip(), found.stderr) == ("[]", "")


def test_the_report_page_loads_nothing_and_escapes_what_the_log_says(run):
    log = "query\ttitle\n" + "".join(f"q{n}\tt{n}\n" for n in range(20)) + "<script>alert(1)\n"
    page = (run(log).path / "report.html").read_text("utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;" in page
    for outside in ("http://", "https://", "src=", "url("):
        assert outside not in page
