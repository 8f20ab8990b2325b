"""A model of bundled questions, its export, and nodes with an index of its documents."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import pytest

from dssm_tf.commands.documents import documents
from dssm_tf.export.search_engine.export import export_search_engine
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.text.typos import with_typo
from tests.clicks import Click, write_data
from tests.runs import finished_run
from tests.search_engines.expected_scores import ExpectedScores
from tests.search_engines.nodes import Node, running_node

CONFIG = {
    "tower": {"name": "words", "units": 48},
    "score": {"name": "maxsim", "text_cosine": 0.3, "text_units": 16},
    "shared_towers": True,
    "whole_words": True,
}
TITLES, QUERIES, CLICKED = 3000, 200, 200
INDEX = "shop"
ENGINES = os.environ.get("SEARCH_ENGINES", "opensearch elasticsearch8 elasticsearch7").split()
"""The engines to test; a test of an engine that is not installed is skipped."""


class Shop(NamedTuple):
    """An export, the documents of its catalog, and queries.

    Attributes:
        export: directory of the export.
        client: a client of the export.
        titles: the titles of the documents, whose ids are their numbers.
        colors: a field of each document.
        bulk: file of the documents with the model's fields, as a bulk request.
        queries: half of them have typing errors.
        expected: the scores of all titles by the definition, without the cosine of text vectors.
    """

    export: Path
    client: SearchEngineClient
    titles: list[str]
    colors: list[str]
    bulk: Path
    queries: list[str]
    expected: ExpectedScores


@pytest.fixture(scope="session")
def shop(tmp_path_factory) -> Shop:
    """A shop of questions: an untrained model has random vectors of letter n-grams."""
    folder = tmp_path_factory.mktemp("shop")
    pairs = files("dssm_tf.datasets").joinpath("webquestions/pairs.tsv").read_text("utf-8")
    questions = [row["query"] for row in csv.DictReader(pairs.splitlines(), delimiter="\t")]
    titles, others = questions[:TITLES], questions[TITLES : TITLES + QUERIES]
    log = [
        Click(" ".join(title.split()[2:5]), title, number % 9 + 1)
        for number, title in enumerate(dict.fromkeys(titles[:CLICKED]))
    ]
    data = write_data(folder / "data", log, validation=(), negatives=1, corpus=titles)
    run = finished_run(folder / "run", data, CONFIG, prior_weight=0.02)
    export = export_search_engine(run, folder / "export", titles=titles)
    colors = [("red", "green", "blue")[number % 3] for number in range(len(titles))]
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as file:
        for number, (title, color) in enumerate(zip(titles, colors, strict=True)):
            document = {"id": number, "title": title, "color": color, "sales": number % 7}
            document |= {"price": number % 90} if number % 10 else {}
            file.write(json.dumps(document) + "\n")
    bulk = folder / "bulk.jsonl"
    documents(export=export, input=folder / "documents.jsonl", out=bulk, id="id")
    client = SearchEngineClient(export)
    return Shop(
        export,
        client,
        titles,
        colors,
        bulk,
        [with_typo(query) if number % 2 else query for number, query in enumerate(others)],
        ExpectedScores(client.ranker.maxsim, titles, client.manifest.similar_words),
    )


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(
            name, marks=[pytest.mark.search_engines, *[pytest.mark.slow] * (name != "opensearch")]
        )
        for name in ENGINES
    ],
)
def node(request, tmp_path_factory) -> Iterator[Node]:
    """A node with an index of the shop's documents."""
    with running_node(request.param, tmp_path_factory.mktemp("node") / "home") as node:
        shop: Shop = request.getfixturevalue("shop")
        body = json.loads((shop.export / "settings_and_mapping.json").read_bytes())
        body["mappings"]["properties"] |= {
            "title": {"type": "text"},
            "color": {"type": "keyword"},
            "id": {"type": "integer"},
            "sales": {"type": "integer"},
            "price": {"type": "float"},
        }
        node.ask("PUT", f"/{INDEX}", body)
        response = node.ask("POST", f"/{INDEX}/_bulk?refresh=true", shop.bulk.read_bytes())
        assert not response["errors"], response["items"][0]
        yield node
