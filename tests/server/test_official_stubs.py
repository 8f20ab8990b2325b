"""Clients that use TensorFlow Serving's generated classes work with this server."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
import tensorflow as tf

from tests.server.conftest import QUERIES, TITLES

pytest.importorskip("tensorflow_serving", reason="tensorflow-serving-api is not installed")
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel


@pytest.fixture(scope="module")
def prediction(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def request_of(signature: str = "", **inputs) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "pets"
    request.model_spec.signature_name = signature
    for name, texts in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(texts))
    return request


@pytest.mark.parametrize(
    ("signature", "inputs"),
    [
        ("score", {"queries": QUERIES, "titles": TITLES}),
        ("", {"queries": QUERIES[:1], "titles": TITLES}),
        ("encode_query", {"queries": QUERIES}),
        ("encode_title", {"titles": ["same"] * 4}),
    ],
)
def test_predict_returns_the_outputs_of_the_saved_model(signatures, prediction, signature, inputs):
    request = request_of(signature, **inputs)
    request.model_spec.version.value = 2
    answer = prediction.Predict(request, timeout=60)
    tensors = {name: tf.constant(texts) for name, texts in inputs.items()}
    expected = signatures[signature or "serving_default"](**tensors)
    assert set(answer.outputs) == set(expected)
    for name, values in expected.items():
        array = tf.make_ndarray(answer.outputs[name])
        assert np.allclose(array, values.numpy(), atol=1e-6)
        # Many clients read only this field.
        assert list(answer.outputs[name].float_val) == array.ravel().tolist()
    spec = answer.model_spec
    assert (spec.name, spec.version.value) == ("pets", 2)
    assert spec.signature_name == (signature or "serving_default")


def titles(values=TITLES, **spec) -> predict_pb2.PredictRequest:
    """A request to score titles, or other values as the input `titles`."""
    request = request_of("score", queries=QUERIES, titles=values)
    request.model_spec.MergeFrom(type(request.model_spec)(**spec))
    return request


def request_with_a_false_shape() -> predict_pb2.PredictRequest:
    """A request whose shape claims 2**40 titles."""
    request = titles()
    request.inputs["titles"].tensor_shape.dim[0].size = 1 << 40
    return request


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (request_of(), "INVALID_ARGUMENT", "expected queries and titles"),
        (titles(name="pest"), "NOT_FOUND", "choose from pets"),
        (titles(version={"value": 1}), "NOT_FOUND", "version 1 of pets is not served"),
        (titles(version_label="x"), "NOT_FOUND", "version x of pets is not served"),
        (titles([1.0, 2.0, 3.0]), "INVALID_ARGUMENT", "titles: expected DT_STRING"),
        (titles([["a"], ["b"], ["c"]]), "INVALID_ARGUMENT", "titles: expected DT_STRING"),
        (request_with_a_false_shape(), "INVALID_ARGUMENT", "and n texts"),
        (titles(["a"] * 9), "INVALID_ARGUMENT", "titles: 9 texts; at most 8 are allowed"),
        (titles(["b" * 4000]), "RESOURCE_EXHAUSTED", "4000"),
    ],
)
def test_the_error_for_an_invalid_request_names_the_field(prediction, request_, status, words):
    with pytest.raises(grpc.RpcError) as error:
        prediction.Predict(request_, timeout=60)
    assert (error.value.code().name, words in error.value.details()) == (status, True)
    assert "\n" not in error.value.details()


def test_other_calls_are_unimplemented(prediction):
    with pytest.raises(grpc.RpcError) as error:
        prediction.Classify(classification_pb2.ClassificationRequest(), timeout=60)
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


def metadata_of(prediction, fields=("signature_def",), **spec):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.name = "pets"
    request.model_spec.MergeFrom(type(request.model_spec)(**spec))
    return prediction.GetModelMetadata(request, timeout=60)


def test_metadata_has_the_signatures_of_the_saved_model(signatures, prediction):
    answer = metadata_of(prediction)
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("pets", 2)
    assert list(answer.metadata) == ["signature_def"]
    definitions = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(definitions)
    assert set(definitions.signature_def) == set(signatures)
    for name, definition in definitions.signature_def.items():
        _, inputs = signatures[name].structured_input_signature
        outputs = signatures[name].structured_outputs
        assert definition.method_name == "tensorflow/serving/predict"
        for infos, specs in ((definition.inputs, inputs), (definition.outputs, outputs)):
            assert set(infos) == set(specs)
            for key, info in infos.items():
                assert info.dtype == specs[key].dtype.as_datatype_enum
                shape = tf.TensorShape(info.tensor_shape)
                assert shape.as_list() == specs[key].shape.as_list(), (name, key)


def statuses_of(channel, **spec):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.MergeFrom(type(request.model_spec)(**spec))
    status = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request, timeout=60)
    return [(row.version, row.state, row.status.error_code) for row in status.model_version_status]


def test_the_status_lists_the_served_version(channel):
    available = get_model_status_pb2.ModelVersionStatus.State.AVAILABLE
    assert statuses_of(channel, name="pets") == [(2, available, 0)]
    assert statuses_of(channel, name="pets", version={"value": 2}) == [(2, available, 0)]


def test_metadata_and_status_of_an_unknown_model_or_version_are_not_found(channel, prediction):
    for call in (
        lambda: statuses_of(channel, name="pest"),
        lambda: statuses_of(channel, name="pets", version={"value": 7}),
        lambda: metadata_of(prediction, name="pest"),
        lambda: metadata_of(prediction, version={"value": 7}),
    ):
        with pytest.raises(grpc.RpcError) as error:
            call()
        assert error.value.code() == grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as error:
        metadata_of(prediction, ["other"])
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "metadata_field" in error.value.details()
