"""Numbers of titles with a word, a pair or a letter n-gram, compared with sets in Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dssm_tf.data import frequencies as module
from dssm_tf.data.frequencies import count_document_frequencies, count_titles_of_ngrams
from dssm_tf.data.preprocessed import INT_LISTS
from dssm_tf.text.document_frequencies import DocumentFrequencies

NAMES = ["red", "fox", "owl", "hat", "tie"]
NGRAMS = [[1, 2, 2], [2, 3], [], [4], [1, 5]]


@pytest.fixture(scope="module")
def titles() -> list[list[int]]:
    rng = np.random.default_rng(1)
    return [rng.integers(len(NAMES), size=size).tolist() for size in rng.integers(0, 7, 50)]


def test_document_frequencies_of_indices_are_those_of_words(titles):
    received = count_document_frequencies(NAMES, pa.array(titles, INT_LISTS))
    expected = DocumentFrequencies.from_titles([[NAMES[word] for word in row] for row in titles])
    assert received == expected


def test_a_catalog_without_words_has_no_frequencies():
    received = count_document_frequencies([], pa.array([[], []], INT_LISTS))
    assert received == DocumentFrequencies(2, {}, {})
    assert count_titles_of_ngrams(pa.array([[]], INT_LISTS), pa.array([], INT_LISTS), 3).sum() == 0


def test_titles_of_ngrams_are_counted_once_in_blocks_of_titles(titles, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 7)
    sets = [{ngram for word in row for ngram in NGRAMS[word]} for row in titles]
    expected = [sum(ngram in row for row in sets) for ngram in range(7)]
    ngrams = pa.array(NGRAMS, INT_LISTS)
    assert count_titles_of_ngrams(pa.array(titles, INT_LISTS), ngrams, 7).tolist() == expected
