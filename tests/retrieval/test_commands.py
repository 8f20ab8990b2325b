"""`dssm embed`, `dssm index` and `dssm search`."""

import io
import sys

import numpy as np
import pytest
from pyarrow import parquet

from dssm_tf.commands.embed import embed
from dssm_tf.commands.flags import TableFlags
from dssm_tf.commands.index import index
from dssm_tf.commands.search import search
from dssm_tf.common.errors import UserError
from tests.retrieval.conftest import CORPUS, DIMENSION

pytest.importorskip("faiss")


@pytest.fixture(autouse=True)
def width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


# --------------------------------------------------------------------------- embed


def read(path):
    """Ids, texts and vectors of a Parquet file."""
    ids, texts, vectors = parquet.read_table(path).to_pydict().values()
    assert parquet.read_schema(path).names == ["id", "text", "vector"]
    return list(zip(ids, texts, strict=True)), np.array(vectors, np.float32)


def test_vectors_are_the_models_in_the_order_of_the_input(
    run_with_prior, ranker, corpus_file, tmp_path
):
    embed(model=run_with_prior, input=corpus_file, out=tmp_path / "t.parquet")
    corpus, vectors = read(tmp_path / "t.parquet")
    assert corpus == CORPUS
    titles = [title for _, title in CORPUS]
    np.testing.assert_array_equal(vectors, ranker.encode_titles(titles, prior=True))
    # Lines have their numbers as ids; the inner product is the score.
    (tmp_path / "q.txt").write_text("red hat\n\nblue\n")
    embed(model=run_with_prior, input=tmp_path / "q.txt", out=tmp_path / "q.parquet", side="query")
    asked, queries = read(tmp_path / "q.parquet")
    assert [one for one, _ in asked] == ["0", "1", "2"]
    expected = ranker.score_matrix(["red hat", "", "blue"], titles)
    np.testing.assert_allclose(queries @ vectors.T, expected, atol=1e-6)
    embed(model=run_with_prior, input=corpus_file, out=tmp_path / "t.parquet", cosine=True)
    assert read(tmp_path / "t.parquet")[1].shape == (5, DIMENSION)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"out": "v.npy"}, "ends in .parquet"),
        ({"out": "corpus.tsv"}, "ends in .parquet"),
        ({"input": "empty.txt"}, "holds no text"),
        ({"tables": TableFlags(columns="title=colour")}, "colour"),
        ({"model": "absent"}, "does not exist"),
    ],
)
def test_what_cannot_be_embedded_is_one_line_and_writes_nothing(
    run_directory, corpus_file, tmp_path, given, message
):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "v.parquet").write_text("what was there before")
    before = sorted(tmp_path.iterdir())
    paths = {"input": corpus_file, "out": "v.parquet", "model": run_directory} | given
    others = {name: paths.pop(name) for name in ("tables",) if name in paths}
    with pytest.raises(UserError, match=message) as caught:
        embed(**{name: tmp_path / path for name, path in paths.items()}, **others)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "v.parquet").read_text() == "what was there before"


# --------------------------------------------------------------------------- index, search


def shown(capsys, *queries, **given):
    search(*queries, **given)
    return capsys.readouterr().out


def test_a_search_shows_the_hybrid_first(made, capsys):
    text = shown(capsys, "red hat", "", index=made, k=1)
    for part in ("BM25", "model", "d1", "1.00", "Nothing was found"):
        assert part in text
    assert text.index("Words + meaning") < text.index("Words (BM25)")


def test_a_corpus_is_searched_without_an_index_too(run_with_prior, made, corpus_file, capsys):
    def hits(text):
        return [line for line in text.splitlines() if "similarity" in line]

    expected = hits(shown(capsys, "red hat", index=made))
    assert hits(shown(capsys, "red hat", model=run_with_prior, corpus=corpus_file)) == expected


def test_piped_queries_are_read_line_by_line(made, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"red\n\nbl\xffue\n")))
    assert shown(capsys, index=made).count("Query:") == 3


@pytest.mark.parametrize("typed", ["red\n\nblue\n", "red\n"], ids=["empty line", "end of input"])
def test_the_prompt_ends_at_an_empty_line_or_the_end(made, capsys, monkeypatch, typed):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert shown(capsys, index=made).count("Query:") == 1


def test_a_fast_index_says_its_recall(run_with_prior, corpus_file, tmp_path, capsys):
    (tmp_path / "q.txt").write_text("red hat\nblue box\ntie\n")
    out = tmp_path / "i"
    index(
        model=run_with_prior, corpus=corpus_file, out=out, kind="fast", queries=tmp_path / "q.txt"
    )
    said = capsys.readouterr().err
    assert "fast: recall@10 1.000, @100 1.000, on 3 queries" in said
    assert "%|" not in said  # no bar of the library
    assert "d1" in shown(capsys, "red hat", index=out)


def test_what_cannot_be_indexed_is_one_line_and_leaves_nothing(
    run_with_prior, tmp_path, corpus_file
):
    (tmp_path / "q.txt").write_text("\n")
    (tmp_path / "empty.tsv").write_text("doc_id\ttitle\n")
    (tmp_path / "marks.tsv").write_text("doc_id\ttitle\na\t?!\n")
    before = sorted(tmp_path.iterdir())
    refused = [
        ("has a header and no title", {"corpus": tmp_path / "empty.tsv"}),
        ("no word in them", {"corpus": tmp_path / "marks.tsv"}),
        ("holds no query", {"queries": tmp_path / "q.txt"}),
        ("holds no weights", {"model": tmp_path}),
        ("exists already", {"out": run_with_prior}),
    ]
    for message, given in refused:
        arguments = {"model": run_with_prior, "corpus": corpus_file, "out": tmp_path / "i"} | given
        with pytest.raises(UserError, match=message) as caught:
            index(**arguments)
        assert "\n" not in str(caught.value)
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 0}, "--k 0"),
        ({"index": None}, "either --index"),
        ({"corpus": "c.tsv", "model": "m"}, "either --index"),
    ],
)
def test_what_cannot_be_searched_is_told(made, given, message):
    with pytest.raises(UserError, match=message):
        search("red", **({"index": made} | given))
