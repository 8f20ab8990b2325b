"""Serving a model with the score maxsim: scores over both protocols, and no vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest import approx

from dssm_tf.cli import main
from dssm_tf.runtime import MaxSimRanker, load
from dssm_tf.server.models import open_models
from dssm_tf.server.server import Server
from serving.client import Client, ServingError
from tests.runtime.maxsim_models import TITLES, random_model, write_compact_model
from tests.server.asking import body_of, rest

QUERY = "red shoe"
PREDICT = "/v1/models/shop:predict"
REFUSAL = "shop is a maxsim model, which has no vector per text; use the signature score."


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("maxsim") / "shop" / "1"
    return write_compact_model(random_model(), folder, {"red running shoe": -0.5})


@pytest.fixture(scope="module")
def maxsim_server(directory) -> Iterator[Server]:
    with Server(open_models(directory), port=0, rest_port=0) as server:
        yield server


@pytest.fixture(scope="module")
def scores(directory) -> list[float]:
    ranker = load(directory)
    assert isinstance(ranker, MaxSimRanker)
    return ranker.score(QUERY, TITLES).tolist()


def test_both_protocols_return_the_scores_of_the_ranker(maxsim_server, scores):
    with Client(maxsim_server.grpc_address, "shop") as client:
        assert client.score(QUERY, TITLES) == approx(scores)
    for name in ("score", "serving_default", ""):
        body = body_of(name, queries=[QUERY], titles=TITLES)
        code, text = rest(maxsim_server.rest_address, PREDICT, body)
        assert code == 200, text
        assert json.loads(text)["outputs"] == approx(scores)


@pytest.mark.parametrize("side", ["query", "title"])
def test_both_protocols_refuse_vectors_in_one_sentence(maxsim_server, side):
    with (
        Client(maxsim_server.grpc_address, "shop") as client,
        pytest.raises(ServingError, match=f"INVALID_ARGUMENT: {REFUSAL}"),
    ):
        client.encode(side, [QUERY])
    inputs = {"queries" if side == "query" else "titles": [QUERY]}
    body = body_of(f"encode_{side}", **inputs)
    code, text = rest(maxsim_server.rest_address, PREDICT, body)
    assert (code, json.loads(text)) == (400, {"error": REFUSAL})


@pytest.mark.parametrize("command", [["serve"], ["search", "shoe"]])
def test_a_model_is_not_an_index(directory, command, capsys):
    assert main([*command, "--index", str(directory)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    expected = (
        f"{directory} is a model, not an index; build its index: dssm index --model {directory} "
        "--corpus CORPUS --out INDEX."
    )
    assert line == f"dssm {command[0]}: {expected}"
