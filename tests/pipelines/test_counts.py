"""What preprocess counts of its records is what one finds by reading them all."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.data.counts import load_record_counts, load_title_queries
from dssm_tf.data.schema import FeatureSpec, load_titles, text_id
from dssm_tf.text.normalize import words

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
        assert one.title_words == Counter(min(len(words(r.titles[0])), 3) for r in records)
        files = {path.name: path.stat().st_size for path in data.path.glob(f"{split}-*")}
        assert one.file_bytes == files


def test_titles_that_are_queries_are_listed_with_what_those_queries_clicked(run, log, tmp_path):
    (tmp_path / "corpus.tsv").write_text("title\nQuery 7\nquery seven\n", "utf-8")
    data = run(log, *FLAGS, "--corpus", str(tmp_path / "corpus.tsv"))
    titles = {text_id(title.text) for title in load_titles(data.path)}
    clicked = {
        text_id(record.query): list(record.clicked_ids)
        for split in ("train", "validation")
        for record in data.records(split)
        if text_id(record.query) in titles
    }
    assert len(clicked) == 14  # 13 titles of the log, one of the corpus
    assert load_title_queries(data.path) == clicked


def test_counts_do_not_depend_on_the_number_of_buckets(run, log):
    one, many = (run(log, *FLAGS, "--buckets", n).bytes() for n in ("1", "50"))
    for name in ("record_counts.json", "title_queries.tsv"):
        assert one[name] == many[name]


def test_a_part_without_records_has_empty_counts(run):
    data = run("query\ttitle\na\tb\n", "--validation_fraction", "0")
    assert load_record_counts(data.path)["validation"].file_bytes == {}
    assert load_title_queries(data.path) == {}


def test_a_directory_without_counts_has_none_and_damaged_ones_are_named(tmp_path):
    assert load_record_counts(tmp_path) is None
    assert load_title_queries(tmp_path) is None
    for text in ("[]", "{", json.dumps({"train": {"clicks": {}}}), '{"train": 3}'):
        (tmp_path / "record_counts.json").write_text(text, "utf-8")
        with pytest.raises(UserError, match=r"record_counts.json is damaged"):
            load_record_counts(tmp_path)
    (tmp_path / "title_queries.tsv").write_text("title_id\tclicked_ids\n1 2\n", "utf-8")
    with pytest.raises(UserError, match=r"title_queries.tsv is damaged"):
        load_title_queries(tmp_path)
