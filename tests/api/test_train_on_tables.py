"""`dssm_tf.train` on data frames and files: the run, its corpus, its search, saving and loading."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import polars as pl
import pyarrow as pa
import pytest

import dssm_tf
from dssm_tf.api.preprocessing import PreprocessSettings
from dssm_tf.data.format import Spec
from tests.clicks import click_log

SMALL = {
    "tower": {"name": "dssm", "widths": [8]},
    "training": {"epochs": 1, "refit": False, "batch_size": 16, "xla": False},
}
LOG = pl.DataFrame([click._asdict() for click in click_log(30)])
TITLES = LOG["title"].unique(maintain_order=True)
CORPUS = pl.DataFrame({"doc_id": [f"d{row}" for row in range(len(TITLES))], "title": TITLES})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def model(folder) -> dssm_tf.Model:
    """A model of two data frames, in a temporary run; its data are kept."""
    return dssm_tf.train(
        clicks=LOG, corpus=CORPUS, data=folder / "data", config=SMALL, quiet=True,
        validation_fraction=0.2, vocabulary_size=500,
    )  # fmt: skip


def test_frames_and_files_of_the_same_rows_are_the_same_data(model, folder):
    LOG.write_csv(folder / "clicks.tsv", separator="\t")
    dssm_tf.preprocess(
        output=str(folder / "from_files"), input=folder / "clicks.tsv", corpus=pa.table(CORPUS),
        validation_fraction=0.2, vocabulary_size=500, quiet=True,
    )  # fmt: skip
    specs = [Spec.load(folder / name) for name in ("data", "from_files")]
    assert specs[0] == specs[1]


@pytest.mark.long
def test_the_model_of_frames_is_the_model_of_the_two_steps(model, folder):
    two_steps = dssm_tf.train(
        data=str(folder / "data"), out=str(folder / "run"), config=SMALL, quiet=True
    )
    expected = model.score(["red fox", "owl"], TITLES)
    assert two_steps.score(["red fox", "owl"], TITLES).tolist() == expected.tolist()
    # Preprocessed data have titles without ids.
    assert set(two_steps.search("red fox", 100)["title"]) == set(TITLES)
    again = dssm_tf.train(data=folder / "data", out=folder / "run", config=SMALL, quiet=True)
    assert again.search("red fox").equals(two_steps.search("red fox"))


def test_a_search_has_one_row_per_title_best_first(model):
    hits = model.search("red fox", k=3)
    assert hits.schema == {
        "query": pl.String, "rank": pl.Int64, "doc_id": pl.String, "title": pl.String,
        "score": pl.Float64,
    }  # fmt: skip
    assert hits["rank"].to_list() == [1, 2, 3]
    assert hits["query"].unique().to_list() == ["red fox"]
    ids = dict(CORPUS.select("title", "doc_id").iter_rows())
    assert hits["doc_id"].to_list() == [ids[title] for title in hits["title"]]
    best = model.rank("red fox", TITLES, k=3)
    assert hits["title"].to_list() == best["title"].to_list()
    assert hits["score"].to_list() == pytest.approx(best["score"].to_list(), abs=1e-5)
    hits_of_two = model.search(pl.Series(["owl", "red fox"]), k=3)
    assert hits_of_two.filter(pl.col("query") == "red fox").equals(hits)
    assert hits_of_two["query"].to_list() == ["owl"] * 3 + ["red fox"] * 3
    assert model.search([]).shape == (0, 5)


def test_a_saved_model_has_its_corpus(model, folder):
    model.save(str(folder / "saved"))
    loaded = dssm_tf.load(folder / "saved")
    assert loaded.search("red fox").equals(model.search("red fox"))
    ngrams = len(loaded.ranker.vocabulary.ngrams)
    described = f"'dssm', score cosine, {ngrams} letter n-grams, {len(TITLES)} titles to search"
    assert repr(loaded) == f"<dssm_tf.Model {described}, path {folder / 'saved'}>"
    assert repr(model) == f"<dssm_tf.Model {described}, temporary, see save>"
    with pytest.raises(dssm_tf.UserError, match="saved exists already"):
        loaded.save(folder / "saved")
    without_corpus = dssm_tf.Model(lambda: loaded.ranker)
    with pytest.raises(
        dssm_tf.UserError, match="no corpus is known to the model dssm; give corpus"
    ):
        without_corpus.search("red fox")
    assert without_corpus.search("fox", corpus=["owl", "red fox"], k=1)["doc_id"].to_list() == ["1"]


def test_a_saved_index_has_the_same_search(model, folder):
    model.save(folder / "of_index")
    index = dssm_tf.load(folder / "of_index").index()
    assert repr(index) == f"<dssm_tf.Index of {len(TITLES)} titles, model 'dssm'>"
    index.save(folder / "index")
    queries = ["red fox", "owl"]
    expected = model.search(queries)
    for opened in (dssm_tf.Index.open(str(folder / "index")), dssm_tf.load(folder / "index")):
        hits = opened.search(queries)
        assert hits.drop("score").equals(expected.drop("score"))
        assert hits["score"].to_list() == pytest.approx(expected["score"].to_list(), abs=1e-5)
    with pytest.raises(dssm_tf.UserError, match="index exists already"):
        index.save(folder / "index")


def test_frames_of_pyterrier_come_back_in_their_library(model):
    topics = pa.table({"qid": ["7", "3"], "query": ["owl", "red fox"], "other": [1, 2]})
    hits = model.search(topics, k=2)
    assert isinstance(hits, pa.Table)
    assert hits.column_names == ["qid", "query", "docno", "text", "score", "rank"]
    assert hits["qid"].to_pylist() == ["7", "7", "3", "3"]
    assert hits["rank"].to_pylist() == [0, 1, 0, 1]
    assert hits["text"].to_pylist()[2:] == model.search("red fox", 2)["title"].to_list()
    shuffled = hits.take([1, 2, 0, 3])  # the queries stay in their order of appearance
    ranked = model.rank(pl.DataFrame(shuffled))
    assert isinstance(ranked, pl.DataFrame)
    assert ranked["docno"].to_list() == hits["docno"].to_pylist()
    assert ranked["rank"].to_list() == [0, 1, 0, 1]
    assert ranked["score"].to_list() == pytest.approx(hits["score"].to_pylist(), abs=1e-5)
    assert model.transform(hits, k=1)["rank"].to_pylist() == [0, 0]
    with pytest.raises(dssm_tf.UserError, match=r"the pyarrow Table has .* \(missing: qid\)"):
        model.search(topics.select(["query"]))


def test_pandas_frames_are_read_and_returned(model, folder):
    pandas = pytest.importorskip("pandas")
    log = pandas.DataFrame(LOG.to_dict(as_series=False))
    log["clicks"] = log["clicks"].astype("Int64")
    corpus = pandas.DataFrame(CORPUS.to_dict(as_series=False))
    dssm_tf.preprocess(
        output=folder / "from_pandas", input=log, corpus=corpus,
        validation_fraction=0.2, vocabulary_size=500, quiet=True,
    )  # fmt: skip
    assert Spec.load(folder / "from_pandas") == Spec.load(folder / "data")
    topics = pandas.DataFrame({"qid": ["1"], "query": ["red fox"]})
    hits = model.search(topics, k=2)
    assert isinstance(hits, pandas.DataFrame)
    assert hits["text"].tolist() == model.search("red fox", 2)["title"].to_list()


def test_titles_are_searched_with_the_ids_of_one_table_only(tmp_path):
    from dssm_tf.api.training import _titles_with_ids

    CORPUS.write_ndjson(tmp_path / "ids.jsonl")
    CORPUS.drop("doc_id").write_ndjson(tmp_path / "texts.jsonl")
    expected = [*map(dssm_tf.CorpusTitle._make, CORPUS.iter_rows())]
    assert _titles_with_ids(CORPUS, {}) == expected
    assert _titles_with_ids(tmp_path / "ids.jsonl", {}) == expected
    renamed = CORPUS.rename({"title": "name"})
    assert _titles_with_ids(renamed, {"corpus_columns": {"title": "name"}}) == expected
    for corpus in (tmp_path / "texts.jsonl", CORPUS.drop("doc_id"), (), [CORPUS, CORPUS]):
        assert _titles_with_ids(corpus, {}) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "there is nothing to learn from; give clicks or corpus, or data"),
        ({"data": "D", "min_clicks": 2}, "min_clicks is a setting of preprocess; give clicks or"),
        (
            {"clicks": LOG.lazy()},
            r"the polars LazyFrame is not a table; .* Call \.collect\(\) first",
        ),
        ({"clicks": LOG.drop("query"), "quiet": True}, r"\(missing: query\)"),
        ({"clicks": LOG, "corpus": CORPUS.vstack(CORPUS[:1])}, "the polars DataFrame, row .* 'd0'"),
        ({"clicks": LOG, "config": "lstn"}, "Did you mean 'lstm'"),
        ({"clicks": LOG, "config": SMALL, "negatives": -1, "quiet": True}, "negatives is -1; "),
    ],
)
def test_unusable_arguments_are_errors_in_one_line(arguments, message):
    with pytest.raises(dssm_tf.UserError, match=message) as caught:
        dssm_tf.train(**arguments)
    assert "\n" not in str(caught.value)


def test_an_unknown_setting_is_a_type_error():
    with pytest.raises(TypeError, match="preprocess has no setting 'min_click'"):
        dssm_tf.train(clicks=LOG, min_click=3)


NUMERIC = [
    name for name, type in get_type_hints(PreprocessSettings).items() if type in (int, float)
]


@pytest.mark.parametrize("name", NUMERIC)
def test_a_boolean_is_no_number_in_a_setting(name, tmp_path):
    for value in (True, False):
        message = f"{name} is {value}; input should be a number"
        with pytest.raises(dssm_tf.UserError, match=message):
            dssm_tf.preprocess(output=tmp_path / "data", input=LOG, quiet=True, **{name: value})


def test_the_settings_are_those_of_the_command():
    from dataclasses import fields

    from pipelines.options import PreprocessOptions

    names = {field.name for field in fields(PreprocessOptions)} - {"input", "corpus", "output"}
    assert names == {*PreprocessSettings.__annotations__}
