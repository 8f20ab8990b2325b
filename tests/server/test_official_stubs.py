"""A client of TensorFlow Serving's generated classes cannot tell this server from it."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.server.conftest import QUERIES, TITLES

pytest.importorskip("tensorflow_serving", reason="tensorflow-serving-api is not installed")
from tensorflow_serving.apis import (
    classification_pb2,
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


@pytest.fixture(scope="module")
def models(channel):
    return model_service_pb2_grpc.ModelServiceStub(channel)


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
def test_predict_answers_what_the_saved_model_does(signatures, prediction, signature, inputs):
    request = request_of(signature, **inputs)
    request.model_spec.version.value = 2
    answer = prediction.Predict(request, timeout=60)
    given = {name: tf.constant(texts) for name, texts in inputs.items()}
    expected = signatures[signature or "serving_default"](**given)
    assert set(answer.outputs) == set(expected)
    for name, values in expected.items():
        found = tf.make_ndarray(answer.outputs[name])
        assert np.allclose(found, values.numpy(), atol=1e-6)
        # Many clients read this field and no other.
        assert list(answer.outputs[name].float_val) == found.ravel().tolist()
    spec = answer.model_spec
    assert (spec.name, spec.version.value) == ("pets", 2)
    assert spec.signature_name == (signature or "serving_default")


def test_the_status_tells_of_the_version_that_answers(models):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "pets"
    (one,) = models.GetModelStatus(request, timeout=60).model_version_status
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert (one.version, one.state, one.status.error_code) == (2, available, 0)
    request.model_spec.version.value = 2
    assert models.GetModelStatus(request, timeout=60).model_version_status == [one]
    for change, status in (({"version": {"value": 7}}, "NOT_FOUND"), ({"name": "x"}, "NOT_FOUND")):
        other = get_model_status_pb2.GetModelStatusRequest()
        other.model_spec.MergeFrom(type(request.model_spec)(**{"name": "pets", **change}))
        with pytest.raises(grpc.RpcError) as caught:
            models.GetModelStatus(other, timeout=60)
        assert caught.value.code().name == status


def changed(change):
    def make():
        request = request_of("score", queries=QUERIES, titles=TITLES)
        change(request)
        return request

    return make


def of_numbers(request):
    request.inputs["titles"].CopyFrom(tf.make_tensor_proto([1.0, 2.0, 3.0]))


def of_rank_2(request):
    request.inputs["titles"].CopyFrom(tf.make_tensor_proto([["a"], ["b"], ["c"]]))


def claims_more(request):
    request.inputs["titles"].tensor_shape.dim[0].size = 1 << 40


def a_version(request):
    request.model_spec.version.value = 1


@pytest.mark.parametrize(
    ("make", "status", "words"),
    [
        (lambda: request_of(), "INVALID_ARGUMENT", "expected queries and titles"),
        (changed(lambda r: r.model_spec.MergeFrom(type(r.model_spec)(name="pest"))), "NOT_FOUND",
         "choose from pets"),
        (changed(a_version), "NOT_FOUND", "version 1 of pets is not served"),
        (changed(lambda r: r.model_spec.MergeFrom(type(r.model_spec)(version_label="x"))),
         "NOT_FOUND", "version x of pets is not served"),
        (changed(of_numbers), "INVALID_ARGUMENT", "titles: expected DT_STRING"),
        (changed(of_rank_2), "INVALID_ARGUMENT", "titles: expected DT_STRING"),
        (changed(claims_more), "INVALID_ARGUMENT", "and n texts"),
        (lambda: request_of("encode_title", titles=["a"] * 9), "INVALID_ARGUMENT",
         "titles: 9 texts, more than 8"),
        (lambda: request_of("encode_title", titles=["b" * 4000]), "RESOURCE_EXHAUSTED", "4000"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_answered_names_the_field(prediction, make, status, words):
    with pytest.raises(grpc.RpcError) as caught:
        prediction.Predict(make(), timeout=60)
    assert (caught.value.code().name, words in caught.value.details()) == (status, True)
    assert "\n" not in caught.value.details()


def test_other_calls_are_unimplemented(prediction):
    with pytest.raises(grpc.RpcError) as caught:
        prediction.Classify(classification_pb2.ClassificationRequest(), timeout=60)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("service", ["", "tensorflow.serving.PredictionService"])
def test_grpc_s_own_health_check_answers(channel, service):
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
