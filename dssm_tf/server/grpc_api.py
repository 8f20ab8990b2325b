"""TensorFlow Serving's PredictionService and ModelService over gRPC, and gRPC's own health."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from dssm_tf.server.servable import Texts
from dssm_tf.server.service import Limits, Refusal, Service
from serving import messages, predict_pb2

_PREDICTION, _MODEL = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"
_METADATA = "signature_def"


def grpc_server(
    service: Service, pool: ThreadPoolExecutor
) -> tuple[grpc.Server, health.HealthServicer]:
    """A server of both services that does not listen yet, and what tells its health.

    Args:
        service: answers.
        pool: whose threads work.
    """
    about: dict[str, dict[str, tuple[_Answer, Any]]] = {
        _PREDICTION: {
            "Predict": (_predict, predict_pb2.PredictRequest),
            "GetModelMetadata": (_metadata, predict_pb2.GetModelMetadataRequest),
        },
        _MODEL: {"GetModelStatus": (_status, predict_pb2.GetModelStatusRequest)},
    }
    options = [
        ("grpc.so_reuseport", 0),  # else a second server would listen at the same port
        ("grpc.max_receive_message_length", service.limits.body_bytes),
        ("grpc.max_send_message_length", -1),
    ]
    server = grpc.server(pool, options=options)
    for name, calls in about.items():
        methods = {call: _method(service, *how) for call, how in calls.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
    healthy = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    for name in ("", *about):
        healthy.set(name, health_pb2.HealthCheckResponse.SERVING)
    return server, healthy


_Answer = Callable[[Service, Any], Any]


def _method(service: Service, answer: _Answer, request: Any) -> grpc.RpcMethodHandler:
    """Takes and gives bytes: gRPC would call what it cannot parse an error of the server."""

    def handler(raw: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            try:
                asked = request.FromString(raw)
            except DecodeError:
                raise Refusal(f"the message is no {request.DESCRIPTOR.name}.") from None
            answered: bytes = answer(service, asked).SerializeToString()
            return answered
        except Refusal as refusal:
            context.abort(grpc.StatusCode[refusal.status], str(refusal))
            raise

    return grpc.unary_unary_rpc_method_handler(handler)


def _predict(service: Service, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
    spec = request.model_spec

    def read(signature: predict_pb2.SignatureDef) -> Texts:
        if request.inputs.keys() != signature.inputs.keys():
            expected = sorted(signature.inputs)
            raise Refusal(f"inputs are {sorted(request.inputs)!r:.200}; expected {expected}.")
        return {key: _texts(key, request.inputs[key], service.limits) for key in signature.inputs}

    with service.counted(spec, "Predict", "GRPC"):
        found = service.predict(spec, spec.signature_name, read, request.output_filter)
        response = predict_pb2.PredictResponse()
        response.model_spec.name = found.version.model
        response.model_spec.version.value = found.version.number
        response.model_spec.signature_name = found.signature
        for key, values in found.outputs.items():
            response.outputs[key].CopyFrom(messages.encode_fields(values))
        return response


def _texts(key: str, tensor: predict_pb2.Tensor, limits: Limits) -> list[bytes]:
    field = f"inputs[{key!r}]"
    if len(tensor.tensor_shape.dim) == 1:
        limits.check_size(field, tensor.tensor_shape.dim[0].size)
    try:
        found = messages.decode_tensor(tensor, limits.batch_size)
    except ValueError as error:
        raise Refusal(f"{field}: {error}") from None
    if tensor.dtype != predict_pb2.DT_STRING or found.ndim != 1:
        dtype = predict_pb2.DataType.Name(tensor.dtype)
        raise Refusal(f"{field} is {dtype} {found.shape}; expected DT_STRING (n,).")
    texts: list[bytes] = found.tolist()
    return texts


def _metadata(
    service: Service, request: predict_pb2.GetModelMetadataRequest
) -> predict_pb2.GetModelMetadataResponse:
    if (asked := list(request.metadata_field)) != [_METADATA]:
        raise Refusal(f"metadata_field is {asked!r:.200}; expected ['{_METADATA}'].")
    version = service.version(request.model_spec)
    response = predict_pb2.GetModelMetadataResponse()
    response.model_spec.name = version.model
    response.model_spec.version.value = version.number
    packed = response.metadata[_METADATA]
    # The name that the official classes unpack; ours is another package's.
    packed.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    packed.value = version.servable.definition.SerializeToString()
    return response


def _status(
    service: Service, request: predict_pb2.GetModelStatusRequest
) -> predict_pb2.GetModelStatusResponse:
    response = predict_pb2.GetModelStatusResponse()
    for number, state in service.states(request.model_spec).items():
        one = response.model_version_status.add(version=number)
        one.state = predict_pb2.ModelVersionStatus.State.Value(state.name)
        one.status.error_message = state.error
        one.status.error_code = grpc.StatusCode.UNKNOWN.value[0] if state.error else 0
    return response
