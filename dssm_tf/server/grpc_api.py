"""TensorFlow Serving's PredictionService and ModelService over gRPC, and gRPC's own health."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

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
    about = {
        _PREDICTION: {
            "Predict": _method(
                lambda request: _predict(service, request),
                predict_pb2.PredictRequest,
                predict_pb2.PredictResponse,
            ),
            "GetModelMetadata": _method(
                lambda request: _metadata(service, request),
                predict_pb2.GetModelMetadataRequest,
                predict_pb2.GetModelMetadataResponse,
            ),
        },
        _MODEL: {
            "GetModelStatus": _method(
                lambda request: _status(service, request),
                predict_pb2.GetModelStatusRequest,
                predict_pb2.GetModelStatusResponse,
            )
        },
    }
    server = grpc.server(
        pool,
        options=[
            ("grpc.so_reuseport", 0),  # else a second server would listen at the same port
            ("grpc.max_receive_message_length", service.limits.body_bytes),
            ("grpc.max_send_message_length", -1),
        ],
    )
    for name, methods in about.items():
        handler = grpc.method_handlers_generic_handler(name, methods)
        server.add_generic_rpc_handlers((handler,))
    healthy = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    for name in ("", _PREDICTION, _MODEL):
        healthy.set(name, health_pb2.HealthCheckResponse.SERVING)
    return server, healthy


def _method(answer: Callable[[Any], Any], request: Any, response: Any) -> grpc.RpcMethodHandler:
    def handler(asked: Any, context: grpc.ServicerContext) -> Any:
        try:
            return answer(asked)
        except Refusal as refusal:
            context.abort(grpc.StatusCode[refusal.status], str(refusal))

    return grpc.unary_unary_rpc_method_handler(
        handler, request.FromString, response.SerializeToString
    )


def _predict(service: Service, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
    spec = request.model_spec
    with service.counted(spec, "Predict", "GRPC"):
        version = service.version(spec)
        name, signature = service.signature(version, spec.signature_name, "FAILED_PRECONDITION")
        if request.inputs.keys() != signature.inputs.keys():
            raise Refusal(
                "INVALID_ARGUMENT",
                f"inputs are {sorted(request.inputs)!r:.200}; `{name}` takes "
                f"{sorted(signature.inputs)}.",
            )
        inputs = {
            key: _texts(f"inputs[{key!r}]", request.inputs[key], service.limits)
            for key in signature.inputs
        }
        found = service.run(version, name, inputs, request.output_filter)
        response = predict_pb2.PredictResponse()
        response.model_spec.name = version.model
        response.model_spec.version.value = version.number
        response.model_spec.signature_name = name
        for key, values in found.items():
            response.outputs[key].CopyFrom(messages.encode_fields(values))
        return response


def _texts(field: str, tensor: predict_pb2.Tensor, limits: Limits) -> list[bytes]:
    if len(tensor.tensor_shape.dim) == 1:
        limits.check_size(field, tensor.tensor_shape.dim[0].size)
    try:
        found = messages.decode_tensor(tensor, limits.batch_size)
    except ValueError as error:
        raise Refusal("INVALID_ARGUMENT", f"{field}: {error}") from None
    if tensor.dtype != predict_pb2.DT_STRING or found.ndim != 1:
        raise Refusal(
            "INVALID_ARGUMENT",
            f"{field} is {predict_pb2.DataType.Name(tensor.dtype)} {found.shape}; expected "
            "DT_STRING (n,).",
        )
    texts: list[bytes] = found.tolist()
    return texts


def _metadata(
    service: Service, request: predict_pb2.GetModelMetadataRequest
) -> predict_pb2.GetModelMetadataResponse:
    if list(request.metadata_field) != [_METADATA]:
        raise Refusal(
            "INVALID_ARGUMENT",
            f"metadata_field is {list(request.metadata_field)!r:.200}; expected ['{_METADATA}'].",
        )
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
