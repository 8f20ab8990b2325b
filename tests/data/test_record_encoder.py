"""The fast encoder writes the message of `ClickExample.serialize`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.data.example_proto import Example
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.data.schema import ClickExample, Title
from dssm_tf.text.vocabulary import TextLimits, Vocabulary

WORDS = ["cat", "dogs", "a", "ice", "Cream", "naïve", "東京", "!!", "", "x" * 100]
TEXTS = st.one_of(st.text(max_size=20), st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join))
COUNTS = st.integers(0, 2**40)
INT64 = st.integers(-(2**63), 2**63 - 1)


def vocabulary(buckets: int, max_words: int = 64) -> Vocabulary:
    limits = TextLimits(max_words=max_words, max_letters=20, hash_buckets=buckets)
    return Vocabulary(["#ca", "cat", "at#", "#do", "ogs", "xxx", "#a#"], limits)


@given(
    query=TEXTS,
    titles=st.lists(st.builds(Title, TEXTS, COUNTS, COUNTS), max_size=6),
    clicks=st.integers(0, 2**40),
    clicked_ids=st.lists(INT64, max_size=40),
    buckets=st.sampled_from([0, 3, 500]),
    max_words=st.sampled_from([2, 64]),
)
def test_the_encoder_writes_the_message_that_serialize_writes(
    query, titles, clicks, clicked_ids, buckets, max_words
):
    words = vocabulary(buckets, max_words)
    example = ClickExample(query, titles, clicks, clicked_ids)
    encoded, reference = RecordEncoder(words).encode(example), example.serialize(words)
    # Equal but for the order of the features, which protobuf leaves open.
    assert len(encoded) == len(reference)
    assert Example.FromString(encoded).SerializeToString(deterministic=True) == reference


def test_features_are_in_the_order_of_their_names():
    words = vocabulary(0)
    encoded = RecordEncoder(words).encode(ClickExample("cat", [Title("dogs", 1, 1)], 1, [7]))
    names = sorted(Example.FromString(encoded).features.feature)
    places = [encoded.index(b"\x0a" + bytes([len(name)]) + name.encode()) for name in names]
    assert places == sorted(places)


def test_a_remembered_text_is_encoded_as_the_first_time():
    words = vocabulary(0)
    encoder = RecordEncoder(words, cached_texts=2)
    examples = [
        ClickExample(f"cat {n % 3}", [Title(f"dogs {n % 5}", n, 1)], n, [n]) for n in range(40)
    ]
    fresh = [RecordEncoder(words).encode(one) for one in examples]
    assert [encoder.encode(one) for one in examples] == fresh
