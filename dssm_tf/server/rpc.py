"""TensorFlow Serving's PredictionService and ModelService over gRPC, and gRPC's own health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1.health_pb2 import HealthCheckResponse

from dssm_tf.server.limits import INVALID, NOT_FOUND, Refusal
from dssm_tf.server.service import Service
from serving import messages
from serving.predict_pb2 import (
    Code,
    GetModelStatusRequest,
    GetModelStatusResponse,
    ModelVersionStatus,
    PredictRequest,
    PredictResponse,
)

HEALTH = "/grpc.health.v1.Health/Check"
_Call = Callable[[Service, bytes], Awaitable[Message]]


def grpc_server(service: Service) -> grpc.aio.Server:
    """A server of both services and of health that does not listen yet."""
    limits = service.limits
    milliseconds = int(1000 * limits.seconds)
    options = [
        ("grpc.so_reuseport", 0),  # else a second server would listen at the same port
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_concurrent_streams", 2 * limits.in_flight),
        ("grpc.server_handshake_timeout_ms", milliseconds),
        ("grpc.max_connection_idle_ms", 2 * milliseconds),
    ]
    server = grpc.aio.server(options=options)
    for path, call in (
        (messages.PREDICT, _predict),
        (messages.GET_MODEL_STATUS, _status),
        (HEALTH, _health),
    ):
        _, name, method = path.split("/")
        handlers = {method: _handler(service, call, "grpc" if call is _predict else method)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    return server


def _handler(service: Service, call: _Call, api: str) -> grpc.RpcMethodHandler:
    """Takes and gives bytes: gRPC would call what it cannot parse an error of the server.

    On the wire a unary call is two streams of one message. As streams, both are within limits:
    half-sent requests and answers that nobody reads fill neither the memory nor a worker.
    """

    async def handle(_: object, context: Any) -> None:
        async def work() -> None:
            raw = await context.read()
            if raw is grpc.aio.EOF:
                raise Refusal(INVALID, "expected one message.")
            await context.write((await call(service, raw)).SerializeToString())

        try:
            await service.handle(api, work)
        except Refusal as refusal:
            await context.abort(grpc.StatusCode[refusal.status], str(refusal))

    return grpc.stream_stream_rpc_method_handler(handle)


async def _predict(service: Service, raw: bytes) -> Message:
    return await service.compute(lambda: _answer(service, raw))


def _answer(service: Service, raw: bytes) -> PredictResponse:
    request = _parse(PredictRequest, raw)
    answer, response = service.answer(request), PredictResponse(model_spec=request.model_spec)
    spec = response.model_spec
    spec.version.value, spec.signature_name = answer.version, answer.signature
    response.outputs[answer.output].CopyFrom(messages.encode_floats(answer.values))
    return response


async def _status(service: Service, raw: bytes) -> Message:
    spec = _parse(GetModelStatusRequest, raw).model_spec
    return status_of(service, spec.name, spec.version_label or spec.version.value)


def status_of(service: Service, name: str, version: int | str = "") -> GetModelStatusResponse:
    """The version of a model that answers, and those that failed; or one of them.

    Raises:
        Refusal: there is no such model or version.
    """
    response = GetModelStatusResponse()
    for number, error in service.model(name).states().items():
        if not version or version == number:
            one = response.model_version_status.add(version=number)
            one.state = ModelVersionStatus.END if error else ModelVersionStatus.AVAILABLE
            one.status.error_code = Code.UNKNOWN if error else Code.OK
            one.status.error_message = error
    if not response.model_version_status:
        raise Refusal(NOT_FOUND, f"{name} has no version {version}.")
    return response


async def _health(service: Service, raw: bytes) -> Message:
    return HealthCheckResponse(status=HealthCheckResponse.SERVING)


def _parse(kind: Any, raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise Refusal(INVALID, f"the message is no {kind.DESCRIPTOR.name}.") from None
