"""`dssm data run` on a real node: its ranking, resumed, and its errors."""

from __future__ import annotations

import json

import pytest
from pytest import approx

from dssm_tf.tables.trec import read_run
from tests.data_run import run_command
from tests.search_engines.conftest import INDEX

QUERIES = 45


@pytest.fixture
def data_run(node, shop, tmp_path, monkeypatch, capsys):
    """Runs the command with some of the shop's queries; returns its code and its streams."""
    monkeypatch.chdir(tmp_path)
    lines = [f"q{number}\t{query}" for number, query in enumerate(shop.queries[:QUERIES])]
    text = "\n".join(["query_id\tquery", *lines, ""])
    (tmp_path / "queries.tsv").write_text(text, "utf-8")
    template = {"query": {"match": {"title": "{{query}}"}}, "size": 2}
    (tmp_path / "query.json").write_text(json.dumps(template), "utf-8")

    def command(*flags: str, engine: str = node.url, index: str = INDEX):
        return run_command(capsys, engine, index, "--depth", "50", *flags)

    return command


def test_the_run_has_the_hits_of_the_node_in_its_order(node, shop, data_run):
    code, output = data_run()
    assert code == 0, output.err
    run = read_run("run.trec")
    for number, query in enumerate(shop.queries[:QUERIES]):
        body = {"query": {"match": {"title": query}}, "size": 50, "_source": False}
        hits = node.ask("POST", f"/{INDEX}/_search", body)["hits"]["hits"]
        scores = {hit["_id"]: hit["_score"] for hit in hits}
        ranked = run.get(f"q{number}", {})
        assert len(ranked) == len(hits)
        # The node may order titles of equal scores in any way.
        own_scores = [scores.get(doc_id, hits[-1]["_score"]) for doc_id in ranked]
        assert own_scores == [hit["_score"] for hit in hits]
        assert [*ranked.values()] == approx([hit["_score"] for hit in hits], rel=1e-5)


def test_ids_can_be_those_of_a_field(shop, data_run):
    code, output = data_run("--id-field", "id")
    assert code == 0, output.err
    ids = {doc_id for ranking in read_run("run.trec").values() for doc_id in ranking}
    assert ids <= {str(number) for number in range(len(shop.titles))}


def test_errors_of_the_node_are_one_line(node, data_run, tmp_path):
    code, output = data_run(index="none")
    assert (code, output.err.count("\n")) == (1, 1)
    assert "has no index 'none' (404): no such index [none]" in output.err
    (tmp_path / "query.json").write_text('{"query": {"mach": {"title": "{{query}}"}}}', "utf-8")
    code, output = data_run()
    assert (code, output.err.count("\n")) == (1, 1)
    assert "refuses the query of the template (400): unknown query [mach]" in output.err
    code, output = data_run(engine=f"{node.url}/wrong/path")
    assert code == 1
    assert output.err.count("\n") == 1
