"""`dssm data judgments`: grades from clicks, and the formats of other tools."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_judgments import judge_log
from dssm_tf.tables.click_log import LogRow, log_frame
from dssm_tf.tables.exchange_formats import FORMATS
from dssm_tf.tables.judgments import Judgment, read_judgments

HEADER = "query\ttitle\tdoc_id\tclicks\timpressions\tposition"
ROWS = [
    # query, title, doc_id, clicks, impressions, position
    ("red hat", "Red Hat", "d1", 8, 20, 1),
    ("Red  Hat!", "Red Cap", "d2", 4, 20, 2),  # the same query; half of the clicks of d1
    ("red hat", "Red Box", "d3", 3, 20, 3),
    ("red hat", "Blue Box", "d4", 0, 9, 4),
    ("red hat", "Blue Box", "d4", 0, 1, 5),  # with the row above, ten displays without a click
    ("red hat", "Green Box", "d5", 0, 9, 6),
    ("blue box", "Blue Box", "d4", 1, 2, 1),
    ("no click", "Red Hat", "d1", 0, 99, 1),
]


def log(rows=ROWS):
    return log_frame(
        LogRow(query, title, clicks, impressions, position=position, doc_id=doc_id)
        for query, title, doc_id, clicks, impressions, position in rows
    )


def grades(rows=ROWS, **options):
    judgments, _ = judge_log(log(rows), None, **options)
    return {(row.query_id, row.doc_id): row.grade for row in judgments}


def test_grades_follow_the_clicks_of_the_query():
    # By query in order of its normal form: "blue box", then "red hat". "no click" has no title.
    assert grades() == {
        ("q000001", "d4"): 3,
        ("q000002", "d1"): 3,
        ("q000002", "d2"): 2,
        ("q000002", "d3"): 1,
        ("q000002", "d4"): 0,
    }


def test_queries_with_few_clicks_and_titles_with_few_displays_have_no_judgment():
    result = grades(min_clicks=2, min_impressions=9)
    assert {query for query, _ in result} == {"q000001"}
    assert result["q000001", "d5"] == 0
    judgments, notes = judge_log(log(), None, min_clicks=2)
    assert notes == ["1 queries with fewer than 2 clicks were left out"]
    assert judgments[0].query == "Red  Hat!"


def test_a_click_counts_by_the_inverse_of_how_often_its_position_is_examined():
    # Position 3 is examined a third as often as position 1: 3 clicks there count 9, those of d1 8.
    # Ten displays at positions that are examined half as often are five.
    weights = np.array([1.0, 1.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0])
    result = grades(weights=weights, min_impressions=5)
    assert [result["q000002", doc] for doc in ("d1", "d2", "d3", "d4", "d5")] == [2, 1, 3, 0, 0]
    assert ("q000002", "d4") not in grades(weights=weights, min_impressions=6)


def test_grades_do_not_depend_on_the_order_of_the_log():
    assert grades(ROWS[::-1]) == grades()


def test_a_log_without_ids_needs_a_corpus():
    rows = [(query, title, "", *numbers) for query, title, _, *numbers in ROWS]
    with pytest.raises(UserError, match="5 titles of the log have no doc_id, such as 'Blue Box'"):
        judge_log(log(rows), None)


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    """Runs the command on the log; returns its code, its directory and its streams."""
    monkeypatch.chdir(tmp_path)
    lines = ["\t".join(map(str, row)) for row in ROWS]
    (tmp_path / "clicks.tsv").write_text("\n".join([HEADER, *lines, ""]), "utf-8")

    def run(format, *flags):
        start = f"data judgments --clicks clicks.tsv --format {format} --out J".split()
        code = main([*start, *flags])
        return code, tmp_path / "J", capsys.readouterr()

    return run


def test_qrels_are_those_of_trec_eval(command):
    code, folder, output = command("trec")
    assert code == 0, output.err
    assert (folder / "qrels.trec").read_text("utf-8").splitlines() == [
        "q000001 0 d4 3",
        "q000002 0 d1 3",
        "q000002 0 d2 2",
        "q000002 0 d3 1",
        "q000002 0 d4 0",
    ]
    assert read_judgments(folder / "judgments.tsv")[0][:3] == ("q000001", "blue box", "d4")
    assert "5 judgments of 2 queries: 2 of grade 3, 1 of grade 2, 1 of grade 1, 1 of" in output.out
    assert "grade 3 for the most clicked title" in (folder / "NOTES.md").read_text("utf-8")


def test_quepid_gets_its_three_columns(command):
    code, folder, output = command("quepid")
    assert code == 0, output.err
    lines = (folder / "quepid.csv").read_text("utf-8").split("\n")
    assert lines[:3] == ["query,docid,rating", "blue box,d4,3", "Red  Hat!,d1,3"]


def test_quepid_gets_no_line_that_it_refuses(tmp_path):
    queries = ["tv, 40 inch", '40" tv', '40", tv', "plain"]
    rows = [Judgment(f"q{n}", query, "d1", "TV", 3.0) for n, query in enumerate(queries)]
    notes = FORMATS["quepid"].write(tmp_path / "q.csv", rows)
    lines = (tmp_path / "q.csv").read_text("utf-8").splitlines()
    for line in lines:  # the rule of Quepid's import page
        assert len(line.split(",")) <= 3 or line.count('"') == 2
    _, *parsed = csv.reader(io.StringIO("\n".join(lines)))
    assert [row[0] for row in parsed] == ["tv, 40 inch", '40" tv', "plain"]
    assert notes[0].startswith("1 rows were left out, because Quepid accepts")


def test_search_relevance_gets_the_body_of_its_request(command):
    code, folder, output = command("search-relevance")
    assert code == 0, output.err
    body = json.loads((folder / "search_relevance.json").read_bytes())
    assert body["type"] == "IMPORT_JUDGMENT"
    assert body["name"]
    assert body["judgmentRatings"][0] == {
        "query": "blue box",
        "ratings": [{"docId": "d4", "rating": "3.000"}],
    }
    assert [row["docId"] for row in body["judgmentRatings"][1]["ratings"]] == [
        "d1", "d2", "d3", "d4",
    ]  # fmt: skip
    assert "PUT" in output.out


def test_weights_of_positions_come_from_a_file(command, tmp_path):
    (tmp_path / "curve.tsv").write_text("position\tpropensity\n1\t1\n2\t0.5\n3\t0.25\n", "utf-8")
    code, folder, output = command("trec", "--position-weights", "curve.tsv")
    assert code == 0, output.err
    # Clicks of d1, d2, d3 count 8, 4 / 0.5 and 3 / 0.25.
    qrels = (folder / "qrels.trec").read_text("utf-8").splitlines()[1:4]
    assert qrels == ["q000002 0 d3 3", "q000002 0 d1 2", "q000002 0 d2 2"]
    assert "have weights 1.00, 2.00, 4.00 (curve.tsv)" in output.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--position-weights", "harvesting"], "examination cannot be estimated from this log"),
        (["--min-clicks", "99"], "the log has no query with 99 clicks"),
        (["--columns", "doc_id=sku"], "(missing: sku). Correct the names in --columns"),
    ],
)
def test_an_unusable_flag_is_one_clear_line(command, flags, message):
    code, folder, output = command("trec", *flags)
    assert code == 1
    assert message in output.err
    assert output.err.count("\n") == 1
    assert not folder.exists()
