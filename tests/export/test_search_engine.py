"""`dssm export --format opensearch` and `dssm documents`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.export.compact import export_compact
from dssm_tf.export.load import load
from dssm_tf.export.search_engine import verify
from dssm_tf.export.search_engine.evaluation import engine_score
from dssm_tf.export.search_engine.export import export_search_engine
from dssm_tf.export.verify import ADVERSARIAL
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from tests.clicks import catalog, click_log, write_data
from tests.reference import engine_query
from tests.runs import finished_run
from tests.runtime.maxsim_models import oracle

CONFIG = {
    "tower": {"name": "words", "units": 6},
    "score": {"name": "maxsim", "text_cosine": 0.4, "text_units": 5},
    "shared_towers": True,
    "whole_words": True,
}
TITLES = catalog(40)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("engine")
    data = write_data(folder / "data", click_log(), validation=(), negatives=1, corpus=TITLES)
    return finished_run(folder / "run", data, CONFIG, 0.25)


@pytest.fixture(scope="module")
def export(run, tmp_path_factory) -> Path:
    return export_search_engine(run, tmp_path_factory.mktemp("export"))


def test_an_export_has_the_next_version_and_the_name_of_the_run(run, export):
    assert export.parts[-2:] == ("maxsim", "1")
    assert export_search_engine(run, export.parents[1], "shop").parts[-2:] == ("shop", "1")
    assert export_search_engine(run, export.parents[1], "shop").parts[-2:] == ("shop", "2")


@pytest.mark.parametrize("evaluate", [engine_score, engine_query.score])
def test_scores_equal_the_models(run, tmp_path, evaluate):
    """The package's evaluation, which verifies exports, and that of the engines' documentation."""
    titles = [*ADVERSARIAL, *TITLES]
    client = SearchEngineClient(export_search_engine(run, tmp_path, None, titles, 0))
    ranker = load(run)
    queries = [*ADVERSARIAL, *TITLES[:10], "redd wol fxo"]
    expected = ranker.score_matrix(queries, titles) - client.manifest.prior_offset
    words = {text: client.vocabulary.words(text) for text in [*queries, *titles]}
    formula = oracle(ranker.maxsim, words.values())
    writer = DocumentWriter(client, ("title",))
    documents = [{"dssm": writer.fields(title)} for title in titles]
    for query, row in zip(queries, expected, strict=True):
        dsl = client.query(query, max_terms=10_000)
        hits = []
        for title, document, score in zip(titles, documents, row, strict=True):
            value = evaluate(dsl, document)
            cosine_part = formula.cosine_part(words[query], words[title])
            if value is None:  # no word of the title is similar
                value = document["dssm"]["prior"]
            assert value == pytest.approx(score - cosine_part, abs=1e-5)
            hits.append({"_id": score, "_score": value, "_source": document})
        for hit in client.rescored(query, hits):
            assert hit["_score"] == pytest.approx(hit["_id"], abs=1e-5)


def test_a_corpus_decides_to_which_words_queries_are_expanded(run, tmp_path):
    client = SearchEngineClient(export_search_engine(run, tmp_path, titles=["red fox", "foxes"]))
    assert client.catalog == ["fox", "foxes", "red"]
    assert {*client.word("whale").similar} <= {"whale", *client.catalog}


def test_a_compact_model_can_be_exported_too(run, export, tmp_path):
    compact = export_compact(run, tmp_path, "maxsim")
    other = export_search_engine(compact, tmp_path / "export")
    assert SearchEngineClient(other).manifest == SearchEngineClient(export).manifest


def test_a_model_with_a_vector_per_text_is_refused(tmp_path):
    data = write_data(tmp_path / "data", click_log(), validation=())
    run = finished_run(tmp_path / "run", data, {"tower": {"name": "dssm", "widths": [8, 6]}})
    with pytest.raises(UserError, match="is not a run or compact model with the score maxsim"):
        export_search_engine(run, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_an_export_whose_scores_differ_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "engine_score", lambda query, document: 0.123)
    with pytest.raises(UserError, match=r"the query '' gives the title '' the score 0.12.*Nothing"):
        export_search_engine(run, tmp_path)
    assert not (tmp_path / "maxsim").exists()


def test_an_export_whose_rescored_scores_differ_is_refused(run, tmp_path, monkeypatch):
    class WithoutCosine(SearchEngineClient):
        def rescored(self, text, hits):
            return hits

    monkeypatch.setattr(verify, "SearchEngineClient", WithoutCosine)
    with pytest.raises(UserError, match=r"the rescored score 0.*; the model gives 0.*Nothing"):
        export_search_engine(run, tmp_path)
    assert not (tmp_path / "maxsim").exists()


def test_synonyms_are_rules_in_solrs_format(export):
    client = SearchEngineClient(export)
    rules = (export / "synonyms.txt").read_text("utf-8").splitlines()
    assert rules
    for rule in rules:
        word, _, synonyms = rule.partition(" => ")
        first, *others = synonyms.split(", ")
        assert first == word
        assert 1 <= len(others) <= 5
        assert all(client.word(word).similar[other] >= 0.5 for other in others)


# ------------------------------------------------------------------------------- the commands


def dssm(command: str, capsys) -> tuple[int, str, str]:
    """Runs a command; returns its exit code, output and error output."""
    code = main(command.split())
    output = capsys.readouterr()
    return code, output.out, output.err


def test_export_and_documents_say_what_they_wrote(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.csv").write_text("sku,name\n1,red fox\n2,blue owl\n", "utf-8")
    code, out, err = dssm(
        f"export --model {run} --out ENGINE --format opensearch --similar-words 3 --corpus "
        "corpus.csv --corpus-columns doc_id=sku,title=name",
        capsys,
    )
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "ENGINE/maxsim/1: verified against the trained model"
    manifest = SearchEngineClient("ENGINE").manifest
    assert (manifest.similar_words, manifest.catalog_words) == (3, 4)
    documents = b'{"sku": 1, "name": "red fox"}\n{"sku": 2, "name": "blue owl"}\n'
    (tmp_path / "docs.jsonl.gz").write_bytes(gzip.compress(documents))
    code, out, err = dssm(
        "documents --export ENGINE --input docs.jsonl.gz --out bulk.jsonl --id sku "
        "--title-fields name",
        capsys,
    )
    assert (code, out) == (0, "")
    assert err == (
        f"bulk.jsonl: 4 lines with fields of version {manifest.version}; titles are made of name\n"
    )
    lines = (tmp_path / "bulk.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[0]) == {"index": {"_id": "1"}}
    assert json.loads(lines[3])["dssm"]["words"][:2] == ["blue", "owl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--input docs.jsonl --out docs.jsonl", "docs.jsonl is the input; choose another name"),
        ("--input none.jsonl --out out", "none.jsonl cannot be read: No such file or directory."),
        ("--input empty.jsonl --out out", "empty.jsonl contains no document; nothing was written."),
        ("--input cut.gz --out out", "cut.gz is not a complete gzip file: "),
        ("--input docs.jsonl --out out --title-fields name", "docs.jsonl:1: the document has no n"),
        (
            "--input docs.jsonl --out out --title-fields a,",
            "--title-fields is 'a,'; expected names",
        ),
        ("--input docs.jsonl --out out --bulk --id sku", "--id is for documents; with --bulk"),
        ("--input docs.jsonl --out out", "docs.jsonl:2: expected a JSON object"),
    ],
)
def test_unusable_documents_leave_no_file(
    export, tmp_path, capsys, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text('{"title": "red"}\n{\n', "utf-8")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b'{"title": "red"}\n' * 100)[:-9])
    names = {*tmp_path.iterdir()}
    code, out, err = dssm(f"documents --export {export} {arguments}", capsys)
    assert (code, out) == (1, "")
    assert err.startswith(f"dssm documents: {message}")
    assert err.count("\n") == 1
    assert {*tmp_path.iterdir()} == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--corpus corpus.tsv", "--corpus is for search engines; add --format opensearch."),
        (
            "--format opensearch --number-type int8",
            "--number-type is for compact models; add --format compact",
        ),
    ],
)
def test_flags_of_another_format_are_refused(run, tmp_path, capsys, arguments, message):
    code, _, err = dssm(f"export --model {run} --out {tmp_path} {arguments}", capsys)
    assert code == 1
    assert message in err
