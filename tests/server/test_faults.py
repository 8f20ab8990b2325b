"""The server goes on, and says why, whatever clients do; `tests.benchmarks.faults` does more."""

from __future__ import annotations

import logging

import pytest

from dssm_tf.server.models import Model
from dssm_tf.server.sources import Source
from tests.server import faults
from tests.server.faults import Target


@pytest.fixture(scope="module")
def target(server):
    return Target(server.grpc_address, server.rest_address, "pets")


@pytest.fixture(autouse=True)
def quiet(caplog):
    """What a client does wrong is no event of the server: it fills no log."""
    with caplog.at_level(logging.WARNING):
        yield
    logged = [one.getMessage() for one in caplog.records if one.name != "uvicorn.error"]
    assert logged == []


def test_malformed_bodies_are_answered_or_refused(target):
    found = faults.malformed_bodies(target, 100)
    assert found["400"] > 50


def test_malformed_messages_are_answered_or_refused(target):
    found = faults.malformed_messages(target, 100)
    assert found["INVALID_ARGUMENT"] > 20


def test_texts_that_are_no_utf8_are_answered(target):
    faults.invalid_utf8(target, 5)


def test_what_is_too_large_is_refused(target):
    faults.oversized(target, 1, body=4000, text=100, batch=8)


def test_dropped_connections_cost_others_nothing(target):
    faults.dropped(target, 40)


def test_slow_clients_cost_others_nothing(exports, server_of):
    with server_of(Model("pets", Source(exports / "pets")), timeout=0.4) as server:
        slow = Target(server.grpc_address, server.rest_address, "pets")
        assert faults.slow_senders(slow, 10, timeout=0.4) < 30
        assert faults.slow_readers(slow, 3, texts=4000) < 30
