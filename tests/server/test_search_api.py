"""`/v1/search`: results, filters, refusals, and its description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlencode

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from pytest import approx

from dssm_tf import runtime
from dssm_tf.retrieval.index import VectorIndex
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import AnyIndex, name_fields
from dssm_tf.retrieval.records import result_record
from dssm_tf.runtime import CompactRanker, MaxSimRanker
from dssm_tf.server.models import ServedModel
from dssm_tf.server.search_api import parse_parameters, search
from dssm_tf.server.server import Server
from dssm_tf.tables.judgments import CorpusTitle
from dssm_tf.text.rules import FOLDED
from tests.runtime.maxsim_models import (
    SETTINGS,
    example_model,
    random_model,
    write_compact_model,
)
from tests.server.asking import rest

CORPUS = [
    CorpusTitle("a", "red shoe␟Acme"),
    CorpusTitle("b", "red box␟Bolt"),
    CorpusTitle("c", "shoe box␟Ácme"),
    CorpusTitle("d", "red lid"),
]
JSON = {"Content-Type": "application/json"}


def test_words_of_own_fields_have_no_marks():
    titles = ["red shoe␟acme tv", "blue shoe␟acme tv"]
    model = random_model(titles, rules=replace(FOLDED, own_fields=2))
    ranker = MaxSimRanker(SETTINGS, model, lambda texts: np.zeros(len(texts), np.float32))
    index = MaxSimIndex.build(ranker, [CorpusTitle("a", titles[0])])
    query = "red␟acme tv"
    answer = search(index, 1, parse_parameters([("query", query), ("explain", "true")]))
    (result,) = answer.results
    words = [(word.word, word.match, word.spelled, word.is_same) for word in result.words]
    assert words == [(word, word, word, True) for word in ("red", "acme", "tv")]
    assert "1␟" not in json.dumps(result.explanation, ensure_ascii=False)
    record = result_record(query, index.search(query))
    assert [word["word"] for word in record["rankings"]["semantic"][0]["words"]] == [
        "red", "acme", "tv",
    ]  # fmt: skip
    assert "1␟" not in json.dumps(record, ensure_ascii=False)


def test_the_text_cosine_is_a_part_of_results_and_explanations():
    titles = ["red shoe", "blue shoe box"]
    ranker = MaxSimRanker(
        SETTINGS, random_model(titles), lambda texts: np.zeros(len(texts), np.float32)
    )
    index = MaxSimIndex.build(ranker, [CorpusTitle("a", titles[0]), CorpusTitle("b", titles[1])])
    answer = search(index, 1, parse_parameters([("query", "red shoe"), ("explain", "true")]))
    assert len(answer.results) == 2
    description = type(answer.results[0]).model_fields["parts"].description
    for result in answer.results:
        cosine = result.parts["text_cosine"]
        assert abs(cosine) > 0.01
        assert result.shown_parts["text cosine"] == approx(cosine, abs=0.001)
        assert sum(result.parts.values()) == approx(result.score, abs=1e-5)
        assert sum(result.shown_parts.values()) == approx(round(result.score, 3), abs=1e-9)
        words = result.explanation["text_cosine"]
        assert [part["word"] for part in words] == ["red", "shoe"]
        assert sum(part["contribution"] for part in words) == approx(cosine)
        shown = f"text cosine {result.shown_parts['text cosine']:+.3f}"
        assert shown in result.explanation["summary"]
        assert [name for name in result.parts if name not in description] == []


def server_of(index: AnyIndex, **options) -> Server:
    name_fields(index, ["title", "brand"])
    models = [ServedModel(index.model.name, 1, index.model)]
    return Server(models, port=0, rest_port=0, index=index, **options)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return runtime.load(
        write_compact_model(
            example_model(), tmp_path_factory.mktemp("m") / "shop", {"red shoe": -1.0}
        )
    )


@pytest.fixture(scope="module")
def server(model) -> Iterator[Server]:
    with server_of(MaxSimIndex.build(model, CORPUS), origins=["https://shop.example"]) as server:
        yield server


@pytest.fixture(scope="module")
def cosine_server(compact) -> Iterator[Server]:
    with server_of(VectorIndex.build(CompactRanker.load(compact), CORPUS)) as server:
        yield server


def post(server: Server, **request) -> tuple[int, dict]:
    code, text = rest(server.rest_address, "/v1/search", json.dumps(request).encode(), JSON)
    return code, json.loads(text)


def get(server: Server, **parameters) -> tuple[int, dict]:
    code, text = rest(server.rest_address, f"/v1/search?{urlencode(parameters)}")
    return code, json.loads(text)


def ids(answer: tuple[int, dict]) -> list[str]:
    code, body = answer
    assert code == 200, body
    return [result["doc_id"] for result in body["results"]]


def test_get_and_post_return_the_titles_of_the_index_and_parts_that_add_up(server, model):
    code, body = post(server, query="crimson shoe", k=2)
    assert code == 200
    assert body == get(server, query="crimson shoe", k=2)[1]
    expected = MaxSimIndex.build(model, CORPUS).search("crimson shoe", 2).rankings["semantic"]
    for result, hit in zip(body["results"], expected, strict=True):
        assert (result["doc_id"], result["title"]) == (hit.doc_id, hit.title)
        assert result["score"] == approx(hit.score)
        assert sum(result["parts"].values()) == approx(result["score"], abs=1e-5)
    # The vectors of "crimson", (0.8, 0.6), and of "red", (1, 0), are similar.
    assert body["results"][0]["words"][0]["word"] == "crimson"
    assert body["results"][0]["words"][0]["match"] == "red"
    assert (body["model"], body["version"], body["ranking"]) == (model.name, 1, "semantic")
    assert (body["no_good_match"], body["note"], body["corrections"]) == (False, "", [])


@pytest.mark.parametrize("name", ["server", "cosine_server"])
def test_filters_are_values_of_fields_and_ids(request, name):
    server = request.getfixturevalue(name)
    query = {"query": "red shoe box lid"}
    assert sorted(ids(post(server, **query))) == ["a", "b", "c", "d"]
    # Accents and upper case do not matter; a title without a brand has an empty one.
    assert sorted(ids(post(server, **query, filters={"brand": "acme"}))) == ["a", "c"]
    assert ids(post(server, **query, filters={"brand": ["BOLT"], "doc_id": ["a", "b"]})) == ["b"]
    assert ids(get(server, **query, filters='{"brand": ""}')) == ["d"]
    assert ids(post(server, **query, filters={"doc_id": "x"})) == []
    code, body = post(server, **query, filters={"color": "red"})
    assert (code, body["error"]) == (
        400, "filters: 'color' is not a field of this index; expected one of doc_id, title, brand.",
    )  # fmt: skip


def test_a_search_without_a_good_match_says_so(server):
    code, body = get(server, query="...")
    assert (code, body["results"], body["no_good_match"]) == (200, [], True)
    assert body["note"] == "The query has no word."


def test_bm25_of_a_maxsim_model_is_returned_on_request(server):
    code, body = post(server, query="red shoe", ranking="bm25", filters={"doc_id": ["a", "b"]})
    assert (code, body["ranking"]) == (200, "bm25")
    assert {result["doc_id"] for result in body["results"]} <= {"a", "b"}
    for result in body["results"]:
        assert result["parts"] == {"bm25": approx(result["score"])}


def test_results_have_what_a_page_shows(server):
    (first, *_) = post(server, query="crimson shoe kite", k=1)[1]["results"]
    marked = [part["text"] for part in first["title_parts"] if part["is_match"]]
    assert " ".join(part["text"] for part in first["title_parts"]) == first["title"]
    by_word = {word["word"]: word for word in first["words"]}
    assert by_word["crimson"]["spelled"] in marked
    assert (by_word["crimson"]["is_same"], by_word["shoe"]["is_same"]) == (False, True)
    assert by_word["kite"]["spelled"] is None
    assert sum(first["shown_parts"].values()) == approx(round(first["score"], 3))
    assert {"query words", "title words"} <= {*first["shown_parts"]}


def test_metrics_count_searches_without_a_good_match_and_the_seconds_of_each_stage(server):
    def values() -> dict[str, float]:
        lines = rest(server.rest_address, "/metrics")[1].splitlines()
        return {
            name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)
            if not name.startswith("#")
        }  # fmt: skip

    poor = "dssm_searches_without_good_match_total"
    names = [f'dssm_stage_seconds_count{{stage="{stage}"}}' for stage in ("wait", "compute")]
    before = values()
    for query in ("...", "red shoe", "?!"):
        get(server, query=query)
    get(server, query="red", k=0)  # refused before it is computed
    after = values()
    assert after[poor] - before[poor] == 2
    for query in ("...", "red shoe", ""):
        rest(server.rest_address, f"/?{urlencode({'q': query})}")
    assert values()[poor] - after[poor] == 1  # of the page
    assert [after[name] - before.get(name, 0) for name in names] == [3, 3]
    # The stages are parts of the requests.
    total = sum(
        value for name, value in after.items()
        if name.startswith("dssm_request_seconds_sum") and 'status="OK"' in name
    )  # fmt: skip
    sums = [after[name.replace("_count", "_sum")] for name in names]
    assert min(sums) > 0
    assert sum(sums) <= total


@pytest.mark.parametrize("text", ["shoe " * 200_000, "x" * 10**6])
def test_of_a_title_of_a_megabyte_the_first_thousand_characters_are_returned(model, text):
    index, title = MaxSimIndex.build(model, [CorpusTitle("a", f"red {text}")]), f"red {text}"
    answer = search(index, 1, parse_parameters([("query", "red"), ("explain", "true")]))
    assert answer.results[0].title == f"{title[:999].rstrip()}…"
    assert answer.results[0].explanation == {
        "error": "Only pairs with at most 64 words are explained."
    } or text.startswith("x")
    assert len(answer.model_dump_json()) < 8_000


def test_a_cosine_model_has_two_rankings(cosine_server):
    for ranking, chosen in (("semantic", None), ("bm25", "bm25"), ("semantic", "semantic")):
        code, body = post(cosine_server, query="red", ranking=chosen)
        assert (code, body["ranking"]) == (200, ranking)
        first = body["results"][0]
        assert set(first["parts"]) == {"similarity", "prior"}
        assert sum(first["parts"].values()) == approx(first["score"], abs=1e-5)
        assert first["bm25_score"] >= 0


def test_a_maxsim_model_can_be_compared_with_bm25(server):
    code, body = post(server, query="blue shoe", ranking="bm25")
    assert (code, body["ranking"]) == (200, "bm25")
    scores = [result["score"] for result in body["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all("blue" in r["title"] or "shoe" in r["title"] for r in body["results"])
    assert [result["parts"] for result in body["results"]] == [{"bm25": score} for score in scores]


@pytest.mark.parametrize("name", ["server", "cosine_server"])
def test_explanations_are_those_of_the_model(request, name):
    server = request.getfixturevalue(name)
    plain = get(server, query="red shoe")[1]["results"][0]
    explained = get(server, query="red shoe", explain="true")[1]["results"][0]
    assert plain["explanation"] is None
    assert any("'red' is in the title" in line for line in explained["explanation"]["sentences"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "query: Field required"),
        ({"query": 3}, "query: Input should be a valid string"),
        ({"query": "a", "k": 0}, "k: Input should be greater than or equal to 1"),
        ({"query": "a", "k": 101}, "k: Input should be less than or equal to 100"),
        ({"query": "a" * 1001}, "query: String should have at most 1000 characters"),
        ({"query": "a", "x": 1}, "x: Extra inputs are not permitted"),
        ({"query": "a", "ranking": "hybrid"}, "ranking: Input should be 'semantic' or 'bm25'"),
    ],
)
def test_an_invalid_search_is_refused_in_one_line(server, fields, message):
    code, body = post(server, **fields)
    assert (code, "\n" in body["error"]) == (400, False)
    assert message in body["error"]


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ('{"query": "a", "query": "b"}', "query"),
        ('{"query": "a", "filters": {"b": "x", "b": "y"}}', "b"),
        ('{"query": "a", "filters": {"price": {"lte": 1, "lte": 2}}}', "lte"),
        ('{"query": "a", "boosts": {"stock": 1, "st\\u006fck": 1}}', "stock"),
    ],
)
def test_a_repeated_key_or_parameter_is_refused(server, body, key):
    message = f"{key!r} is in one object more than once; give it once."
    code, text = rest(server.rest_address, "/v1/search", body.encode(), JSON)
    assert (code, json.loads(text)) == (400, {"error": message})
    pairs = json.loads(body, object_pairs_hook=list)
    parameters = [(name, value if name == "query" else json_of(value)) for name, value in pairs]
    code, text = rest(server.rest_address, f"/v1/search?{urlencode(parameters)}")
    if key == "query":
        message = message.replace("one object", "the URL")
    assert (code, json.loads(text)) == (400, {"error": message})
    parameters = [("query", "a"), ("filters", "{}"), ("filters", "{}")]
    code, text = rest(server.rest_address, f"/v1/search?{urlencode(parameters)}")
    assert (code, "'filters' is in the URL more than once" in text) == (400, True)


def json_of(value: object) -> str:
    """JSON of a value whose objects are lists of keys and values."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "{" + ", ".join(f"{json.dumps(key)}: {json_of(item)}" for key, item in value) + "}"


