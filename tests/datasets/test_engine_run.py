"""`dssm data run`: a search engine's ranking as a TREC run, by a small node in this process."""

from __future__ import annotations

import base64
import time

import numpy as np
import pytest
from pytest import approx

from dssm_tf.datasets import search_engine
from dssm_tf.datasets.engine_run import run_scores
from dssm_tf.evaluation.runs import relevant_ranks, trec_run
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.tables.trec import read_run
from tests.data_run import run_command
from tests.fake_node import fake_node
from tests.ports import free_ports

TITLES = {"d1": "red hat", "d2": "blue hat", "d3": "red red box"}
TEMPLATE = '{"query": {"match": {"title": "{{query}}"}}, "size": 3}'
RUN = {"q1": {"d1": 2, "d2": 1, "d3": approx(1 - 2**-24, abs=1e-9)}, "q2": {"d2": 1}}
QUERIES = 'query_id\tquery\nq1\tred hat\nq2\tblue\nq3\tno \\" word\n'


@pytest.fixture
def node(monkeypatch):
    monkeypatch.setattr(search_engine, "_FIRST_PAUSE", 0.0)
    for name in (search_engine.USER, search_engine.PASSWORD, search_engine.API_KEY):
        monkeypatch.delenv(name, raising=False)
    with fake_node(TITLES) as node:
        yield node


