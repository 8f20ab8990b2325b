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
    """Returns (id, text) pairs and the vectors of a Parquet file."""
    ids, texts, vectors = parquet.read_table(path).to_pydict().values()
    assert parquet.read_schema(path).names == ["id", "text", "vector"]
    return list(zip(ids, texts, strict=True)), np.array(vectors, np.float32)


def test_embed_writes_the_models_vectors_in_input_order(
    run_with_prior, ranker, corpus_file, tmp_path
):
    embed(model=run_with_prior, input=corpus_file, out=tmp_path / "t.parquet")
    corpus, vectors = read(tmp_path / "t.parquet")
    assert corpus == CORPUS
    titles = [title for _, title in CORPUS]
    np.testing.assert_array_equal(vectors, ranker.encode_titles(titles, prior=True))
    # The ids of plain lines are their indices; the inner product is the score.
    (tmp_path / "q.txt").write_text("red hat\n\nblue\n")
    embed(model=run_with_prior, input=tmp_path / "q.txt", out=tmp_path / "q.parquet", side="query")
    rows, queries = read(tmp_path / "q.parquet")
    assert [line for line, _ in rows] == ["0", "1", "2"]
    expected = ranker.score_matrix(["red hat", "", "blue"], titles)
    np.testing.assert_allclose(queries @ vectors.T, expected, atol=1e-6)
    embed(model=run_with_prior, input=corpus_file, out=tmp_path / "t.parquet", cosine=True)
    assert read(tmp_path / "t.parquet")[1].shape == (5, DIMENSION)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": "v.npy"}, "ends in .parquet"),
        ({"out": "corpus.tsv"}, "ends in .parquet"),
        ({"input": "empty.txt"}, "contains no text"),
        ({"tables": TableFlags(columns="title=color")}, "color"),
        ({"model": "absent"}, "does not exist"),
    ],
)
def test_invalid_input_of_embed_is_an_error_of_one_line_and_writes_nothing(
    run_directory, corpus_file, tmp_path, options, message
):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "v.parquet").write_text("previous content")
    before = sorted(tmp_path.iterdir())
    paths = {"input": corpus_file, "out": "v.parquet", "model": run_directory} | options
    others = {name: paths.pop(name) for name in ("tables",) if name in paths}
    with pytest.raises(UserError, match=message) as error:
        embed(**{name: tmp_path / path for name, path in paths.items()}, **others)
    assert "\n" not in str(error.value)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "v.parquet").read_text() == "previous content"


# --------------------------------------------------------------------------- index, search


def printed(capsys, *queries, **options):
    search(*queries, **options)
    return capsys.readouterr().out


def test_a_search_prints_the_ranking_of_the_model_first(index_directory, capsys):
    text = printed(capsys, "red hat", "", index=index_directory, k=1)
    for expected in ("BM25", "Model", "d1", "Nothing was found"):
        assert expected in text
    assert text.index("\nModel\n") < text.index("\nBM25\n")


def test_a_model_and_a_corpus_give_the_same_results_as_an_index(
    run_with_prior, index_directory, corpus_file, capsys
):
    def hit_lines(text):
        return [line for line in text.splitlines() if "similarity" in line]

    expected = hit_lines(printed(capsys, "red hat", index=index_directory))
    assert (
        hit_lines(printed(capsys, "red hat", model=run_with_prior, corpus=corpus_file)) == expected
    )


def test_queries_from_standard_input_are_read_line_by_line(index_directory, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"red\n\nbl\xffue\n")))
    assert printed(capsys, index=index_directory).count("Query:") == 3


@pytest.mark.parametrize("typed", ["red\n\nblue\n", "red\n"], ids=["empty line", "end of input"])
def test_the_prompt_ends_at_an_empty_line_or_the_end(index_directory, capsys, monkeypatch, typed):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert printed(capsys, index=index_directory).count("Query:") == 1


def test_indexing_prints_the_recall_of_a_fast_index(run_with_prior, corpus_file, tmp_path, capsys):
    (tmp_path / "q.txt").write_text("red hat\nblue box\ntie\n")
    out = tmp_path / "i"
    index(
        model=run_with_prior, corpus=corpus_file, out=out, kind="fast", queries=tmp_path / "q.txt"
    )
    messages = capsys.readouterr().err
    assert "fast: recall@10 1.000, @100 1.000, on 3 queries" in messages
    assert "%|" not in messages  # no progress bar of bm25s
    assert "d1" in printed(capsys, "red hat", index=out)


def test_invalid_input_of_index_is_an_error_of_one_line_and_writes_nothing(
    run_with_prior, tmp_path, corpus_file
):
    (tmp_path / "q.txt").write_text("\n")
    (tmp_path / "empty.tsv").write_text("doc_id\ttitle\n")
    (tmp_path / "marks.tsv").write_text("doc_id\ttitle\na\t?!\n")
    before = sorted(tmp_path.iterdir())
    cases = [
        ("has a header and no title", {"corpus": tmp_path / "empty.tsv"}),
        ("has a word", {"corpus": tmp_path / "marks.tsv"}),
        ("contains no query", {"queries": tmp_path / "q.txt"}),
        ("contains no weights", {"model": tmp_path}),
        ("exists already", {"out": run_with_prior}),
    ]
    for message, options in cases:
        arguments = {
            "model": run_with_prior,
            "corpus": corpus_file,
            "out": tmp_path / "i",
        } | options
        with pytest.raises(UserError, match=message) as error:
            index(**arguments)
        assert "\n" not in str(error.value)
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "--k 0"),
        ({"index": None}, "either --index"),
        ({"corpus": "c.tsv", "model": "m"}, "either --index"),
    ],
)
def test_invalid_options_of_search_are_an_error(index_directory, options, message):
    with pytest.raises(UserError, match=message):
        search("red", **({"index": index_directory} | options))
