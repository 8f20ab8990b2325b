"""A client of TensorFlow Serving's generated classes cannot tell this server from it."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow.core.protobuf import saved_model_pb2

from dssm_tf.export.saved_model import load_export
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
        ("encode_title", {"titles": TITLES[:1]}),
    ],
)
def test_predict_answers_what_the_saved_model_does(exports, prediction, signature, inputs):
    answer = prediction.Predict(request_of(signature, **inputs), timeout=60)
    model = load_export(exports / "pets" / "2")
    given = {name: tf.constant(texts) for name, texts in inputs.items()}
    wanted = model.signatures[signature or "serving_default"](**given)
    assert set(answer.outputs) == set(wanted)
    for name, values in wanted.items():
        assert np.array_equal(tf.make_ndarray(answer.outputs[name]), values.numpy())
        # Many clients read this field and no other.
        assert list(answer.outputs[name].float_val) == values.numpy().ravel().tolist()
    spec = answer.model_spec
    assert (spec.name, spec.version.value) == ("pets", 2)
    assert spec.signature_name == (signature or "serving_default")


def test_outputs_can_be_chosen_and_the_version_named(prediction):
    request = request_of("encode_query", queries=QUERIES)
    request.output_filter.append("embeddings")
    request.model_spec.version.value = 2
    assert set(prediction.Predict(request, timeout=60).outputs) == {"embeddings"}


def test_the_metadata_are_the_signatures_of_the_file(exports, prediction):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "pets"
    request.metadata_field.append("signature_def")
    answer = prediction.GetModelMetadata(request, timeout=60)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(found)
    raw = (exports / "pets" / "2" / "saved_model.pb").read_bytes()
    saved = saved_model_pb2.SavedModel.FromString(raw).meta_graphs[0].signature_def
    assert {name: found.signature_def[name] for name in saved} == dict(saved)
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("pets", 2)


def test_the_status_tells_of_the_version_that_answers(models):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "pets"
    (one,) = models.GetModelStatus(request, timeout=60).model_version_status
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert (one.version, one.state, one.status.error_code) == (2, available, 0)
    request.model_spec.version.value = 2
    assert models.GetModelStatus(request, timeout=60).model_version_status == [one]


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


def one_more(request):
    request.inputs["more"].CopyFrom(tf.make_tensor_proto(["a"]))


def a_version(request):
    request.model_spec.version.value = 1


@pytest.mark.parametrize(
    ("make", "status", "words"),
    [
        (lambda: request_of(), "INVALID_ARGUMENT", "inputs are []"),
        (changed(lambda r: r.model_spec.ClearField("name")), "INVALID_ARGUMENT", "model_spec.name"),
        (changed(lambda r: r.model_spec.MergeFrom(type(r.model_spec)(name="pest"))), "NOT_FOUND",
         "Did you mean 'pets'?"),
        (changed(a_version), "NOT_FOUND", "version"),
        (changed(lambda r: r.model_spec.MergeFrom(type(r.model_spec)(version_label="x"))),
         "INVALID_ARGUMENT", "version_label"),
        (lambda: request_of("scores", queries=QUERIES, titles=TITLES), "FAILED_PRECONDITION",
         "Did you mean 'score'?"),
        (lambda: request_of("score", queries=QUERIES), "INVALID_ARGUMENT", "['queries', 'titles']"),
        (changed(one_more), "INVALID_ARGUMENT", "'more'"),
        (changed(of_numbers), "INVALID_ARGUMENT", "inputs['titles'] is DT_FLOAT (3,)"),
        (changed(of_rank_2), "INVALID_ARGUMENT", "inputs['titles'] is DT_STRING (3, 1)"),
        (lambda: request_of("score", queries=QUERIES[:2], titles=TITLES), "INVALID_ARGUMENT",
         "2 queries and 3 titles"),
        (changed(lambda r: r.output_filter.append("score")), "INVALID_ARGUMENT", "['scores']"),
        (changed(lambda r: r.output_filter.extend(["scores"] * 2)), "INVALID_ARGUMENT", "once"),
        (lambda: request_of("encode_title", titles=["a"] * 9), "INVALID_ARGUMENT",
         "inputs['titles'] holds 9 texts, more than max_batch_size, 8"),
        (lambda: request_of("encode_title", titles=["a", "b" * 101]), "INVALID_ARGUMENT",
         "inputs['titles'][1] has 101 bytes, more than max_text_bytes, 100"),
        (lambda: request_of("encode_title", titles=["b" * 4000]), "RESOURCE_EXHAUSTED", "4000"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_answered_has_the_status_of_tensorflow_serving(
    prediction, make, status, words
):
    with pytest.raises(grpc.RpcError) as caught:
        prediction.Predict(make(), timeout=60)
    assert (caught.value.code().name, words in caught.value.details()) == (status, True)
    assert "\n" not in caught.value.details()


def test_a_shape_that_claims_more_than_it_has_is_refused(prediction):
    request = request_of("encode_title", titles=["a"])
    request.inputs["titles"].tensor_shape.dim[0].size = 1 << 40
    with pytest.raises(grpc.RpcError, match="more than max_batch_size"):
        prediction.Predict(request, timeout=60)


def test_other_calls_are_unimplemented(prediction):
    with pytest.raises(grpc.RpcError) as caught:
        prediction.Classify(classification_pb2.ClassificationRequest(), timeout=60)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("service", ["", "tensorflow.serving.PredictionService"])
def test_grpc_s_own_health_check_answers(channel, service):
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
