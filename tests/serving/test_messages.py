"""The package's messages and TensorFlow Serving's generated classes use the same bytes."""

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


def example_request():
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "lstm"
    request.model_spec.version.value = 7
    request.model_spec.signature_name = "score"
    request.inputs["queries"].CopyFrom(messages.encode_texts(["red shoes", "", "\u6771\u4eac"]))
    request.inputs["titles"].CopyFrom(messages.encode_texts(["a", "b\x00", "\ud800"]))
    return request


def test_the_generated_class_reads_the_package_s_request(apis):
    import tensorflow as tf

    raw = example_request().SerializeToString(deterministic=True)
    generated = apis.predict_pb2.PredictRequest.FromString(raw)
    assert generated.model_spec.name == "lstm"
    assert generated.model_spec.version.value == 7
    assert generated.model_spec.signature_name == "score"
    queries = tf.make_ndarray(generated.inputs["queries"])
    assert queries.tolist() == [b"red shoes", b"", "\u6771\u4eac".encode()]
    assert tf.make_ndarray(generated.inputs["titles"]).tolist() == [b"a", b"b\x00", b"\xed\xa0\x80"]
    # The generated class has every field, with the same number and type.
    assert generated.SerializeToString(deterministic=True) == raw


def test_the_package_s_class_reads_a_generated_request(apis):
    import tensorflow as tf

    generated = apis.predict_pb2.PredictRequest()
    generated.model_spec.name = "lstm"
    generated.model_spec.version_label = "canary"
    generated.inputs["queries"].CopyFrom(tf.make_tensor_proto(["red", "hat"]))
    raw = generated.SerializeToString(deterministic=True)
    request = predict_pb2.PredictRequest.FromString(raw)
    assert request.model_spec.version_label == "canary"
    assert not request.model_spec.HasField("version")
    assert messages.decode_texts(request.inputs["queries"], 2) == [b"red", b"hat"]
    assert request.SerializeToString(deterministic=True) == raw


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (3, 1)])
def test_floats_are_converted_equally_in_both_directions(apis, shape):
    import tensorflow as tf

    for array in (np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.ones(shape)):
        generated = tf.make_tensor_proto(array, tf.float32).SerializeToString()
        decoded = messages.decode_floats(
            predict_pb2.Tensor.FromString(generated), shape[0], len(shape)
        )
        np.testing.assert_array_equal(decoded, array)
        assert decoded.dtype == np.float32
        raw = messages.encode_floats(array.astype(np.float32)).SerializeToString()
        restored = tf.make_ndarray(tf.make_tensor_proto(array).FromString(raw))
        np.testing.assert_array_equal(restored, array)


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_texts_survive_the_round_trip(texts):
    raw = messages.encode_texts(texts).SerializeToString()
    restored = messages.decode_texts(predict_pb2.Tensor.FromString(raw), len(texts))
    assert [text.decode("utf-8", "surrogatepass") for text in restored] == texts
