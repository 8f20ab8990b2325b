"""The full pipeline on small logs: its output, and its errors for bad input."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

import pyarrow
import pytest
from pyarrow import parquet

NO_VALIDATION = ("--validation-fraction", "0")


def test_clicks_are_summed_over_rows_with_the_same_normal_forms(run):
    log = (
        "query\ttitle\tclicks\n"
        "Ice Cream\tThe Best\t2\nice cream!\tthe best\t3\nICE-cream\tThe Best\t2\nother\tthing\t1\n"
    )
    data = run(*NO_VALIDATION, log=log)
    by_pair = {record.pair: record for record in data.records()}
    record = by_pair["ice cream", "the best"]
    assert record.clicks == 7
    # The texts with most clicks: 3 of 7 for the query, 4 of 7 for the title.
    assert record.query == "ice cream!"
    assert record.titles[0] == "The Best"
    assert data.titles == {"The Best": (7, 1), "thing": (1, 1)}
    assert not [*data.path.glob("validation-*")]


def test_texts_that_differ_in_accents_are_merged_unless_keep_accents(run, write):
    log = (
        "query\ttitle\tclicks\nleixões\tPorto de Leixões\t2\nLeixoes\tPorto de Leixoes\t3\n"
        "pão\tPadaria\t1\npao\tBambu\t1\n"
    )
    flags = (*NO_VALIDATION, "--block_list", str(write("blocked.txt", "pao\n")))
    folded, with_accents = run(*flags, log=log), run(*flags, "--keep-accents", log=log)
    assert folded.titles == {"Porto de Leixoes": (5, 1)}
    assert {(record.query, record.clicks) for record in folded.records()} == {("Leixoes", 5)}
    queries = {"leixões": 2, "Leixoes": 3, "pão": 1}
    assert {record.query: record.clicks for record in with_accents.records()} == queries
    known = ["õ" in "".join(data.vocabulary.ngrams) for data in (folded, with_accents)]
    assert known == [False, True]
    assert [*folded.words] != [*with_accents.words]
    assert folded.words["leixoes"] == folded.vocabulary.ngram_ids("leixoes")


def test_the_splits_have_their_fractions_and_are_shuffled(run):
    log = "query\ttitle\n" + "".join(f"query {n:04}\ttitle {n % 50}\n" for n in range(2000))
    data = run("--validation_fraction", "0.2", "--shards", "4", log=log)
    names = sorted(file.name for file in data.path.glob("train-*"))
    assert names == [f"train-{n:05d}-of-00004.tfrecord.gz" for n in range(4)]
    queries = [record.query for record in data.records()]
    assert data.spec.count("train") == len(queries) == 2000 - data.spec.count("validation")
    # Standard deviation of the fraction: sqrt(.8 * .2 / 2000) = 0.009.
    assert abs(len(queries) / 2000 - 0.8) < 0.04
    # As many queries are followed by a larger one as not; of n, the deviation is sqrt(n / 12).
    assert abs(sum(a < b for a, b in pairwise(queries)) / len(queries) - 0.5) < 0.05


def test_sessions_and_blocked_queries_are_cleaned_and_every_row_is_counted(run, write, tmp_path):
    blocked = write("blocked.txt", "Bad\n# oddly\nhalo  wars\n=odd\n\n")
    rows = ["query\ttitle\tclicks\tsession_id"]
    rows += ["halo\tReach\t1\ta", "Halo\tReach\t1\ta", "halo\tWars\t1\tb", "halo\tReach\t1\t"]
    rows += ["!!\tReach\t1\ta", "bad halo\tReach\t1\ta", "halo\tReach\tmany\ta"]
    others = "Halo Wars", "odd", "halo wars 2", "oddly", "badly"
    rows += [f"{query}\tReach\t1\ta" for query in others]
    flags = ("--max_reject_fraction", "0.5", "--block_list", str(blocked))
    data = run(*flags, *NO_VALIDATION, log="\n".join(rows) + "\n")
    assert data.report["rows"] == {
        "in": 12,
        "clicks": 12,
        "rejected": {"clicks is not a number": 1},
        "rejected_clicks": 1,
    }
    assert f"the largest: {tmp_path / 'log.tsv'}:8: halo Reach many a" in data.report["lines"]
    counts = {name: data.report["counts"][f"dropped: {name}"] for name in ("blocked", "no words")}
    assert counts == {"blocked": 3, "no words": 1}
    assert {record.pair: record.clicks for record in data.records()} == {
        ("halo", "reach"): 2, ("halo", "wars"): 1, ("halo wars 2", "reach"): 1,
        ("oddly", "reach"): 1, ("badly", "reach"): 1,
    }  # fmt: skip


def test_malformed_rows_are_listed_with_file_line_and_reason(run, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.sources.MIN_PIECE_BYTES", 50)
    monkeypatch.setattr("pipelines.sources.PIECES", 1000)
    odd = "<script>alert(1)"
    lines = ["query\ttitle\tclicks"]
    lines += [odd if n % 20 == 7 else f"q{n}\tt{n}\t1" for n in range(100)]
    lines[3] = f"q2\t{'long ' * 40}\t1"  # pieces within it contain no line start
    data = run(*NO_VALIDATION, log="\n".join([*lines, "c\td\t-1"]) + "\n")
    path = str(tmp_path / "log.tsv")
    assert data.rejects == [
        *([path, f"{at}", "wrong column count", "unknown", odd] for at in (9, 29, 49, 69, 89)),
        [path, "102", "clicks is negative", "1", "c d -1"],
    ]
    rejected = {"clicks is negative": 1, "wrong column count": 5}
    assert data.report["rows"]["rejected"] == rejected
    # The page loads no other file and escapes the texts of the log.
    assert odd not in data.page
    assert "&lt;script&gt;" in data.page
    for outside in ("http://", "https://", "src=", "url("):
        assert outside not in data.page


def test_row_numbers_are_those_of_a_parquet_file_of_several_row_groups(run, tmp_path):
    titles = [None if n in (3, 17) else f"t{n}" for n in range(1, 31)]
    table = pyarrow.table({"query": [f"q{n}" for n in range(1, 31)], "title": titles})
    parquet.write_table(table, tmp_path / "log.parquet", row_group_size=7)
    data = run("--input", str(tmp_path / "log.parquet"), *NO_VALIDATION)
    assert [row[1:3] for row in data.rejects] == [["3", "no title"], ["17", "no title"]]
    assert {record.pair for record in data.records()} == {(f"q{t[1:]}", t) for t in titles if t}


def test_a_log_whose_clicks_are_mostly_in_rejected_rows_is_refused(run, error_of_run, capsys):
    good = "".join(f"q{n}\tt{n}\t10\n" for n in range(40))
    log = "query\ttitle\tclicks\n" + good + "a\t\t67998\n"
    message = error_of_run(*NO_VALIDATION, log=log)
    # 67,998 of 68,398 clicks are 99.4 %.
    assert "99.4% of the clicks" in message
    assert "log.tsv:42: a  67998" in message
    data = run(*NO_VALIDATION, "--max_reject_fraction", "1", log=log)
    assert "a 67998" in data.page
    assert "99.4% of the clicks" in capsys.readouterr().err


def test_a_log_that_is_not_utf8_is_read_with_its_encoding(run, write):
    log = "query\ttitle\n" + "".join(f"café {n}\tCafé {n}\n" for n in range(20))
    path = write("utf16.tsv", log.encode("utf-16"))
    data = run("--input", str(path), *NO_VALIDATION, "--encoding", "utf-16")
    assert "café 7" in {record.query for record in data.records()}


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("query\ttitle\n", "holds no rows below the header"),
        ("query\ttitle\n!!\t??\n", "None of the 1 rows"),
    ],
)
def test_a_log_without_training_pairs_is_an_error(error_of_run, log, message):
    error = error_of_run(log=log)
    assert message in error
    assert "lines 0" not in error


def test_texts_with_equal_fingerprints_become_the_same_title(run, monkeypatch):
    def alike(data, **size):
        return blake2b(b"one" if data in (b"red hat", b"green tie") else data, **size)

    monkeypatch.setattr("dssm_tf.tables.text_columns.blake2b", alike)
    log = "query\ttitle\tclicks\na\tRed Hat\t3\nb\tgreen tie\t5\nb\tother\t1\n"
    data = run(*NO_VALIDATION, log=log)
    assert data.titles == {"green tie": (8, 2), "other": (1, 1)}
    # A click on either text is a click on the title, so neither is a negative.
    texts = [row["text"] for row in data.table("titles")]
    clicked = {row["text"]: {texts[n] for n in row["clicked"]} for row in data.table("queries")}
    assert clicked == {"a": {"green tie"}, "b": {"green tie", "other"}}
    negatives = {record.query: record.titles[1:] for record in data.records()}
    assert negatives == {"a": ("other",), "b": ()}


@pytest.mark.parametrize(
    "flags",
    [["--negatives", "-1"], ["--validation_fraction", "1"], ["--field-rows", "onw"],
     ["--negative_alpha", "nan"], ["--negatives", str(10**18)],
     ["--negative-alpha", "1e308"], ["--shards", str(10**12)]],
)  # fmt: skip
def test_wrong_usage_exits_with_two_and_names_the_flag(error_of_run, flags):
    error = error_of_run(*flags, log="query\ttitle\na\tb\n", code=2)
    assert f"dssm preprocess: {flags[0].replace('_', '-')} is " in error