@pytest.fixture
def data_run(node, tmp_path, monkeypatch, capsys):
    """Runs the command in a folder with queries and a template; returns code and streams."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries.tsv").write_text(QUERIES, "utf-8")
    (tmp_path / "query.json").write_text(TEMPLATE, "utf-8")

    def command(*flags: str, engine: str = node.url, index: str = "shop"):
        return run_command(capsys, engine, index, *flags)

    return command


def test_the_run_has_the_order_of_the_engine_for_every_query(node, data_run):
    code, output = data_run()
    assert code == 0, output.err
    # "red hat" matches two words of d1, one of d2 and of d3; the third query matches nothing.
    # d3 has the score of d2, and gets the next smaller one: 1 - 2 ** -24.
    assert read_run("run.trec") == RUN
    assert output.out.splitlines() == [
        "run.trec: 3 queries, 1.3 titles per query",
        "1 queries have no hit",
        "next: add it to the table: dssm benchmark ... --runs run.trec",
    ]
    (searches,) = node.requests
    assert searches[2]["query"]["match"]["title"] == 'no \\" word'
    assert {search["size"] for search in searches} == {100}


def test_batch_depth_id_field_and_corpus_have_their_effects(node, data_run, tmp_path):
    (tmp_path / "corpus.tsv").write_text("doc_id\ttitle\nsku-d1\tred hat\nsku-d9\tcap\n", "utf-8")
    flags = ["--batch", "2", "--depth", "2", "--id-field", "sku.id", "--corpus", "corpus.tsv"]
    code, output = data_run(*flags)
    assert code == 0, output.err
    assert [len(searches) for searches in node.requests] == [2, 1]
    # d2 is the second hit of q1 and the only one of q2; the corpus has neither.
    assert read_run("run.trec") == {"q1": {"sku-d1": 2}}
    assert "2 hits were left out: the corpus does not have them" in output.out


def test_an_interrupted_command_continues_after_the_received_queries(node, data_run, tmp_path):
    def fail_later(bodies):
        return (500, {"error": "disk"}) if len(node.requests) > 1 else None

    node.answer = fail_later
    code, output = data_run("--batch", "1")
    assert code == 1
    assert "status 500: disk" in output.err
    assert not (tmp_path / "run.trec").exists()
    partial = tmp_path / ".run.trec.partial"
    with partial.open("a") as file:
        file.write('{"id": "q2", "que')  # a killed process wrote half a line
    node.answer = lambda bodies: None
    node.requests.clear()
    code, output = data_run("--batch", "1")
    assert code == 0, output.err
    requested = [searches[0]["query"]["match"]["title"] for searches in node.requests]
    assert requested == ["blue", 'no \\" word']
    assert "1 queries were received by an interrupted command" in output.out
    assert read_run("run.trec") == RUN
    assert not partial.exists()


def test_an_interrupted_command_with_other_settings_is_not_continued(node, data_run, tmp_path):
    node.answer = lambda bodies: (500, {}) if len(node.requests) > 1 else None
    data_run("--batch", "1")
    partial = (tmp_path / ".run.trec.partial").read_bytes()
    code, output = data_run("--depth", "7")
    assert code == 1
    assert "interrupted command with another template" in output.err
    assert (tmp_path / ".run.trec.partial").read_bytes() == partial


def test_rankings_that_a_command_killed_at_its_end_has_left_are_deleted(data_run, tmp_path):
    assert data_run()[0] == 0
    run = (tmp_path / "run.trec").read_bytes()
    (tmp_path / ".run.trec.partial").write_text("{}\n", "utf-8")
    code, output = data_run()
    assert code == 1
    assert "run.trec exists already; choose another name" in output.err
    assert (tmp_path / "run.trec").read_bytes() == run
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_order_that_is_not_by_score_is_kept(node, data_run):
    hits = [{"_id": "d2", "_score": None}, {"_id": "d1", "_score": None}]
    node.answer = lambda bodies: (200, {"responses": [{"hits": {"hits": hits}}] * len(bodies)})
    assert data_run()[0] == 0
    assert read_run("run.trec")["q1"] == {"d2": 2, "d1": 1}


def test_equal_scores_keep_their_order_in_single_precision():
    hits = [("a", 5.0), ("b", 5.0), ("c", 5.0), ("d", 4.9999998), ("e", -1.0)]
    scores = run_scores({"q": hits})["q"]
    single = np.array([*scores.values()], np.float32)
    assert [*scores] == ["a", "b", "c", "d", "e"]
    assert (np.diff(single) < 0).all()
    assert np.allclose(single, [score for _, score in hits], atol=2e-6)


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_busy_node_receives_the_request_again(node, data_run, status):
    node.answer = lambda bodies: (status, {}) if len(node.requests) < 3 else None
    code, output = data_run()
    assert code == 0, output.err
    assert len(node.requests) == 3


def test_a_search_that_a_busy_node_rejected_is_repeated(node, data_run):
    rejected = {"error": {"reason": "queue is full"}, "status": 429}
    answer = 200, {"responses": [rejected] * 3}
    node.answer = lambda bodies: answer if len(node.requests) < 3 else None
    code, output = data_run()
    assert code == 0, output.err
    node.answer = lambda bodies: answer
    code, output = data_run("--retries", "1", "--batch", "3")
    assert "exists already" in output.err


def test_credentials_come_from_the_environment(node, data_run, monkeypatch, tmp_path):
    monkeypatch.setenv(search_engine.USER, "reader")
    monkeypatch.setenv(search_engine.PASSWORD, "se:cret")
    assert data_run()[0] == 0
    expected = base64.b64encode(b"reader:se:cret").decode()
    assert node.headers[-1]["authorization"] == f"Basic {expected}"
    (tmp_path / "run.trec").unlink()
    monkeypatch.setenv(search_engine.API_KEY, "abc")
    assert data_run()[0] == 0
    assert node.headers[-1]["Authorization"] == "ApiKey abc"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, {"error": "Unauthorized"}), "credentials (401): Unauthorized; set the environment"),
        ((403, {"error": {"reason": "no permissions"}}), "searches of shop (403): no permissions"),
        ((302, b""), "redirects to https://example.org/login (302)"),
        ((200, b"<html>hello</html>"), "answers without JSON; is it OpenSearch"),
        ((200, {"name": "x"}), "without the results of 3 searches"),
        ((200, {"responses": [{"took": 1}] * 3}), "without hits: the result has ['took']"),
        ((200, {"responses": [{"hits": {"hits": []}, "timed_out": True}] * 3}), "timed out"),
        ((200, {"responses": [{"hits": {"hits": []}, "_shards": {"failed": 1}}] * 3}), "shards"),
        ((200, {"responses": [{"hits": {"hits": []}}] * 3}), "none of the 3 queries has a hit"),
        ((200, {"responses": [{"hits": {"hits": [{"_id": "a b"}]}}] * 3}), "'a b' is empty or has"),
        (
            (200, {"responses": [{"error": {"reason": "unknown query [m]"}, "status": 400}] * 3}),
            "refuses the query of the template (400): unknown query [m]",
        ),
        ((503, {}), "is busy (503) after 1 repetitions"),
        ((500, b"broken"), "answers with status 500; is it"),
    ],
)  # fmt: skip
def test_an_answer_without_results_is_one_clear_line(node, data_run, answer, message, tmp_path):
    node.answer = lambda bodies: answer
    code, output = data_run("--retries", "1")
    assert code == 1
    assert message in output.err
    assert output.err.count("\n") == 1
    assert not (tmp_path / "run.trec").exists()


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ('{"query": {"match": {"title": {{query}}}}}', "query.json:1 is not JSON"),
        ('{"query": {"match": {"title": "query"}}}', "has no {{query}}; write it where"),
        ('["{{query}}"]', "is not a JSON object"),
        ('{"q": "{{query}}", "from": 20}', "skips the first 20 hits"),
    ],
)
def test_an_unusable_template_is_refused_before_a_request(
    node, data_run, tmp_path, template, message
):
    (tmp_path / "query.json").write_text(template, "utf-8")
    code, output = data_run()
    assert code == 1
    assert message in output.err
    assert output.err.count("\n") == 1
    assert not node.requests


def test_a_missing_index_or_id_field_or_an_ambiguous_query_id_is_named(node, data_run):
    assert "has no index 'shoes' (404): no such index [shoes]" in data_run(index="shoes")[1].err
    assert "has no id in the field 'ean'" in data_run("--id-field", "ean")[1].err
    queries = "query_id\tquery\nq1\tred\nq1\tblue\n"
    with open("queries.tsv", "w") as file:
        file.write(queries)
    assert "query_id 'q1' has the text 'blue' here and 'red' above" in data_run()[1].err


def test_no_hit_in_the_corpus_is_an_error_that_names_the_flag(data_run, tmp_path):
    (tmp_path / "corpus.tsv").write_text("doc_id\ttitle\n7\tred hat\n", "utf-8")
    code, output = data_run("--corpus", "corpus.tsv")
    assert code == 1
    assert "none of the 4 hits is in the corpus, such as 'd1'" in output.err
    assert "--id-field" in output.err


def test_a_node_that_does_not_answer_is_named_at_once(data_run):
    (port,) = free_ports(1)
    code, output = data_run(engine=f"http://127.0.0.1:{port}")
    assert code == 1
    assert f"http://127.0.0.1:{port} does not answer: " in output.err
    assert "refused" in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("localhost:9200", "expected an address such as https://localhost:9200"),
        ("http://me:secret@localhost:9200", "--engine has a password; set DSSM_ENGINE_USER"),
    ],
)
def test_a_malformed_address_or_one_with_a_password_is_refused(data_run, engine, message):
    code, output = data_run(engine=engine)
    assert code == 1
    assert message in output.err
    assert "secret" not in output.err


def test_a_node_that_is_too_slow_is_named(node, data_run):
    node.answer = lambda bodies: time.sleep(0.5)
    code, output = data_run("--timeout", "0.1", "--retries", "0")
    assert code == 1
    assert "does not answer: " in output.err
    assert "timed out" in output.err


def test_an_evaluation_accepts_the_run_for_the_queries_of_its_judgments(data_run):
    assert data_run()[0] == 0
    rows = [("q1", "red hat", "d3"), ("q2", "blue", "d2"), ("q3", "no word", "d3")]
    judgments = [Judgment(q, text, doc, TITLES[doc], 1.0) for q, text, doc in rows]
    task = RankingTask(judgments, [CorpusTitle(*row) for row in TITLES.items()])
    rankings, notes = trec_run("engine", read_run("run.trec"), task)
    ranks = relevant_ranks(rankings.run, task)
    by_query = {task.query_ids[row["query"]]: row["rank"] for row in ranks.iter_rows(named=True)}
    # The engine ranks d3 third of "red hat" although d2 has as many words of it.
    assert by_query == {"q1": 3, "q2": 1, "q3": None}
    assert notes == ["1 judged queries are not listed, such as 'q3'; they count as 0"]
