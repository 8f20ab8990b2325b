"""What holds for every client, whatever protocol it speaks."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import numpy as np
import pytest

from serving.client import Client, RankedTitle, RestClient, ServingError, VersionStatus


@pytest.fixture(params=[Client, RestClient], ids=["grpc", "rest"])
def client_class(request):
    return request.param


@pytest.fixture
def address(request, client_class):
    return request.getfixturevalue("grpc_address" if client_class is Client else "rest_address")


@pytest.fixture
def client(client_class, address):
    with client_class(address, "tiny", batch_size=4) as client:
        yield client


@pytest.fixture
def closed_address():
    """An address nobody listens at, held so that nobody else takes it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def test_one_query_is_scored_against_every_title(client):
    scores = client.score("red shoes", ["red shoes", "red hat", "blue hat"])
    # Two of two words, one of two, none of two.
    np.testing.assert_array_equal(scores, np.float32([1, 0.5, 0]))
    assert scores.dtype == np.float32


def test_queries_are_scored_against_their_own_titles(client):
    scores = client.score(["red hat", "blue"], ["red hat", "red hat"])
    np.testing.assert_array_equal(scores, [1, 0])


def test_ranking_is_from_best_to_worst_and_ties_keep_their_order(client):
    ranking = client.rank("red shoes", ["blue hat", "red hat", "shoes red", "old hat", "shoes"])
    assert ranking == [
        RankedTitle("shoes red", 1.0, 2),
        RankedTitle("shoes", 1.0, 4),
        RankedTitle("red hat", 0.5, 1),
        RankedTitle("blue hat", 0.0, 0),
        RankedTitle("old hat", 0.0, 3),
    ]


def test_many_equal_scores_keep_their_order_too(client):
    ranking = client.rank("red", ["red", "hat"] * 20)
    assert [one.position for one in ranking] == [*range(0, 40, 2), *range(1, 40, 2)]


def test_vectors_have_a_row_per_text(client):
    # (bytes, words); e with an acute accent is two bytes.
    np.testing.assert_array_equal(client.encode_queries(["red shoes", ""]), [[9, 2], [0, 0]])
    np.testing.assert_array_equal(client.encode_titles(["caf\u00e9 au lait"]), [[13, 3]])
    assert client.encode_titles(["hat"]).dtype == np.float32
    np.testing.assert_array_equal(client.encode_queries(["red shoes"], prior=True), [[9, 2, 7]])
    np.testing.assert_array_equal(client.encode_titles(["hat"], prior=True), [[3, 1, 7]])


@pytest.mark.parametrize(
    ("text", "size"), [("\ud800 x", 5), ("a\x00b", 3), ("\U0001f355", 4), ('"\\{b64}', 7)]
)
def test_odd_texts_arrive_byte_for_byte(client, text, size):
    assert client.encode_queries([text])[0, 0] == size


@pytest.mark.parametrize("count", [4, 5, 11])
def test_large_calls_are_split_without_a_seam(client, ranker, count):
    titles = ["red " + "hat " * index for index in range(count)]
    scores = client.score("red", titles)
    np.testing.assert_allclose(scores, [1 / (1 + index) for index in range(count)], rtol=1e-6)
    assert [size for _, size in ranker.requests] == [4] * (count // 4) + [count % 4] * (
        count % 4 > 0
    )


def test_nothing_is_answered_without_asking(client, ranker):
    assert client.score("red", []).shape == (0,)
    assert client.encode_titles([]).shape == (0, 0)
    assert client.rank("red", []) == []
    assert ranker.requests == []


def test_the_status_names_the_served_versions(client):
    assert client.status() == [VersionStatus(3, "AVAILABLE", "")]


def test_a_version_can_be_named(client_class, address):
    with client_class(address, "tiny", version=3) as client:
        assert client.score("red", ["red"]) == [1]
    with (
        client_class(address, "tiny", version=4) as client,
        pytest.raises(ServingError, match=r"tiny version 4 .* NOT_FOUND"),
    ):
        client.score("red", ["red"])


def test_an_unavailable_server_is_reported_with_the_remedy(client_class, closed_address):
    with client_class(closed_address, "tiny") as client, pytest.raises(ServingError) as caught:
        client.rank("red", ["red"])
    assert caught.value.status == "UNAVAILABLE"
    message = str(caught.value)
    assert message.startswith(f"score of model tiny at {closed_address}: UNAVAILABLE: ")
    assert message.endswith("(usual ports: gRPC 8500, REST 8501).")
    assert "\n" not in message


@pytest.mark.parametrize("call", ["score", "status"])
def test_a_wrong_model_name_is_reported(client_class, address, call):
    with client_class(address, "big") as client, pytest.raises(ServingError) as caught:
        client.score("red", ["red"]) if call == "score" else client.status()
    assert caught.value.status == "NOT_FOUND"
    assert str(caught.value).startswith(f"{call} of model big at {address}: NOT_FOUND: ")
    assert "models.config" in str(caught.value)