def test_only_json_is_accepted_and_get_parameters_are_checked(server):
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        code, text = rest(
            server.rest_address, "/v1/search", b'{"query": "red"}', {"Content-Type": content_type}
        )
        assert (code, "expected application/json" in text) == (415, True)
    assert get(server, query="red", k="x")[0] == 400
    assert get(server, query="red", filters="brand")[0] == 400


def test_requests_of_other_sites_are_refused_unless_allowed(server):
    address = server.rest_address
    for path in ("/v1/search?query=red", "/", f"/v1/models/{server.models[0].name}"):
        assert rest(address, path, headers={"Origin": "https://evil.example"})[0] == 403
        assert rest(address, path, headers={"Origin": "null"})[0] == 403
        assert rest(address, path, headers={"Origin": f"http://{address}"})[0] == 200
        assert rest(address, path, headers={"Origin": "https://shop.example"})[0] == 200


def test_the_description_fits_requests_and_answers(server):
    document = json.loads(rest(server.rest_address, "/openapi.json")[1])
    assert document["openapi"] == "3.1.0"
    schema = {"$ref": "#/components/schemas/SearchResponse", "components": document["components"]}
    for query in ("red shoe", "..."):
        Draft202012Validator(schema).validate(post(server, query=query, explain=True)[1])
    assert set(document["paths"]["/v1/search"]) == {"get", "post"}
    names = [value["name"] for value in document["paths"]["/v1/search"]["get"]["parameters"]]
    assert names == ["query", "k", "filters", "boosts", "explain", "ranking"]
