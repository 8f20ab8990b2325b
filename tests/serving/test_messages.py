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
    request.inputs["queries"].CopyFrom(messages.encode_tensor(["red shoes", "", "\u6771\u4eac"]))
    request.inputs["titles"].CopyFrom(messages.encode_tensor(["a", "b\x00", "\ud800"]))
    request.output_filter.append("scores")
    return request


def test_the_generated_class_reads_our_request(apis):
    import tensorflow as tf

    raw = our_request().SerializeToString(deterministic=True)
    theirs = apis.predict_pb2.PredictRequest.FromString(raw)
    assert theirs.model_spec.name == "lstm"
    assert theirs.model_spec.version.value == 7
    assert theirs.model_spec.signature_name == "score"
    assert list(theirs.output_filter) == ["scores"]
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
    assert messages.decode_tensor(ours.inputs["queries"], 1000).tolist() == [b"red", b"hat"]
    assert ours.SerializeToString(deterministic=True) == raw


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 3), (0, 5)])
def test_numeric_tensors_agree_both_ways(apis, dtype, shape):
    import tensorflow as tf

    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    ours = predict_pb2.Tensor.FromString(tf.make_tensor_proto(array).SerializeToString())
    np.testing.assert_array_equal(messages.decode_tensor(ours, 1000), array)
    assert messages.decode_tensor(ours, 1000).dtype == array.dtype
    raw = messages.encode_tensor(array).SerializeToString()
    theirs = tf.make_ndarray(tf.make_tensor_proto(array).FromString(raw))
    np.testing.assert_array_equal(theirs, array)
    assert theirs.dtype == array.dtype


def test_values_are_also_read_from_their_own_field():
    # TensorFlow Serving answers with float_val, not with tensor_content.
    tensor = predict_pb2.Tensor(dtype=1, float_val=[1, 2, 3, 4])
    tensor.tensor_shape.dim.add(size=2)
    tensor.tensor_shape.dim.add(size=2)
    np.testing.assert_array_equal(messages.decode_tensor(tensor, 1000), [[1, 2], [3, 4]])


def test_left_out_repetitions_of_the_last_value_are_restored():
    tensor = predict_pb2.Tensor(dtype=1, float_val=[1, 2])
    tensor.tensor_shape.dim.add(size=4)
    np.testing.assert_array_equal(messages.decode_tensor(tensor, 1000), [1, 2, 2, 2])


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"dtype": 18}, "type number 18"),
        ({"dtype": 1, "tensor_shape": {"unknown_rank": True}}, "unknown rank"),
        ({"dtype": 1, "tensor_shape": {"dim": [{"size": 2}]}}, r"0 values .* shape \(2,\)"),
        ({"dtype": 1, "float_val": [1, 2, 3], "tensor_shape": {"dim": [{"size": 2}]}}, "3 values"),
    ],
)
def test_a_tensor_that_cannot_be_read_is_an_error(tensor, message):
    with pytest.raises(ValueError, match=message):
        messages.decode_tensor(predict_pb2.Tensor(**tensor), 1000)


@pytest.mark.parametrize("shape", [[10**18], [2**62, 4], [-1], [0, -5], [40, 41]])
def test_a_shape_that_claims_more_than_was_asked_for_is_an_error(shape):
    tensor = predict_pb2.Tensor(dtype=1, float_val=[1])
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    with pytest.raises(ValueError, match="expected 1,600 values at most"):
        messages.decode_tensor(tensor, 1600)


def test_text_arrays_are_not_taken_for_numbers():
    with pytest.raises(ValueError, match="cannot encode an array of <U3"):
        messages.encode_tensor(np.array(["red"]))


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_texts_survive_the_round_trip(texts):
    raw = messages.encode_tensor(texts).SerializeToString()
    back = messages.decode_tensor(predict_pb2.Tensor.FromString(raw), 1000).tolist()
    assert [one.decode("utf-8", "surrogatepass") for one in back] == texts


def test_states_are_those_of_tensorflow_serving(apis):
    states = apis.get_model_status_pb2.ModelVersionStatus.State
    ours = predict_pb2.ModelVersionStatus.State
    assert ours.items() == states.items()
    for number, name in [*zip(states.values(), states.keys(), strict=True), (77, "UNKNOWN")]:
        assert messages.state_name(predict_pb2.ModelVersionStatus(state=number)) == name


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
        np.testing.assert_array_equal(client.encode_titles(["ab", "cd"]), np.full((2, 3), 2))
        assert client.status() == [(2, "LOADING", "not yet"), (1, "AVAILABLE", "")]
    with Client(generated_server, "dssm") as client, pytest.raises(ServingError, match="NOT_FOUND"):
        client.score("q", ["a"])
