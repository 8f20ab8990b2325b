"""Our messages and the generated classes of TensorFlow Serving write and read the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving import messages, predict_pb2


@pytest.fixture(scope="module")
def apis():
    """The generated classes; importing them imports TensorFlow."""
    pytest.importorskip("tensorflow_serving", reason="tensorflow-serving-api is not installed")
    from tensorflow_serving import apis
    from tensorflow_serving.apis import predict_pb2  # noqa: F401

    return apis


def our_request():
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "lstm"
    request.model_spec.version.value = 7
    request.model_spec.signature_name = "score"
    request.inputs["queries"].CopyFrom(messages.encode_texts(["red shoes", "", "\u6771\u4eac"]))
    request.inputs["titles"].CopyFrom(messages.encode_texts(["a", "b\x00", "\ud800"]))
    return request


def test_the_generated_class_reads_our_request(apis):
    import tensorflow as tf

    raw = our_request().SerializeToString(deterministic=True)
    theirs = apis.predict_pb2.PredictRequest.FromString(raw)
    assert theirs.model_spec.name == "lstm"
    assert theirs.model_spec.version.value == 7
    assert theirs.model_spec.signature_name == "score"
    queries = tf.make_ndarray(theirs.inputs["queries"])
    assert queries.tolist() == [b"red shoes", b"", "\u6771\u4eac".encode()]
    assert tf.make_ndarray(theirs.inputs["titles"]).tolist() == [b"a", b"b\x00", b"\xed\xa0\x80"]
    # Every field was known to them, under the same number and type.
    assert theirs.SerializeToString(deterministic=True) == raw


def test_our_class_reads_the_generated_request(apis):
    import tensorflow as tf

    theirs = apis.predict_pb2.PredictRequest()
    theirs.model_spec.name = "lstm"
    theirs.model_spec.version_label = "canary"
    theirs.inputs["queries"].CopyFrom(tf.make_tensor_proto(["red", "hat"]))
    raw = theirs.SerializeToString(deterministic=True)
    ours = predict_pb2.PredictRequest.FromString(raw)
    assert ours.model_spec.version_label == "canary"
    assert not ours.model_spec.HasField("version")
    assert messages.decode_texts(ours.inputs["queries"], 2) == [b"red", b"hat"]
    assert ours.SerializeToString(deterministic=True) == raw


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (3, 1)])
def test_floats_agree_both_ways(apis, shape):
    import tensorflow as tf

    for array in (np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.ones(shape)):
        theirs = tf.make_tensor_proto(array, tf.float32).SerializeToString()
        found = messages.decode_floats(predict_pb2.Tensor.FromString(theirs), shape[0], len(shape))
        np.testing.assert_array_equal(found, array)
        assert found.dtype == np.float32
        raw = messages.encode_floats(array.astype(np.float32)).SerializeToString()
        back = tf.make_ndarray(tf.make_tensor_proto(array).FromString(raw))
        np.testing.assert_array_equal(back, array)


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_texts_survive_the_round_trip(texts):
    raw = messages.encode_texts(texts).SerializeToString()
    back = messages.decode_texts(predict_pb2.Tensor.FromString(raw), len(texts))
    assert [one.decode("utf-8", "surrogatepass") for one in back] == texts
