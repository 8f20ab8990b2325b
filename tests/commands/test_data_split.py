"""`dssm data split`: splits a log into training clicks and judgments."""

from __future__ import annotations

import os

import pytest

from dssm_tf.cli import main
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.splits import BENCHMARK_SPLIT, is_held_out
from tests.tables.rows import read_log_rows


def log_of(header, row):
    """A log with the rows `row(0)` to `row(39)`."""
    return "\n".join([header, *map(row, range(40))]) + "\n"


LOG = log_of(
    "query,title,clicks,timestamp",
    lambda n: f'query {n},"Title {n % 7}",{n + 1}000,2024-{1 + n // 28:02}-{1 + n % 28:02}',
)


@pytest.fixture
def split(tmp_path, capsys):
    """Runs the command on a log; returns its exit code, its directory and its output."""

    def run(flags, log=LOG):
        path, out = tmp_path / "log.csv", tmp_path / "out"
        path.write_text(log, "utf-8")
        code = main(f"data split --clicks {path} --out {out} {flags}".split())
        return code, out, capsys.readouterr()

    return run


def read_split(out):
    return read_log_rows(out / "clicks.tsv"), read_judgments(out / "judgments.tsv")


def test_later_clicks_become_judgments_and_earlier_ones_training_clicks(split):
    code, out, output = split("--judge-later 0.25")
    assert code == 0
    rows, judgments = read_split(out)
    assert [row.query for row in rows] == [f"query {n}" for n in range(30)]
    assert rows[3].clicks == 4000
    assert {row.query for row in judgments} == {f"query {n}" for n in range(30, 40)}
    assert {row.title for row in read_corpus(out / "corpus.tsv")} == {
        f"Title {n}" for n in range(7)
    }
    summary = "training: 30 rows with 465,000 clicks; test: 10 rows with 355,000 clicks"
    for text in (output.out, (out / "NOTES.md").read_text("utf-8")):
        assert summary in text
    for hint in ("preprocess --input", "dssm evaluate --model RUN --judgments"):
        assert hint in output.out


def test_the_order_of_the_log_does_not_matter_and_held_out_queries_are_those_of_the_benchmark(
    split,
):
    header, *rows = LOG.splitlines(keepends=True)
    _, out, _ = split("--hold-out-queries 0.3", log=header + "".join(reversed(rows)))
    reversed_out = out.rename(out.with_name("reversed"))
    split("--hold-out-queries 0.3")
    for path in reversed_out.glob("*.tsv"):
        assert path.read_bytes() == (out / path.name).read_bytes()
    training_queries, judged_queries = ({row.query for row in rows} for rows in read_split(out))
    assert training_queries | judged_queries == {f"query {n}" for n in range(40)}
    assert all(is_held_out(query, 0.3, BENCHMARK_SPLIT) for query in judged_queries)
    assert not any(is_held_out(query, 0.3, BENCHMARK_SPLIT) for query in training_queries)


def test_titles_of_several_fields_become_one_column(split):
    log = log_of("query,name,brand", lambda n: f"query {n},Lamp {n % 7},Acme")
    _, out, _ = split("--title-fields name,brand --hold-out-queries 0.3", log=log)
    tables = (*read_split(out), read_corpus(out / "corpus.tsv"))
    assert {row.title for table in tables for row in table} == {f"Lamp {n}␟Acme" for n in range(7)}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--judge-later 0.25 --encoding utf-9", "--encoding is 'utf-9', which is no"),
        ("--judge-later 0.001", "the split has 40 rows for training and 0 for judgments"),
    ],
)  # fmt: skip
def test_an_impossible_split_is_reported_in_one_line_and_writes_nothing(split, flags, message):
    code, out, output = split(flags)
    assert code == 1
    assert message in output.err
    assert output.err.count("\n") == 1
    assert not out.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize(
    "command",
    [
        "data split --clicks {log} --hold-out-queries 0.2 --corpus {pipe} --out {out}",
        "benchmark --clicks {log} --judgments {pipe} --systems bm25 --out {out}",
    ],
)
def test_a_pipe_is_refused_as_a_pipe_and_not_as_a_missing_file(tmp_path, capsys, command):
    log, pipe = tmp_path / "log.csv", tmp_path / "pipe.tsv"
    log.write_text(LOG, "utf-8")
    os.mkfifo(pipe)
    assert main(command.format(log=log, pipe=pipe, out=tmp_path / "out").split()) == 1
    assert "pipe.tsv is a pipe; expected a file" in capsys.readouterr().err
