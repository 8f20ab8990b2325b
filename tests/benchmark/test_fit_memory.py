"""Memory of a fit that tries many settings."""

from __future__ import annotations

import weakref

from dssm_tf.baselines.bm25 import BM25
from tests.benchmark.colors import benchmark


class Encoded:
    """Encoded titles that can be watched."""

    def __init__(self, value) -> None:
        self.value = value


def test_only_one_setting_of_a_baseline_has_its_encoded_titles_in_memory(
    monkeypatch, tmp_path, folder
):
    encode_titles, score = BM25._encode_titles, BM25._score
    in_memory, counts = weakref.WeakSet(), []

    def encode(model, titles):
        encoded = Encoded(encode_titles(model, titles))
        in_memory.add(encoded)
        counts.append(len(in_memory))
        return encoded

    monkeypatch.setattr(BM25, "_encode_titles", encode)
    monkeypatch.setattr(
        BM25, "_score", lambda model, queries, encoded: score(model, queries, encoded.value)
    )
    benchmark(folder, "--systems", "bm25", "--out", str(tmp_path))
    assert len(counts) > 20  # one per setting
    assert max(counts) <= 2  # the first model has encoded titles, too, with its own parameters
