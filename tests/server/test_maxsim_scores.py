"""Terminal, page, Python and REST show the score that the definition of maxsim gives."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import pytest
from pytest import approx

from dssm_tf.cli import main
from dssm_tf.retrieval.opening import open_index
from dssm_tf.runtime import load
from dssm_tf.server.models import ServedModel, open_models
from dssm_tf.server.server import Server
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from serving.client import Client
from tests.runtime.maxsim_models import TITLES, oracle, random_model, write_compact_model
from tests.server.asking import body_of, rest

pytest.importorskip("numba")

QUERIES = ["red shoe", "runing shoes", "blue box with walla", "虎 box", "shoe box lid red red"]
PRIORS = {"shoe box": -1.5, "red running shoe": -0.5}
UNSEEN = -7.0
PRIOR_WEIGHT = 0.25
TOLERANCE = 1e-5


class Shop(NamedTuple):
    """A model, its index, and a server of both.

    Attributes:
        model: directory of the compact model.
        index: directory of the index.
        server: serves them.
        expected: the scores of each query by title, in float64, from the definition.
    """

    model: Path
    index: Path
    server: Server
    expected: dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("same")
    model, titles = random_model(), [title for title in TITLES if title]
    write_compact_model(model, folder / "shop" / "1", PRIORS)
    corpus = [CorpusTitle(f"d{row}", title) for row, title in enumerate(titles)]
    write_corpus(folder / "corpus.tsv", corpus)
    flags = ["--model", folder / "shop", "--corpus", folder / "corpus.tsv", "--out"]
    assert main(["index", *map(str, [*flags, folder / "index"])]) == 0
    split = model.vocabulary.words
    reference = oracle(model, map(split, [*titles, *QUERIES]))
    expected = {
        query: {
            title: reference.score(split(query), split(title))
            + PRIOR_WEIGHT * PRIORS.get(" ".join(split(title)), UNSEEN)
            for title in titles
        }
        for query in QUERIES
    }
    index = open_index(folder / "index")
    served = [*open_models(folder / "shop"), ServedModel("index", 1, index.model)]
    with Server(served, port=0, rest_port=0, index=index) as server:
        yield Shop(folder / "shop", folder / "index", server, expected)


def terminal(shop: Shop, query: str, form: str, capsys) -> str:
    capsys.readouterr()
    flags = ["--index", str(shop.index), "--format", form, "--k", "20"]
    assert main(["search", *flags, query]) == 0
    return capsys.readouterr().out


def assert_expected(shop: Shop, query: str, scores: dict[str, float]) -> None:
    """Asserts that the scores of titles are those of the definition."""
    assert len(scores) > 3
    for title, score in scores.items():
        assert score == approx(shop.expected[query][title], abs=TOLERANCE)


@pytest.mark.parametrize("query", QUERIES)
def test_the_terminal_shows_the_score_of_the_definition(shop, query, capsys):
    rows = list(csv.DictReader(terminal(shop, query, "tsv", capsys).splitlines(), delimiter="\t"))
    assert [row["rank"] for row in rows] == [str(rank) for rank, _ in enumerate(rows, 1)]
    assert {(row["query"], row["system"]) for row in rows} == {(query, "semantic")}
    assert_expected(shop, query, {row["title"]: float(row["score"]) for row in rows})
    (line,) = terminal(shop, query, "json", capsys).splitlines()
    hits = json.loads(line)["rankings"]["semantic"]
    assert_expected(shop, query, {hit["title"]: hit["score"] for hit in hits})
    for hit in hits:
        assert sum(hit["parts"].values()) == approx(hit["score"], abs=TOLERANCE)


@pytest.mark.parametrize("query", QUERIES)
def test_the_parts_that_the_terminal_shows_add_up_to_the_shown_score(shop, query, capsys):
    part = r"(?:query words|title words|pairs|text cosine|prior) ([+-]\d\.\d{3})"
    text = terminal(shop, query, "text", capsys)
    lines = [line for line in text.splitlines() if "score " in line]
    assert len(lines) > 3
    assert any("text cosine " in line for line in lines)
    for line in lines:
        score = float(re.search(r"score (-?\d\.\d{3})", line)[1])
        assert sum(map(float, re.findall(part, line))) == approx(score, abs=1e-9)


@pytest.mark.parametrize("query", QUERIES)
def test_python_returns_the_score_of_the_definition(shop, query):
    titles = list(shop.expected[query])
    for path in (shop.model, shop.index / "model"):
        ranked = load(path).rank(query, titles)
        assert_expected(shop, query, {title: score for title, score, _ in ranked})
    hits = open_index(shop.index).search(query, 20).rankings["semantic"]
    assert_expected(shop, query, {hit.title: hit.score for hit in hits})
    assert_expected(shop, query, {hit.title: hit.matches.score + hit.prior for hit in hits})


@pytest.mark.parametrize("query", QUERIES)
def test_both_protocols_return_the_score_of_the_definition(shop, query):
    titles = list(shop.expected[query])
    for name in ("shop", "index"):
        body = body_of("score", queries=[query], titles=titles)
        code, text = rest(shop.server.rest_address, f"/v1/models/{name}:predict", body)
        assert code == 200, text
        outputs = json.loads(text)["outputs"]
        assert_expected(shop, query, dict(zip(titles, outputs, strict=True)))
        with Client(shop.server.grpc_address, name) as client:
            scores = np.asarray(client.score(query, titles)).tolist()
        assert_expected(shop, query, dict(zip(titles, scores, strict=True)))


@pytest.mark.parametrize("query", QUERIES)
def test_the_page_shows_the_score_of_the_definition(shop, query, capsys):
    code, page = rest(shop.server.rest_address, "/?" + urlencode({"q": query}))
    assert code == 200
    shown = re.findall(r'<data class="score" value="([^"]+)">([^<]+)</data>', page)
    (line,) = terminal(shop, query, "json", capsys).splitlines()
    hits = json.loads(line)["rankings"]["semantic"]
    assert len(shown) == len(hits)  # both in the same order
    values = {hit["title"]: float(value) for hit, (value, _) in zip(hits, shown, strict=True)}
    assert_expected(shop, query, values)
    assert all(float(text) == approx(float(value), abs=5.1e-4) for value, text in shown)
