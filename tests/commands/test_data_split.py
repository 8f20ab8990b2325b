"""`dssm data split`: one's own log in two."""

from __future__ import annotations

import pytest

from dssm_tf.cli import main
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.splits import HELD_OUT, is_held_out
from tests.tables.rows import logged


def log_of(header, row):
    """A log of 40 rows, each made of its number."""
    return "\n".join([header, *map(row, range(40))]) + "\n"


LOG = log_of(
    "query,title,clicks,timestamp",
    lambda n: f'query {n},"Title {n % 7}",{n + 1}000,2024-{1 + n // 28:02}-{1 + n % 28:02}',
)


@pytest.fixture
def split(tmp_path, capsys):
    """Runs the command on a log; gives its exit code, its directory and what it says."""

    def run(flags, log=LOG):
        path, out = tmp_path / "log.csv", tmp_path / "out"
        path.write_text(log, "utf-8")
        code = main(f"data split --clicks {path} --out {out} {flags}".split())
        return code, out, capsys.readouterr()

    return run


def learned_and_judged(out):
    return logged(out / "clicks.tsv"), read_judgments(out / "judgments.tsv")


def test_later_clicks_judge_and_earlier_ones_are_left_for_preprocess(split):
    code, out, said = split("--judge-later 0.25")
    assert code == 0
    rows, judged = learned_and_judged(out)
    assert [row.query for row in rows] == [f"query {n}" for n in range(30)]
    assert rows[3].clicks == 4000
    assert {one.query for one in judged} == {f"query {n}" for n in range(30, 40)}
    assert {one.title for one in read_corpus(out / "corpus.tsv")} == {
        f"Title {n}" for n in range(7)
    }
    parts = "learned from 30 rows with 465,000 clicks; judged by 10 rows with 355,000 clicks"
    for text in (said.out, (out / "NOTES.md").read_text("utf-8")):
        assert parts in text
    for part in ("preprocess --input", "dssm evaluate --model RUN --judgments"):
        assert part in said.out


def test_held_out_queries_judge_as_in_the_benchmark_whatever_the_order_of_the_log(split):
    head, *rows = LOG.splitlines(keepends=True)
    _, out, _ = split("--hold-out-queries 0.3", log=head + "".join(reversed(rows)))
    turned = out.rename(out.with_name("turned"))
    split("--hold-out-queries 0.3")
    for path in turned.glob("*.tsv"):
        assert path.read_bytes() == (out / path.name).read_bytes()
    learned, judged = ({one.query for one in part} for part in learned_and_judged(out))
    assert learned | judged == {f"query {n}" for n in range(40)}
    assert all(is_held_out(query, 0.3, HELD_OUT) for query in judged)
    assert not any(is_held_out(query, 0.3, HELD_OUT) for query in learned)


def test_titles_of_several_fields_become_one_column(split):
    log = log_of("query,name,brand", lambda n: f"query {n},Lamp {n % 7},Acme")
    _, out, _ = split("--title-fields name,brand --hold-out-queries 0.3", log=log)
    parts = (*learned_and_judged(out), read_corpus(out / "corpus.tsv"))
    assert {one.title for part in parts for one in part} == {f"Lamp {n}␟Acme" for n in range(7)}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--judge-later 0.25 --encoding utf-9", "--encoding is 'utf-9', which is no"),
        ("--judge-later 0.001", "40 rows are left to learn from and 0 to judge by"),
    ],
)  # fmt: skip
def test_what_cannot_be_divided_is_refused_in_one_line_and_leaves_nothing(split, flags, words):
    code, out, said = split(flags)
    assert code == 1
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not out.exists()