def test_a_slow_server_meets_the_deadline(client_class, address, ranker):
    ranker.answering.clear()
    with client_class(address, "tiny", timeout=0.2) as client:
        with pytest.raises(ServingError) as caught:
            client.score("red", ["red"])
        ranker.answering.set()
    assert caught.value.status == "DEADLINE_EXCEEDED"


def test_the_timeout_is_for_all_batches_together(client, monkeypatch):
    # Each look at the clock is one second later: only the first three batches are in time.
    seconds = iter(range(100))
    clock = SimpleNamespace(monotonic=lambda: next(seconds))  # the client's, not the server's
    monkeypatch.setattr("serving.model_client.time", clock)
    client.timeout = 4
    with pytest.raises(ServingError, match="12 of 20 texts done after 4 s"):
        client.score("red", ["red"] * 20)


def test_a_batch_too_large_for_the_server_names_the_remedy(client_class, address):
    with (
        client_class(address, "tiny", batch_size=9) as client,
        pytest.raises(
            ServingError, match=r"INVALID_ARGUMENT: .*9 texts, more than max_batch_size, 8"
        ),
    ):
        client.score("red", ["red"] * 9)


def test_an_answer_without_the_output_says_so(client, ranker):
    ranker.replaced_output = {"logits": np.ones(2, np.float32), "other": np.ones(2, np.float32)}
    with pytest.raises(ServingError, match="the answer has no output 'scores'"):
        client.score("red", ["red", "hat"])


@pytest.mark.parametrize(
    "output",
    [
        {"logits": np.ones(2, np.float32), "other": np.ones(2, np.float32)},
        {"scores": np.ones(3, np.float32)},
        {"scores": np.ones((2, 1), np.float32)},
    ],
    ids=["another output", "too many", "another rank"],
)
def test_the_answer_of_another_kind_of_model_is_refused(client, ranker, output):
    ranker.replaced_output = output
    with pytest.raises(ServingError, match=r"score of model tiny.*scores.*dssm export") as caught:
        client.score("red", ["red", "hat"])
    assert caught.value.status == "BAD_ANSWER"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda client: client.score(["a", "b"], ["c", "d", "e"]),
            "queries holds 2 texts and titles 3; expected as many",
        ),
        (lambda client: client.score("a", "title"), "titles is one str; expected a list"),
        (lambda client: client.encode_queries("abc"), "queries is one str"),
        (lambda client: client.encode_titles(["a", 7]), r"titles\[1\] is int; expected str"),
        (lambda client: client.rank(["a"], ["b"]), "query is list; expected a str"),
    ],
)
def test_arguments_no_server_could_answer_are_not_sent(client, ranker, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(client)
    assert ranker.requests == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout is 0; expected seconds"),
        ({"timeout": float("nan")}, "timeout is nan; expected seconds"),
        ({"timeout": float("inf")}, "timeout is inf; expected seconds"),
        ({"timeout": 1e20}, r"timeout is 1e\+20; expected seconds"),
        ({"timeout": "2"}, "timeout is '2'; expected seconds"),
        ({"batch_size": 0}, "batch_size is 0; expected 1"),
        ({"batch_size": 1e9}, "batch_size is 1000000000.0; expected 1"),
        ({"version": -1}, "version is -1; expected a whole number"),
        ({"model": ""}, "model is empty"),
        ({"host": "ftp://server"}, "server"),
    ],
)
def test_bad_options_are_named(client_class, options, message):
    if client_class is Client and "host" in options:
        options = {"host": "http://server"}
    with pytest.raises(ValueError, match=message):
        client_class(**options)


def test_a_full_queue_is_told_from_a_missing_server():
    error = ServingError("score", "UNAVAILABLE", "The batch scheduling queue is full")
    assert "max_enqueued_batches" in str(error)


def test_an_error_is_one_short_line_whatever_the_server_says():
    message = str(ServingError("score", "INTERNAL", "first\nsecond  third" + "." * 1000))
    assert message.startswith("score: INTERNAL: first second third")
    assert message.endswith(". The server's log says more.")
    assert len(message) < 400


def test_the_grpc_client_at_a_rest_port_is_told_about_ports(rest_address):
    with (
        Client(rest_address, "tiny", timeout=60) as client,
        pytest.raises(ServingError, match="gRPC 8500"),
    ):
        client.score("red", ["red"])


def test_the_rest_client_at_a_grpc_port_is_told_about_ports(grpc_address):
    with (
        RestClient(grpc_address, "tiny", timeout=60) as client,
        pytest.raises(ServingError, match="REST 8501"),
    ):
        client.score("red", ["red"])
