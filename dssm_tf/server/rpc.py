"""TensorFlow Serving's PredictionService and ModelService over gRPC, and gRPC's own health."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health

from dssm_tf.server.limits import INVALID, NOT_FOUND, Refusal
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


async def grpc_server(service: Service) -> tuple[grpc.aio.Server, health.HealthServicer]:
    """A server of both services that does not listen yet, and what tells its health."""
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
    calls: dict[str, tuple[_Call, int]] = {
        messages.PREDICT: (_predict, limits.message_bytes),
        messages.GET_MODEL_STATUS: (_status, 0),
    }
    healthy = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    await healthy.set("", health_pb2.HealthCheckResponse.SERVING)
    for path, (call, size) in calls.items():
        _, name, method = path.split("/")
        handlers = {method: _handler(service, call, size)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        await healthy.set(name, health_pb2.HealthCheckResponse.SERVING)
    return server, healthy


_Call = Callable[[Service, bytes], Awaitable[bytes]]


def _handler(service: Service, call: _Call, size: int) -> grpc.RpcMethodHandler:
    """Takes and gives bytes: gRPC would call what it cannot parse an error of the server.

    On the wire a unary call is a stream of one message. As a stream it can be refused before its
    message is received, so that half-sent messages fill neither the memory nor a worker.
    """

    async def receive_and_answer(context: Any) -> bytes:
        with service.receiving() as add:
            add(size)
            raw = await context.read()
        if raw is grpc.aio.EOF:
            raise Refusal(INVALID, "expected one message.")
        return await call(service, raw)

    async def handle(_: object, context: Any) -> bytes:
        try:
            work = receive_and_answer(context)
            if size:
                return await service.handle("grpc", work)
            return await asyncio.wait_for(work, service.limits.seconds)
        except Refusal as refusal:
            await context.abort(grpc.StatusCode[refusal.status], str(refusal))
            raise

    return grpc.stream_unary_rpc_method_handler(handle)


async def _predict(service: Service, raw: bytes) -> bytes:
    return await service.compute(lambda: _write(service.answer(_read(service, raw))))


def _read(service: Service, raw: bytes) -> Request:
    asked = _parse(PredictRequest, raw)
    limits, inputs = service.limits, {}
    for name in ("queries", "titles"):
        if name in asked.inputs:
            try:
                inputs[name] = messages.decode_texts(
                    asked.inputs[name], limits.texts, limits.total_bytes
                )
            except ValueError as error:
                raise Refusal(INVALID, f"inputs[{name!r}]: {error}.") from None
    spec = asked.model_spec
    return Request(_named(spec), spec.signature_name, inputs, _version(spec))


def _write(answer: Answer) -> bytes:
    response = PredictResponse()
    response.model_spec.name = answer.model
    response.model_spec.version.value = answer.version.number
    response.model_spec.signature_name = answer.signature
    response.outputs[answer.output].CopyFrom(messages.encode_floats(answer.values))
    sent: bytes = response.SerializeToString()
    return sent


async def _status(service: Service, raw: bytes) -> bytes:
    spec = _parse(GetModelStatusRequest, raw).model_spec
    states = service.model(_named(spec)).states()
    if (number := _version(spec)) is not None:
        if number not in states:
            raise Refusal(NOT_FOUND, f"{spec.name} has no version {number}.")
        states = {number: states[number]}
    response = GetModelStatusResponse()
    for number, state in states.items():
        one = response.model_version_status.add(version=number)
        one.state = ModelVersionStatus.State.Value(state.name)
        one.status.error_message = state.error
        one.status.error_code = grpc.StatusCode.UNKNOWN.value[0] if state.error else 0
    sent: bytes = response.SerializeToString()
    return sent


def _parse(kind: Any, raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise Refusal(INVALID, f"the message is no {kind.DESCRIPTOR.name}.") from None


def _named(spec: ModelSpec) -> str:
    if spec.version_label:
        raise Refusal(INVALID, "model_spec.version_label: this server has no labels; leave it out.")
    return spec.name


def _version(spec: ModelSpec) -> int | None:
    return spec.version.value if spec.HasField("version") else None
