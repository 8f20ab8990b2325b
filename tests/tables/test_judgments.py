"""Judgments and corpora: formats, repeated pairs, and judgments from clicks."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.tables.judgments import (
    CorpusTitle,
    Judgment,
    judgments_from_clicks,
    read_corpus,
    read_judgments,
    write_corpus,
    write_judgments,
)
from dssm_tf.text.rules import FOLDED

HEADER = "query_id\tquery\tdoc_id\ttitle\tgrade\n"


def test_gzip_is_read_and_written_by_name(tmp_path):
    path = tmp_path / "corpus.tsv.gz"
    write_corpus(path, [CorpusTitle("d1", "Ærø")])
    assert path.read_bytes()[4:8] == bytes(
        4
    )  # no modification time: equal content gives equal bytes
    assert gzip.decompress(path.read_bytes()).decode() == "doc_id\ttitle\nd1\tÆrø\n"
    assert read_corpus(path) == [CorpusTitle("d1", "Ærø")]


def test_a_pair_with_several_judgments_has_the_mean_of_their_grades(write):
    path = write("j.tsv", HEADER + "q1\tq\td1\tt\t1\nq1\tq\td2\tu\t3\nq1\tq\td1\tt\t2\n")
    assert [(j.doc_id, j.grade) for j in read_judgments(path)] == [
        ("d1", 1.5),
        ("d2", 3.0),
    ]


@pytest.mark.parametrize("name", ["j.csv", "j.jsonl", "j.parquet"])
def test_judgments_and_corpora_are_read_in_every_format(write_rows, name):
    columns = ("query_id", "query", "doc_id", "title", "grade")
    path = write_rows(name, columns, [(7, "ha\tlo", "d\r1", "Halo:\nReach", 1.5)])
    assert read_judgments(path) == [Judgment("7", "ha lo", "d 1", "Halo: Reach", 1.5)]
    assert read_corpus(path) == [CorpusTitle("d 1", "Halo: Reach")]


def test_a_file_name_without_a_known_ending_means_tsv(write):
    path = write("corpus.txt", "title\tdoc_id\nHalo\td1\n")
    assert read_corpus(path) == [CorpusTitle("d1", "Halo")]


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
ID = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=8)


@given(
    st.dictionaries(
        st.tuples(ID, ID),
        st.tuples(TEXT, st.floats(0, 100, allow_nan=False)),
        min_size=1,
        max_size=8,
    )
)
def test_judgments_survive_a_round_trip(tmp_path_factory, table):
    judgments = [
        Judgment(query_id, f"query {query_id}", doc_id, title, grade)
        for (query_id, doc_id), (title, grade) in table.items()
    ]
    path = tmp_path_factory.mktemp("round") / "j.tsv"
    write_judgments(path, judgments)
    read = read_judgments(path)
    assert [row[:4] for row in read] == [row[:4] for row in judgments]
    assert [row.grade for row in read] == pytest.approx([row.grade for row in judgments])


def test_grades_depend_on_the_ratio_to_the_most_clicked_title():
    clicks = [
        ("Halo", "A1", 4),
        ("halo!", "A1", 2),  # the same query, so A1 has 6
        ("halo", "B7", 6),  # a tie with the most clicked
        ("halo", "C", 3),  # half
        ("halo", "D", 2),  # less than half
        ("?!", "A1", 9),  # no word
    ]
    judgments = judgments_from_clicks(clicks, FOLDED, {"A1": "a", "B7": "b", "C": "c", "D": "d"})
    assert [(j.query, j.title, j.grade) for j in judgments] == [
        ("Halo", "a", 3.0),
        ("Halo", "b", 3.0),
        ("Halo", "c", 2.0),
        ("Halo", "d", 1.0),
    ]
    assert [j.doc_id for j in judgments] == ["A1", "B7", "C", "D"]
    assert {j.query_id for j in judgments} == {"q000001"}
