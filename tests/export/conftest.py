"""A click log with texts that are truncated and have trigrams outside the vocabulary."""

from __future__ import annotations

import pytest

from dssm_tf.text.rules import TextRules
from tests.clicks import Click, Data, write_data

LOG = [
    Click("fox", "Red Fox", 5),
    Click("owl", "green owl", 2),
    Click("bear", "black bear", 1),
    Click("tiger", "tíger & \U0001f405 / 虎", 1),
]
WEIGHT = 0.25  # of the log-prior


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Data:
    rules = TextRules(False, max_words=6, max_letters=9, hash_buckets=7)
    folder = tmp_path_factory.mktemp("clicks")
    return write_data(folder / "data", LOG, validation=(), negatives=1, rules=rules)
