"""MS MARCO, ORCAS and TREC collections, on small files of the published layout."""

import gzip

import pytest

from dssm_tf.common.errors import UserError
from tests.datasets.tables import objects, write_source


def test_the_notes_of_msmarco_have_its_license_and_the_rows_left_out(tmp_path, source, convert):
    write_source(source, "msmarco")
    convert("msmarco")
    notes = (tmp_path / "out" / "NOTES.md").read_text("utf-8")
    assert "- left out: 1 x click for a query that is unknown or has no word." in notes
    assert "research use only" in notes


def test_msmarco_uses_page_titles_if_there_is_a_file_of_them(source, convert):
    write_source(source, "msmarco")
    (source / "para.title.txt").write_text("0\tBoiling point\n1\t-\n", "utf-8")
    _, corpus, _ = convert("msmarco")
    assert corpus == [("0", "Boiling point"), ("1", "Rugs are woven.")]


def test_orcas_joins_clicks_to_titles_of_gzip_files(tmp_path, source, convert):
    with gzip.open(source / "msmarco-docs.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("D1\thttp://example.org/a\tKettles\tlong body\nD2\thttp://example.org/b\t\tx\n")
    with gzip.open(source / "orcas.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("3\tkettle\tD1\thttp://example.org/a\n4\trug\tD2\thttp://example.org/b\n")
    (source / "msmarco-docdev-queries.tsv").write_text("8\tbest kettle\n", "utf-8")
    (source / "msmarco-docdev-qrels.tsv").write_text("8 0 D1 1\n", "utf-8")
    clicks, corpus, judgments = convert("orcas")
    assert [row[:2] for row in clicks] == [("kettle", "Kettles")]
    assert corpus == [("D1", "Kettles")]
    assert judgments == [("8", "best kettle", "D1", "Kettles", 1.0)]
    notes = (tmp_path / "out" / "NOTES.md").read_text("utf-8")
    assert "1 x title without text or id" in notes
    assert "1 x click for a title that the corpus lacks" in notes


def test_trec_collections_are_read_from_json_lines(source, convert):
    (source / "queries.jsonl").write_text(
        """\
{"_id": 51, "text": "red kettle"}
{"qid": 52, "query": "blue rug"}
""",
        "utf-8",
    )
    body = " ".join(map(str, range(25)))
    filler = ({"id": n, "title": "other"} for n in range(9))
    lines = f"""\
{{"_id": "FT-1", "title": "Kettles & lids", "text": "Body."}}
{{"docno": "FT-2", "title": "", "contents": "{body}"}}
{{"title": "without id"}}
"""
    (source / "corpus.jsonl").write_text(lines + objects(*filler), "utf-8")
    (source / "qrels.txt").write_text("51 0 FT-1 2\n52 0 FT-2 1\n", "utf-8")
    clicks, corpus, judgments = convert("trec")
    # a document without a title has its first twenty words
    assert corpus[:2] == [("FT-1", "Kettles & lids"), ("FT-2", " ".join(map(str, range(20))))]
    assert [row.query for row in clicks] == ["blue rug"]
    assert judgments == [("51", "red kettle", "FT-1", "Kettles & lids", 2.0)]


def test_a_trec_runs_unjudged_titles_are_ranked_with_grade_zero(source, convert):
    write_source(source, "trec")
    run = "51 Q0 FT-2 1 3.5 x\n51 Q0 FT-1 2 3.1 x\n7 Q0 FT-1 1 2 x\n"
    (source / "first.run").write_text(run, "utf-8")
    _, _, judgments = convert("trec")
    assert [(row[0], row[2], row[4]) for row in judgments] == [
        ("51", "FT-1", 2.0),
        ("51", "FT-2", 0.0),
    ]


def test_trec_files_of_different_collections_are_refused(source, convert):
    write_source(source, "trec", qrels="401 0 FT-1 2\n")
    with pytest.raises(UserError, match="1 x judgment for a query that is unknown or has no word"):
        convert("trec", held_out=1.0)


def test_leading_zeros_of_trec_ids_are_ignored_only_if_the_id_is_a_number(source, convert):
    (source / "topics.tsv").write_text("0a1\twhite fox\na1\tgray wolf\n007\tred deer\n", "utf-8")
    (source / "docs.tsv").write_text("d0\tFox\nd1\tWolf\nd2\tDeer\n", "utf-8")
    (source / "qrels.txt").write_text("0a1 0 d0 2\na1 0 d1 2\n7 0 d2 1\n", "utf-8")
    _, _, judgments = convert("trec", held_out=1)
    assert [(row.query_id, row.query) for row in judgments] == [
        ("0a1", "white fox"), ("a1", "gray wolf"), ("7", "red deer")
    ]  # fmt: skip
