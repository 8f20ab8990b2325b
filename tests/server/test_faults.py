"""Invalid requests get one-line errors and do not stop the server; see also benchmarks/hostile."""

from __future__ import annotations

import logging

import pytest

from tests.server import faults
from tests.server.asking import rest
from tests.server.faults import Target


@pytest.fixture(scope="module")
def target(server):
    return Target(server.grpc_address, server.rest_address, "pets")


@pytest.fixture(autouse=True)
def quiet(caplog):
    """Client errors write nothing to the log of the server."""
    with caplog.at_level(logging.WARNING):
        yield
    assert caplog.messages == []


def test_malformed_bodies_are_answered_or_refused(target):
    assert faults.send_malformed_bodies(target, 100)["400"] > 50


def test_malformed_messages_are_answered_or_refused(target):
    assert faults.send_malformed_messages(target, 100)["INVALID_ARGUMENT"] > 20


@pytest.mark.parametrize("send", [faults.send_invalid_utf8, faults.send_long_heads])
def test_invalid_utf8_and_long_heads_are_refused(target, send):
    send(target, 5)


def test_dropped_connections_do_not_affect_other_clients(target):
    faults.drop_connections(target, 40)
    # A closed connection is not counted as a failure of the model.
    assert "INTERNAL" not in rest(target.rest, "/metrics")[1]
