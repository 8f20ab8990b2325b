"""Our messages and the generated classes of TensorFlow Serving write and read the same bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving import messages, predict_pb2
from serving.client import Client, ServingError


@pytest.fixture(scope="module")
def apis():
    """The generated classes; importing them imports TensorFlow."""
    pytest.importorskip("tensorflow_serving", reason="tensorflow-serving-api is not installed")
    from tensorflow_serving import apis
    from tensorflow_serving.apis import (  # noqa: F401
        get_model_status_pb2,
        model_service_pb2_grpc,
        predict_pb2,
        prediction_service_pb2_grpc,
    )

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
    assert messages.decode_texts(ours.inputs["queries"]) == [b"red", b"hat"]
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


@pytest.mark.parametrize("sizes", [[], [10**18], [2, 2], [-1], [1] * 40, [3]])
def test_a_shape_that_was_not_asked_for_is_an_error(sizes):
    dims = {"dim": [{"size": size} for size in sizes]}
    floats = predict_pb2.Tensor(dtype=1, float_val=[1], tensor_shape=dims)
    for dimensions in (1, 2):
        with pytest.raises(ValueError, match="expected DT_FLOAT of the shape"):
            messages.decode_floats(floats, 3, dimensions)
    texts = predict_pb2.Tensor(dtype=7, string_val=[b"a"], tensor_shape=dims)
    with pytest.raises(ValueError, match="expected DT_STRING"):
        messages.decode_texts(texts)


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_texts_survive_the_round_trip(texts):
    raw = messages.encode_texts(texts).SerializeToString()
    back = messages.decode_texts(predict_pb2.Tensor.FromString(raw))
    assert [one.decode("utf-8", "surrogatepass") for one in back] == texts


def test_states_are_those_of_tensorflow_serving(apis):
    states = apis.get_model_status_pb2.ModelVersionStatus.State
    ours = predict_pb2.ModelVersionStatus.State
    assert ours.items() == states.items()


@pytest.fixture
def generated_server(apis):
    """A server made of nothing but the generated classes: model lstm, scores 0.5, 1.5, ..."""
    import tensorflow as tf

    class Prediction(apis.prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            if request.model_spec.name != "lstm":
                context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found")
            response = apis.predict_pb2.PredictResponse()
            response.model_spec.CopyFrom(request.model_spec)
            titles = tf.make_ndarray(request.inputs["titles"])
            values = np.arange(len(titles), dtype=np.float32) + 0.5
            if request.model_spec.signature_name == "score":
                tensor = tf.make_tensor_proto(values)
                response.outputs["scores"].CopyFrom(tensor)
            else:
                rows = [[len(title)] * 3 for title in titles]
                response.outputs["embeddings"].CopyFrom(tf.make_tensor_proto(rows, tf.float32))
            return response

    class Model(apis.model_service_pb2_grpc.ModelServiceServicer):
        def GetModelStatus(self, request, context):
            response = apis.get_model_status_pb2.GetModelStatusResponse()
            loading = response.model_version_status.add(version=2, state="LOADING")
            loading.status.error_message = "not yet"
            response.model_version_status.add(version=1, state="AVAILABLE")
            return response

    server = grpc.server(ThreadPoolExecutor(2))
    apis.prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Prediction(), server)
    apis.model_service_pb2_grpc.add_ModelServiceServicer_to_server(Model(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_the_client_talks_to_a_server_of_the_generated_classes(generated_server):
    with Client(generated_server, "lstm") as client:
        np.testing.assert_array_equal(client.score("q", ["a", "b", "c"]), [0.5, 1.5, 2.5])
        # All three titles have two bytes: the values of the answer are equal.
        np.testing.assert_array_equal(
            client.encode_titles(["ab", "cd"], prior=True), np.full((2, 3), 2)
        )
        assert client.status() == [(2, "LOADING", "not yet"), (1, "AVAILABLE", "")]
    with Client(generated_server, "dssm") as client, pytest.raises(ServingError, match="NOT_FOUND"):
        client.score("q", ["a"])
