"""What preprocess counts of its records is what one finds by reading them all."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.data.clicked_titles import load_clicked_titles
from dssm_tf.data.counts import load_record_counts
from dssm_tf.data.schema import FeatureSpec
from dssm_tf.text.rules import FOLDED

FLAGS = ("--validation_fraction", "0.3", "--max_words", "3")


@pytest.fixture
def log(topics):
    """Topics whose titles are now and then queries, longer than what is read of them."""
    lines = topics.splitlines()
    for n in range(0, 25, 2):
        lines.append(f"title NUMBER {n}\tTitle number {(n * 3) % 25}\t{1 + n}")
        lines.append(f"title NUMBER {n}\tThe long story of number {n}\t2")
    return "\n".join(lines) + "\n"


def test_counts_of_records_are_those_of_reading_them(run, log):
    data = run(log, *FLAGS)
    counts = load_record_counts(data.path)
    assert set(counts) == set(FeatureSpec.load(data.path).records)
    for split, one in counts.items():
        records = data.records(split)
        assert len(records) > 10
        assert one.clicks == Counter(int(record.clicks) for record in records)
        assert one.title_words == Counter(min(len(FOLDED.words(r.titles[0])), 3) for r in records)
        assert one.negatives == Counter(len(record.titles) - 1 for record in records)
        files = {path.name: path.stat().st_size for path in data.path.glob(f"{split}-*")}
        assert one.file_bytes == files


def test_what_was_clicked_for_a_query_stands_once_in_all_its_parts(run, log):
    data = run(log, *FLAGS, "--min_clicks", "2")
    rows = [line.split("\t") for line in log.splitlines()[1:]]
    learned = {FOLDED.key(query) for query, _, clicks in rows if int(clicks) > 1}
    expected = {
        (FOLDED.id(query), FOLDED.id(title))
        for query, title, _ in rows
        if FOLDED.key(query) in learned
    }
    lines = gzip.decompress((data.path / "clicked_titles.tsv.gz").read_bytes()).splitlines()[1:]
    found = [tuple(map(int, line.split(b"\t"))) for line in lines]
    assert len(found) == len(set(found))
    assert set(found) == expected
    clicked = load_clicked_titles(data.path)
    assert {(query, title) for query in clicked.queries for title in clicked.of(query)} == expected
    assert clicked.of(FOLDED.id("never asked")) == []


def test_the_output_grows_with_a_querys_titles_and_not_with_their_square(run):
    def size(titles: int) -> int:
        rows = [f"one query\ttitle {n}\t1\n" for n in range(titles)]
        data = run("query\ttitle\tclicks\n" + "".join(rows) + "two\tother\t1\n",
                   "--validation_fraction", "0")  # fmt: skip
        return sum(file.stat().st_size for file in data.path.iterdir())

    few, many = size(250), size(1000)
    assert many - few < 4 * few


def test_counts_do_not_depend_on_the_number_of_buckets(run, log):
    one, many = (run(log, *FLAGS, "--buckets", n).bytes() for n in ("1", "50"))
    for name in ("record_counts.json", "clicked_titles.tsv.gz"):
        assert one[name] == many[name]


def test_a_part_without_records_has_empty_counts(run):
    data = run("query\ttitle\na\tb\n", "--validation_fraction", "0")
    assert load_record_counts(data.path)["validation"].file_bytes == {}


def test_missing_and_damaged_tables_are_named(tmp_path):
    for load, name in (
        (load_record_counts, "record_counts.json"),
        (load_clicked_titles, "clicked_titles.tsv.gz"),
    ):
        with pytest.raises(UserError, match=f"{name} does not exist; preprocess writes it"):
            load(tmp_path)
    for text in ("[]", "{", json.dumps({"train": {"clicks": {}}}), '{"train": 3}'):
        (tmp_path / "record_counts.json").write_text(text, "utf-8")
        with pytest.raises(UserError, match=r"record_counts.json is damaged"):
            load_record_counts(tmp_path)
    table = tmp_path / "clicked_titles.tsv.gz"
    head = "query_id\ttitle_id\n"
    for text in ("", "1\t2\n", head + "1 2\n", head + "1\tx\n", head + "1\t\n", head + "1\t2\t3\n",
                 head + "1\t99999999999999999999\n", "\0"):  # fmt: skip
        table.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(UserError, match=r"clicked_titles.tsv.gz is damaged"):
            load_clicked_titles(tmp_path)
    table.write_bytes(gzip.compress((head + "1\t2\n" * 99).encode())[:-12])
    with pytest.raises(UserError, match=r"clicked_titles.tsv.gz is damaged"):
        load_clicked_titles(tmp_path)
    table.write_bytes(gzip.compress(head.encode()))
    assert load_clicked_titles(tmp_path).of(1) == []
