import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import (
    CorpusTitle,
    Judgment,
    judgments_from_clicks,
    read_corpus,
    read_judgments,
    read_qrels,
    read_run,
    write_corpus,
    write_judgments,
    write_qrels,
    write_run,
)

HEADER = "query_id\tquery\tdoc_id\ttitle\tgrade\n"


@pytest.fixture
def write(tmp_path):
    def write(content, name="table.tsv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_columns_are_found_by_name_in_any_order(write):
    path = write(
        "grade\tnote\ttitle\tdoc_id\tquery\tquery_id\n1.33\tx\tHalo: Reach\td1\thalo\tq1\n"
    )
    assert read_judgments(path) == [Judgment("q1", "halo", "d1", "Halo: Reach", 1.33)]


def test_windows_line_ends_byte_order_mark_and_blank_lines_are_accepted(write):
    path = write("\N{BYTE ORDER MARK}doc_id\ttitle\r\nd1\tHalo\r\n\r\n")
    assert read_corpus(path) == [CorpusTitle("d1", "Halo")]


def test_gzip_is_read_and_written_by_name(tmp_path):
    path = tmp_path / "corpus.tsv.gz"
    write_corpus(path, [CorpusTitle("d1", "Ærø")])
    assert gzip.decompress(path.read_bytes()).decode() == "doc_id\ttitle\nd1\tÆrø\n"
    assert read_corpus(path) == [CorpusTitle("d1", "Ærø")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["is empty", "query_id query doc_id title grade"]),
        ("query\ttitle\nq\tt\n", ["['query', 'title']", "missing: query_id, doc_id, grade"]),
        (HEADER, ["no judgment"]),
        (HEADER + "q1\tq\td1\tt\tgood\n", [":2:", "'good'"]),
        (HEADER + "q1\tq\td1\tt\t-1\n", [":2:", "'-1'", "from 0"]),
        (HEADER + "q1\tq\td1\tt\tnan\n", [":2:", "'nan'"]),
        (HEADER + "q1\tq\td1\tt\tinf\n", [":2:", "'inf'"]),
        (HEADER + "q1\tq\td1\tt\t1\nq1\tq\td1\tt\t2\n", [":3:", "'q1'", "'d1'", "twice"]),
        (HEADER + "q1\tq\td1\tt\t1\nq1\tother\td2\tt\t2\n", [":3:", "'other'", "own id"]),
        (HEADER + "q1\tq\td1\t1\n", [":2:", "4 columns", "5"]),
        (HEADER + "\tq\td1\tt\t1\n", [":2:", "query_id is empty"]),
        (HEADER.encode() + b"q1\tq\td1\t\xff\t1\n", [":2:", "UTF-8"]),
    ],
)
def test_malformed_judgments_name_file_line_and_fault(write, content, words):
    path = write(content)
    with pytest.raises(UserError) as caught:
        read_judgments(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("doc_id\ttitle\nd1\ta\nd1\tb\n", [":3:", "'d1'", "line 2"]),
        ("doc_id\ttitle\n", ["no title"]),
        ("id\ttitle\nd1\ta\n", ["missing: doc_id"]),
    ],
)
def test_malformed_corpora_name_file_line_and_fault(write, content, words):
    with pytest.raises(UserError) as caught:
        read_corpus(write(content))
    for word in words:
        assert word in str(caught.value)


def test_a_pair_judged_by_several_people_can_have_the_mean_of_their_grades(write):
    path = write(HEADER + "q1\tq\td1\tt\t1\nq1\tq\td2\tu\t3\nq1\tq\td1\tt\t2\n")
    assert [(j.doc_id, j.grade) for j in read_judgments(path, repeats="mean")] == [
        ("d1", 1.5),
        ("d2", 3.0),
    ]


def test_a_missing_file_and_half_a_gzip_file_are_errors_of_one_line(tmp_path, write):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_corpus(tmp_path / "absent.tsv")
    whole = gzip.compress(b"doc_id\ttitle\n" + b"".join(b"d%d\tt\n" % i for i in range(2000)))
    with pytest.raises(UserError, match="not a whole gzip file"):
        read_corpus(write(whole[: len(whole) // 2], "half.tsv.gz"))


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
    assert read_judgments(path) == judgments


def test_a_run_is_written_best_first_and_read_back(tmp_path):
    path = tmp_path / "lstm.trec"
    write_run(path, {"q1": {"a": 0.5, "b": 2.0, "c": 0.5}}, tag="my lstm")
    assert path.read_text() == (
        "q1 Q0 b 1 2 my%20lstm\nq1 Q0 a 2 0.5 my%20lstm\nq1 Q0 c 3 0.5 my%20lstm\n"
    )
    assert read_run(path) == {"q1": {"a": 0.5, "b": 2.0, "c": 0.5}}


def test_qrels_keep_fractions_and_read_negative_grades_as_zero(tmp_path, write):
    path = tmp_path / "qrels.trec"
    write_qrels(path, [Judgment("q1", "q", "a", "t", 2.0), Judgment("q1", "q", "b", "t", 1.33)])
    assert path.read_text() == "q1 0 a 2\nq1 0 b 1.33\n"
    assert read_qrels(path) == {"q1": {"a": 2.0, "b": 1.33}}
    assert read_qrels(write("q1 0 a -2\n")) == {"q1": {"a": 0.0}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["is empty"]),
        ("q1 Q0 a 1 0.5\n", [":1:", "5 columns"]),
        ("q1 Q0 a 1 nan tag\n", [":1:", "score 'nan'"]),
        ("q1 Q0 a 1 2 t\nq1 Q0 a 2 1 t\n", [":2:", "'a' comes twice"]),
    ],
)
def test_malformed_runs_name_line_and_fault(write, content, words):
    with pytest.raises(UserError) as caught:
        read_run(write(content))
    for word in words:
        assert word in str(caught.value)


def test_clicks_become_grades_by_their_share_of_the_most_clicked_title():
    clicks = [
        ("Halo", "a", 3),
        ("halo!", "a", 1),  # the same query, so a has 4
        ("halo", "b", 4),  # a tie with the most clicked
        ("halo", "c", 2),  # half
        ("halo", "d", 1),  # less than half
        ("?!", "a", 9),  # no word
    ]
    found = judgments_from_clicks(clicks, doc_ids={"b": "B7"})
    assert [(j.query, j.title, j.grade) for j in found] == [
        ("Halo", "a", 3.0),
        ("Halo", "b", 3.0),
        ("Halo", "c", 2.0),
        ("Halo", "d", 1.0),
    ]
    assert found[1].doc_id == "B7"
    assert len({j.doc_id for j in found}) == 4
    assert {j.query_id for j in found} == {"q000001"}
