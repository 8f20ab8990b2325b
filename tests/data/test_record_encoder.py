"""The encoder writes what one writes without remembering anything, number by number."""

from __future__ import annotations

import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.data.example_pb2 import Example
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.data.schema import FEATURES, Title
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.rules import FOLDED, Rules
from dssm_tf.text.vocabulary import Vocabulary

WORDS = ["cat", "dogs", "a", "ice", "Cream", "naïve", "東京", "!!", "", "x" * 100, "␟"]
TEXTS = st.one_of(st.text(max_size=20), st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join))
COUNTS = st.integers(0, 2**40)


def vocabulary(buckets: int, max_words: int = 64, own_fields: int = 1) -> Vocabulary:
    rules = Rules(False, max_words, 20, buckets, own_fields=own_fields)
    return Vocabulary(["#ca", "cat", "at#", "#do", "ogs", "xxx", "#a#", "1cat", "2#a#"], rules)


def plainly(query, titles, clicks, vocabulary) -> Example:
    """The record by its definition in `FEATURES`."""
    query_words = vocabulary.words(query)
    title_words = [vocabulary.words(title.text) for title in titles]
    all_words = [word for one in title_words for word in one]
    values = {
        "query": [query.encode("utf-8", "replace")],
        "titles": [title.text.encode("utf-8", "replace") for title in titles],
        "clicks": [clicks],
        "query_id": [FOLDED.id(query)],
        "title_ids": [FOLDED.id(title.text) for title in titles],
        "title_clicks": [title.clicks for title in titles],
        "title_queries": [title.queries for title in titles],
        "query_words": map(fingerprint64, query_words),
        "query_word_ngrams": [len(vocabulary.ngram_ids(word)) for word in query_words],
        "query_ngrams": [i for word in query_words for i in vocabulary.ngram_ids(word)],
        "title_lengths": map(len, title_words),
        "title_words": map(fingerprint64, all_words),
        "title_word_ngrams": [len(vocabulary.ngram_ids(word)) for word in all_words],
        "title_ngrams": [i for word in all_words for i in vocabulary.ngram_ids(word)],
    }
    example = Example()
    for name, feature in FEATURES.items():
        stored = getattr(example.features.feature[name], f"{feature.kind}_list")
        stored.SetInParent()
        stored.value.extend(values[name])
    return example


@given(
    query=TEXTS,
    titles=st.lists(st.builds(Title, TEXTS, COUNTS, COUNTS), max_size=6),
    clicks=st.integers(0, 2**40),
    buckets=st.sampled_from([0, 3, 500]),
    max_words=st.sampled_from([2, 64]),
    own_fields=st.sampled_from([1, 3]),
)
def test_a_record_is_its_features(query, titles, clicks, buckets, max_words, own_fields):
    words = vocabulary(buckets, max_words, own_fields)
    encoded = RecordEncoder(words).encode(query, titles, clicks)
    assert Example.FromString(encoded) == plainly(query, titles, clicks, words)


def test_features_are_in_the_order_of_their_names():
    encoded = RecordEncoder(vocabulary(0)).encode("cat", [Title("dogs", 1, 1)], 1)
    names = sorted(Example.FromString(encoded).features.feature)
    assert names == list(FEATURES)
    places = [encoded.index(b"\x0a" + bytes([len(name)]) + name.encode()) for name in names]
    assert places == sorted(places)


EXAMPLES = [(f"cat {n % 3}", [Title(f"dogs {n % 5}", n, 1)] * (n % 4), n) for n in range(40)]


def test_a_remembered_text_is_encoded_as_the_first_time():
    words = vocabulary(0)
    encoder = RecordEncoder(words, cached_texts=2)
    fresh = [RecordEncoder(words).encode(*one) for one in EXAMPLES]
    assert [encoder.encode(*one) for one in EXAMPLES] == fresh


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_an_encoder_does_not_keep_what_it_encoded():
    """Resident memory of this process, which grew by each record's bytes: 3 kB times 40,000."""
    title = Title("cat dogs ice " * 20, 1, 1)
    encoder = RecordEncoder(vocabulary(0, max_words=64))

    def encode(records: int) -> int:
        for number in range(records):
            encoder.encode("cat", [title] * 4, number)
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = encode(4000)
    assert len(encoder.encode("cat", [title] * 4, 1)) > 2000
    assert encode(40_000) - before < 20 << 20


def test_threads_that_share_an_encoder_write_what_one_thread_writes():
    encoder = RecordEncoder(vocabulary(0))
    alone = [encoder.encode(*one) for one in EXAMPLES] * 20
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(lambda one: encoder.encode(*one), EXAMPLES * 20))
    finally:
        sys.setswitchinterval(before)
    assert together == alone


def test_every_feature_says_what_it_is():
    assert {one.kind for one in FEATURES.values()} == {"bytes", "float", "int64"}
    tf = pytest.importorskip("tensorflow")
    encoded = RecordEncoder(vocabulary(0)).encode("cat", [Title("dogs"), Title("a")], 2)
    stored = tf.train.Example.FromString(encoded).features.feature
    assert set(stored) == set(FEATURES)
    for name, feature in FEATURES.items():
        assert stored[name].WhichOneof("kind") == f"{feature.kind}_list"
        if feature.single:
            assert len(getattr(stored[name], f"{feature.kind}_list").value) == 1
