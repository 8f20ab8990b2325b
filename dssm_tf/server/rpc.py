"""TensorFlow Serving's PredictionService and ModelService over gRPC, and gRPC's own health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2

from dssm_tf.server.limits import INVALID, NOT_FOUND, Budget, Refusal
from dssm_tf.server.service import Answer, Request, Service
from serving import messages
from serving.predict_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
    ModelSpec,
    ModelVersionStatus,
    PredictRequest,
    PredictResponse,
)

HEALTH = "/grpc.health.v1.Health/Check"
_SERVICES = [path.split("/")[1] for path in (messages.PREDICT, messages.GET_MODEL_STATUS)]
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
    probes = Budget(limits.pending_bytes)  # of their own: they are answered whatever others send
    for path, call, pending, api in (
        (messages.PREDICT, _predict, service.pending, "grpc"),
        (messages.GET_MODEL_STATUS, _status, probes, "status"),
        (HEALTH, _health, probes, "health"),
    ):
        _, name, method = path.split("/")
        handler = _handler(service, call, pending, api)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(name, {method: handler}),)
        )
    return server


def _handler(service: Service, call: _Call, pending: Budget, api: str) -> grpc.RpcMethodHandler:
    """Takes and gives bytes: gRPC would call what it cannot parse an error of the server.

    On the wire a unary call is two streams of one message. As streams, both are within limits:
    half-sent requests and answers that nobody reads fill neither the memory nor a worker.
    """

    async def answer(context: Any) -> None:
        with pending.holding(service.limits.message_bytes):
            raw = await context.read()
        if raw is grpc.aio.EOF:
            raise Refusal(INVALID, "expected one message.")
        answered = (await call(service, raw)).SerializeToString()
        with pending.holding(len(answered)):
            await context.write(answered)

    async def handle(_: object, context: Any) -> None:
        try:
            await service.handle(api, answer(context))
        except Refusal as refusal:
            await context.abort(grpc.StatusCode[refusal.status], str(refusal))

    return grpc.stream_stream_rpc_method_handler(handle)


async def _predict(service: Service, raw: bytes) -> Message:
    return await service.compute(lambda: _write(service.answer(_read(service, raw))))


def _read(service: Service, raw: bytes) -> Request:
    asked = _parse(PredictRequest, raw)
    limits, inputs = service.limits, {}
    for name in {"queries", "titles"}.intersection(asked.inputs):
        try:
            inputs[name] = messages.decode_texts(
                asked.inputs[name], limits.texts, limits.message_bytes
            )
        except ValueError as error:
            raise Refusal(INVALID, f"inputs[{name!r}]: {error}.") from None
    spec = asked.model_spec
    return Request(spec.name, spec.signature_name, inputs, _version(spec))


def _write(answer: Answer) -> PredictResponse:
    response = PredictResponse()
    response.model_spec.name = answer.model
    response.model_spec.version.value = answer.version
    response.model_spec.signature_name = answer.signature
    response.outputs[answer.output].CopyFrom(messages.encode_floats(answer.values))
    return response


async def _status(service: Service, raw: bytes) -> Message:
    spec = _parse(GetModelStatusRequest, raw).model_spec
    number, response = _version(spec), GetModelStatusResponse()
    for version, state in service.model(spec.name).states().items():
        if number in (None, version):
            one = response.model_version_status.add(version=version)
            one.state = ModelVersionStatus.State.Value(state.name)
            one.status.error_message = state.error
            one.status.error_code = grpc.StatusCode.UNKNOWN.value[0] if state.error else 0
    if not response.model_version_status:
        raise Refusal(NOT_FOUND, f"{spec.name} has no version {number}.")
    return response


async def _health(_: Service, raw: bytes) -> Message:
    if _parse(health_pb2.HealthCheckRequest, raw).service not in ("", *_SERVICES):
        raise Refusal(NOT_FOUND, f"expected a service of {', '.join(_SERVICES)}.")
    return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


def _parse(kind: Any, raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise Refusal(INVALID, f"the message is no {kind.DESCRIPTOR.name}.") from None


def _version(spec: ModelSpec) -> int | None:
    if spec.version_label:
        raise Refusal(INVALID, "model_spec.version_label: this server has no labels; leave it out.")
    return spec.version.value if spec.HasField("version") else None
