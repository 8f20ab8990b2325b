"""A query and a title have the same score and the same named parts wherever they are shown."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from pytest import approx

from dssm_tf.cli import main
from dssm_tf.commands.index import index as write_index
from dssm_tf.export.compact import export_compact
from dssm_tf.export.load import load
from dssm_tf.export.saved_model import export_saved_model
from dssm_tf.retrieval.opening import open_index
from dssm_tf.server.models import open_models
from dssm_tf.server.page import render
from dssm_tf.server.server import Server
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from serving.client import Client
from tests.clicks import write_data
from tests.runs import finished_run
from tests.server.asking import body_of, rest
from tests.server.conftest import CONFIG, LOG

pytest.importorskip("faiss")
pytest.importorskip("numba")

QUERY, TITLE, DOC_ID = "a red fox", "Red Fox", "t1"
CORPUS = [CorpusTitle(DOC_ID, TITLE), CorpusTitle("t2", "green owl"), CorpusTitle("t3", "red bear")]
CONFIGS = {
    "cosine": CONFIG,
    "maxsim": {
        "tower": {"name": "words", "units": 8},
        "score": {"name": "maxsim", "text_cosine": 0.5, "text_units": 4},
        "shared_towers": True,
    },
}
ROUNDED = 0.0005 + 1e-5  # tolerance for a number that is printed with three decimals


class Shop(NamedTuple):
    """The directories of one model with a prior, in all its forms."""

    run: Path
    export: Path
    compact: Path
    index: Path


@pytest.fixture(scope="module", params=CONFIGS)
def shop(request, tmp_path_factory) -> Shop:
    folder = tmp_path_factory.mktemp(request.param)
    data = write_data(folder / "data", LOG, validation=(), negatives=1)
    run = finished_run(folder / "run", data, CONFIGS[request.param], prior_weight=0.1)
    write_corpus(folder / "corpus.tsv", CORPUS)
    write_index(model=run, corpus=folder / "corpus.tsv", out=folder / "index")
    export = export_saved_model(run, folder / "export", "shop")
    return Shop(run, export, export_compact(run, folder / "compact", "shop"), folder / "index")


def printed_score(text: str) -> float:
    """The score in a printed line; checks that the printed parts add up to it."""
    part = (
        r"(?:similarity|query words|title words|pairs|text cosine|prior|remembered clicks) "
        r"[+-]?\d\.\d{3}(?: \(the cosine\))?"
    )
    match = re.search(rf"[Ss]core (-?\d\.\d{{3}}) ?[:,]?((?: ?,? {part})+)", text)
    assert match, text
    score, parts = match[1], re.findall(r"[+-]?\d\.\d{3}", match[2])
    assert len(parts) >= 2
    assert sum(map(float, parts)) == approx(float(score), abs=len(parts) * ROUNDED)
    return float(score)


def visible(html: str) -> str:
    """The text of an HTML page on one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


@pytest.mark.long
def test_one_pair_has_the_same_score_and_parts_everywhere(shop, capsys):
    expected = float(load(shop.run).score(QUERY, [TITLE])[0])
    assert load(shop.run).weighted_prior([TITLE])[0] < -0.01
    # Python
    for path in shop:
        ranker = load(path)
        ranked = {row.title: row.score for row in ranker.rank(QUERY, [row.title for row in CORPUS])}
        assert ranked[TITLE] == approx(expected, abs=1e-5)
        assert ranker.score_pairs([QUERY], [TITLE])[0] == approx(expected, abs=1e-5)
    # Index: each ranking (of the model, and of BM25 if there is one) shows the model's score
    index = open_index(shop.index)
    rankings = index.search(QUERY).rankings
    hits = [hit for ranked in rankings.values() for hit in ranked if hit.doc_id == DOC_ID]
    assert len(hits) == len(rankings)
    assert ("text cosine" in hits[0].score_breakdown()) == (len(rankings) == 1)  # of maxsim
    for hit in hits:
        assert hit.score == approx(expected, abs=1e-5)
        assert printed_score(hit.score_breakdown()) == approx(expected, abs=ROUNDED)
    # Terminal
    assert main(["search", QUERY, "--index", str(shop.index)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if f"({DOC_ID}:" in line]
    assert [printed_score(line) for line in lines] == approx(
        [expected] * len(rankings), abs=ROUNDED
    )
    for path in (shop.run, shop.compact, shop.index):
        flags = ["explain", "--model", str(path), "--query", QUERY, "--title", TITLE]
        assert main(flags) == 0
        assert printed_score(capsys.readouterr().out) == approx(expected, abs=ROUNDED)
        assert main([*flags, "--json"]) == 0
        explained = json.loads(capsys.readouterr().out)
        assert explained["score"] == approx(expected, abs=1e-5)
        assert explained["similarity"] + explained["prior"] == approx(expected, abs=1e-5)
    # Page: the line of the hit and its explanation
    for system in rankings:
        if system == "bm25":  # here the page explains the score of BM25, not that of the model
            continue
        html = render(index, QUERY, DOC_ID, system)
        item = visible(html.partition(f'id="{system}-')[2])
        hit, _, explanation = item[item.index(TITLE) :].partition("why?")
        assert printed_score(hit) == approx(expected, abs=ROUNDED)
        assert printed_score(explanation) == approx(expected, abs=ROUNDED)
    # Server
    with Server(open_models(shop.compact), port=0, rest_port=0) as server:
        body = body_of("score", queries=[QUERY], titles=[TITLE])
        status, answer = rest(server.rest_address, "/v1/models/shop:predict", body)
        assert status == 200
        assert json.loads(answer)["outputs"] == approx([expected], abs=1e-5)
        with Client(server.grpc_address, "shop") as client:
            assert client.score(QUERY, [TITLE]) == approx([expected], abs=1e-5)
