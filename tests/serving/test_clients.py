"""Requests of the client, and its errors for invalid arguments and responses."""

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
    """An address without a server, bound so that no other process uses it."""
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound_socket.getsockname()[1]}"


def test_each_query_is_scored_with_its_title_or_one_query_with_all_titles(client):
    # The inner product of (letters, words, 1): 9 * 9 + 2 * 2 + 1.
    scores = client.score("red shoes", ["red shoes", "red hat", "hat"])
    np.testing.assert_array_equal(scores, [86, 68, 30])
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(client.score(["red hat", "x"], ["red", "red hat"]), [24, 10])


def test_encode_returns_one_vector_per_text(client):
    # (letters, words, 1).
    vectors = client.encode("query", ["red shoes", ""])
    np.testing.assert_array_equal(vectors, [[9, 2, 1], [0, 0, 1]])
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(client.encode("title", ["caf\u00e9 au lait"]), [[12, 3, 1]])


@pytest.mark.parametrize("count", [4, 5, 11])
def test_large_calls_are_split_into_batches(client, ranker, count):
    vectors = client.encode("title", ["x" * index for index in range(count)])
    np.testing.assert_array_equal(vectors[:, 0], range(count))
    assert ranker.requests == [4] * (count // 4) + [count % 4] * (count % 4 > 0)


def test_empty_lists_return_empty_arrays_without_a_request(client, ranker):
    assert client.score("red", []).shape == (0,)
    assert client.encode("title", []).shape == (0, 0)
    assert ranker.requests == []


@pytest.mark.parametrize("host", ["server:0", "a b:8500", "me@server:8500", "http://server", ":85"])
def test_an_invalid_address_is_unavailable(host):
    with Client(host, "tiny", timeout=5) as client, pytest.raises(ServingError, match="UNAVAIL"):
        client.score("red", ["red"])


@pytest.mark.parametrize("address", ["closed_address", "rest_address"])
def test_a_server_that_does_not_respond_is_an_error_with_a_remedy(request, address):
    address = request.getfixturevalue(address)
    with Client(address, "tiny", timeout=60) as client, pytest.raises(ServingError) as caught:
        client.score("red", ["red"])
    assert caught.value.status == "UNAVAILABLE"
    message = str(caught.value)
    assert message.startswith(f"score of model tiny at {address}: UNAVAILABLE: ")
    assert message.endswith("(usual port: 8500).")
    assert "\n" not in message


def test_an_error_is_one_short_line_for_any_message_of_the_server():
    message = str(ServingError("score", "INTERNAL", "first\nsecond  third" + "." * 1000))
    assert message.startswith("score: INTERNAL: first second third")
    assert message.endswith(". See the server's log.")
    assert len(message) < 400


def test_a_slow_server_exceeds_the_deadline(grpc_address, ranker):
    ranker.may_answer.clear()
    with (
        Client(grpc_address, "tiny", timeout=0.2) as client,
        pytest.raises(ServingError, match="DEADLINE_EXCEEDED"),
    ):
        client.score("red", ["red"])


def test_the_error_of_a_batch_too_large_for_the_server_names_batch_size(grpc_address):
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
        (np.float32([[1], [np.nan]]), "are not finite"),
        (np.float32([[1], [-np.inf]]), "are not finite"),
    ],
)
def test_a_response_of_another_kind_of_model_is_an_error(client, ranker, values, problem):
    ranker.replacement = values
    with pytest.raises(ServingError, match=f"encode_title of model tiny.*{problem}") as caught:
        client.encode("title", ["red", "hat"])
    assert caught.value.status == "INVALID_RESPONSE"


def test_vectors_of_different_lengths_are_an_error(client, ranker):
    ranker.encode_queries = lambda texts, prior: np.ones((len(texts),) * 2, np.float32)
    assert client.encode("title", ["a"] * 4).shape == (4, 4)
    with pytest.raises(ServingError, match="INVALID_RESPONSE: embeddings: "):
        client.encode("title", ["a"] * 7)


def test_a_response_that_is_too_large_is_an_error(client, ranker):
    ranker.replacement = np.ones((1, 5_000_000), np.float32)
    with pytest.raises(ServingError, match=r"EXHAUSTED: .*Received message larger"):
        client.encode("title", ["a"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda client: client.score(["a", "b"], ["c", "d", "e"]),
            "queries has 2 texts and titles 3; expected the same number of both",
        ),
        (lambda client: client.score("a", "title"), "titles is a single str; expected a list"),
        (lambda client: client.encode("query", "abc"), "queries is a single str"),
        (lambda client: client.score("a", None), "titles is None; expected a list of str"),
        (lambda client: client.score(None, ["a"]), "queries is None; expected a list of str"),
        (lambda client: client.encode("title", {"a"}), "titles is {'a'}; expected a list"),
        (lambda client: client.encode("titles", ["a"]), "side is 'titles'; expected query or"),
    ],
)
def test_invalid_arguments_are_rejected_before_a_request(client, ranker, call, message):
    with pytest.raises(ValueError, match=message):
        call(client)
    assert ranker.requests == []


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_an_impossible_batch_size_is_a_value_error_that_names_it(size):
    with pytest.raises(ValueError, match=rf"batch_size is {size}; expected a whole number above 0"):
        Client("127.0.0.1:1", "tiny", batch_size=size)


def test_a_title_that_is_no_text_is_a_value_error_that_names_it(client):
    with pytest.raises(ValueError, match=r"titles\[1\] is None; expected a str"):
        client.score("red", ["red", None])
