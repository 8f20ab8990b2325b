"""What the client asks, and what it makes of answers and of bad arguments."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from serving.client import Client, ServingError


@pytest.fixture
def client(grpc_address):
    with Client(grpc_address, "tiny", batch_size=4) as client:
        yield client


@pytest.fixture
def closed_address():
    """An address nobody listens at, held so that nobody else takes it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def test_queries_are_scored_against_their_own_titles_or_one_against_all(client):
    # Letters by letters, words by words, and 1: 9 * 9 + 2 * 2 + 1.
    scores = client.score("red shoes", ["red shoes", "red hat", "hat"])
    np.testing.assert_array_equal(scores, [86, 68, 30])
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(client.score(["red hat", "x"], ["red", "red hat"]), [24, 10])


def test_vectors_have_a_row_per_text(client):
    # (letters, words, 1).
    found = client.encode("query", ["red shoes", ""])
    np.testing.assert_array_equal(found, [[9, 2, 1], [0, 0, 1]])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(client.encode("title", ["caf\u00e9 au lait"]), [[12, 3, 1]])


@pytest.mark.parametrize("count", [4, 5, 11])
def test_large_calls_are_split_without_a_seam(client, ranker, count):
    found = client.encode("title", ["x" * index for index in range(count)])
    np.testing.assert_array_equal(found[:, 0], range(count))
    assert ranker.requests == [4] * (count // 4) + [count % 4] * (count % 4 > 0)


def test_nothing_is_answered_without_asking(client, ranker):
    assert client.score("red", []).shape == (0,)
    assert client.encode("title", []).shape == (0, 0)
    assert ranker.requests == []


@pytest.mark.parametrize("host", ["server:0", "a b:8500", "me@server:8500", "http://server", ":85"])
def test_an_address_that_is_none_is_one_error(host):
    with Client(host, "tiny", timeout=5) as client, pytest.raises(ServingError, match="UNAVAIL"):
        client.score("red", ["red"])


@pytest.mark.parametrize("address", ["closed_address", "rest_address"])
def test_a_server_that_does_not_answer_is_reported_with_the_remedy(request, address):
    address = request.getfixturevalue(address)
    with Client(address, "tiny", timeout=60) as client, pytest.raises(ServingError) as caught:
        client.score("red", ["red"])
    assert caught.value.status == "UNAVAILABLE"
    message = str(caught.value)
    assert message.startswith(f"score of model tiny at {address}: UNAVAILABLE: ")
    assert message.endswith("(usual port: 8500).")
    assert "\n" not in message


def test_an_error_is_one_short_line_whatever_the_server_says():
    message = str(ServingError("score", "INTERNAL", "first\nsecond  third" + "." * 1000))
    assert message.startswith("score: INTERNAL: first second third")
    assert message.endswith(". The server's log says more.")
    assert len(message) < 400


def test_a_slow_server_meets_the_deadline(grpc_address, ranker):
    ranker.answering.clear()
    with (
        Client(grpc_address, "tiny", timeout=0.2) as client,
        pytest.raises(ServingError, match="DEADLINE_EXCEEDED"),
    ):
        client.score("red", ["red"])


def test_a_batch_too_large_for_the_server_names_the_remedy(grpc_address):
    with (
        Client(grpc_address, "tiny", batch_size=9) as client,
        pytest.raises(ServingError, match=r"INVALID_ARGUMENT: .*9 texts.* Set batch_size to"),
    ):
        client.score("red", ["red"] * 9)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (np.ones(2, np.float32), r"expected DT_FLOAT of the shape \(2, d\)"),
        (np.ones((2, 0), np.float32), r"expected DT_FLOAT of the shape \(2, d\)"),
        (np.float32([[1], [np.nan]]), "not finite"),
        (np.float32([[1], [-np.inf]]), "not finite"),
    ],
)
def test_the_answer_of_another_kind_of_model_is_refused(client, ranker, values, problem):
    ranker.replaced = values
    with pytest.raises(ServingError, match=f"encode_title of model tiny.*{problem}") as caught:
        client.encode("title", ["red", "hat"])
    assert caught.value.status == "BAD_ANSWER"


def test_vectors_have_one_width_in_all_batches(client, ranker):
    ranker.encode_queries = lambda texts, prior: np.ones((len(texts),) * 2, np.float32)
    assert client.encode("title", ["a"] * 4).shape == (4, 4)
    with pytest.raises(ServingError, match="BAD_ANSWER: embeddings: "):
        client.encode("title", ["a"] * 7)


def test_an_answer_is_read_no_further_than_what_was_asked_for(client, ranker):
    ranker.replaced = np.ones((1, 5_000_000), np.float32)
    with pytest.raises(ServingError, match=r"EXHAUSTED: .*Received message larger"):
        client.encode("title", ["a"])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda client: client.score(["a", "b"], ["c", "d", "e"]),
            "queries holds 2 texts and titles 3; expected the same number of both",
        ),
        (lambda client: client.score("a", "title"), "titles is one str; expected a list"),
        (lambda client: client.encode("query", "abc"), "queries is one str"),
    ],
)
def test_arguments_no_server_could_answer_are_not_sent(client, ranker, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(client)
    assert ranker.requests == []
