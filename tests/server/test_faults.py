"""The server goes on, and says why, whatever clients do; `tests.benchmarks.hostile` does more."""

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
    """What a client does wrong is no event of the server: it fills no log."""
    with caplog.at_level(logging.WARNING):
        yield
    assert caplog.messages == []


def test_malformed_bodies_are_answered_or_refused(target):
    assert faults.malformed_bodies(target, 100)["400"] > 50


def test_malformed_messages_are_answered_or_refused(target):
    assert faults.malformed_messages(target, 100)["INVALID_ARGUMENT"] > 20


@pytest.mark.parametrize("what", [faults.invalid_utf8, faults.long_heads])
def test_what_is_no_request_is_refused(target, what):
    what(target, 5)


def test_dropped_connections_cost_others_nothing(target):
    faults.dropped(target, 40)
    # A client that went is no failure of the model.
    assert "INTERNAL" not in rest(target.rest, "/metrics")[1]
