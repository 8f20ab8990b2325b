"""MS MARCO, ORCAS and TREC collections, on small files of the published layout."""

from __future__ import annotations

import gzip

import pytest

from dssm_tf.common.errors import UserError
from tests.datasets.tables import pairs, write_lines, write_objects


def write_msmarco(source):
    write_lines(source / "collection.tsv", (0, "Water boils at 100."), (1, "Rugs are woven."))
    write_lines(source / "queries.train.tsv", (5, "when does water boil"), (6, "unjudged"))
    write_lines(source / "qrels.train.tsv", (5, 0, 0, 1), (99, 0, 1, 1))
    write_lines(source / "queries.dev.small.tsv", (7, "how are rugs made"))
    write_lines(source / "qrels.dev.small.tsv", (7, 0, 1, 1))


def test_msmarco_has_training_pairs_as_clicks_and_dev_as_judgments(tmp_path, source, convert):
    write_msmarco(source)
    clicks, corpus, judgments = convert("msmarco")
    assert pairs(clicks) == [("when does water boil", "Water boils at 100.", "0")]
    assert corpus == [("0", "Water boils at 100."), ("1", "Rugs are woven.")]
    assert judgments == [("7", "how are rugs made", "1", "Rugs are woven.", 1.0)]
    notes = (tmp_path / "out" / "NOTES.md").read_text("utf-8")
    assert "- left out: 1 x judgment of a query without a text." in notes
    assert "research use only" in notes


def test_msmarco_shows_page_titles_where_they_are_given(source, convert):
    write_msmarco(source)
    write_lines(source / "para.title.txt", (0, "Boiling point"), (1, "-"))
    _, corpus, _ = convert("msmarco")
    assert corpus == [("0", "Boiling point"), ("1", "Rugs are woven.")]


def test_orcas_joins_clicks_to_titles_out_of_packed_files(tmp_path, source, convert):
    with gzip.open(source / "msmarco-docs.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("D1\thttp://example.org/a\tKettles\tlong body\nD2\thttp://example.org/b\t\tx\n")
    with gzip.open(source / "orcas.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("3\tkettle\tD1\thttp://example.org/a\n4\trug\tD2\thttp://example.org/b\n")
    write_lines(source / "msmarco-docdev-queries.tsv", (8, "best kettle"))
    (source / "msmarco-docdev-qrels.tsv").write_text("8 0 D1 1\n", "utf-8")
    clicks, corpus, judgments = convert("orcas")
    assert pairs(clicks) == [("kettle", "Kettles", "D1")]
    assert corpus == [("D1", "Kettles")]
    assert judgments == [("8", "best kettle", "D1", "Kettles", 1.0)]
    notes = (tmp_path / "out" / "NOTES.md").read_text("utf-8")
    assert "1 x title without text or id" in notes
    assert "1 x click on a title that the corpus lacks" in notes


def test_a_broken_archive_is_an_error(source, convert):
    packed = gzip.compress(b"D1\turl\tKettles\tbody\n" * 1000)
    (source / "msmarco-docs.tsv.gz").write_bytes(packed[:-20])
    with pytest.raises(UserError, match=r"msmarco-docs\.tsv\.gz is not a whole gzip file"):
        convert("orcas")


TOPICS = """<top>
<num> Number: 051
<title> Topic: red kettle
<desc> Description: kettles that are red
</top>
<top>
<num> Number: 52 </num> <title> blue rug </title>
</top>
"""
DOCS = """<DOC>
<DOCNO> FT-1 </DOCNO>
<HEADLINE>Kettles &amp; lids</HEADLINE>
<TEXT>Body.</TEXT>
</DOC>
<DOC>
<DOCNO>FT-2</DOCNO>
<TEXT>
<P>A rug of</P> wool
</TEXT>
</DOC>
"""


def write_trec(source):
    (source / "topics.51-52").write_text(TOPICS, "utf-8")
    (source / "docs.sgml").write_text(DOCS, "utf-8")
    (source / "qrels.51-52").write_text("51 0 FT-1 2\n52 0 FT-2 1\n52 0 FT-1 -1\n", "utf-8")


def test_trec_collections_are_read_from_their_mark_up(source, convert):
    write_trec(source)
    clicks, corpus, judgments = convert("trec")
    assert corpus == [("FT-1", "Kettles & lids"), ("FT-2", "A rug of wool")]
    assert pairs(clicks) == [("blue rug", "A rug of wool", "FT-2")]
    assert judgments == [("51", "red kettle", "FT-1", "Kettles & lids", 2.0)]


def test_a_trec_runs_unjudged_titles_are_ranked_with_grade_zero(source, convert):
    write_trec(source)
    (source / "first.run").write_text("51 Q0 FT-2 1 3.5 x\n51 Q0 FT-1 2 3.1 x\n", "utf-8")
    _, _, judgments = convert("trec")
    assert [(row[2], row[4]) for row in judgments] == [("FT-1", 2.0), ("FT-2", 0.0)]


def test_trec_collections_as_json_lines_and_tables_are_the_same(source, convert):
    write_lines(source / "queries.tsv", ("51", "red kettle"), ("52", "blue rug"))
    write_objects(
        source / "corpus.jsonl",
        {"_id": "FT-1", "title": "Kettles & lids", "text": "Body."},
        {"_id": "FT-2", "title": "", "text": "A rug of wool"},
    )
    (source / "qrels.txt").write_text("51 0 FT-1 2\n52 0 FT-2 1\n", "utf-8")
    clicks, corpus, judgments = convert("trec")
    assert corpus == [("FT-1", "Kettles & lids"), ("FT-2", "A rug of wool")]
    assert pairs(clicks) == [("blue rug", "A rug of wool", "FT-2")]
    assert judgments == [("51", "red kettle", "FT-1", "Kettles & lids", 2.0)]


def test_trec_files_of_different_collections_are_refused(source, convert):
    write_trec(source)
    (source / "qrels.51-52").write_text("401 0 FT-1 2\n", "utf-8")
    with pytest.raises(UserError, match=r"no query id in common: 401 there, 51, 52 here"):
        convert("trec")
