"""TensorFlow Serving's PredictionService and ModelService over gRPC, and gRPC's own health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1.health_pb2 import HealthCheckResponse

from dssm_tf.server.limits import INVALID, NOT_FOUND, Refusal
from dssm_tf.server.service import DEFAULT_SIGNATURE, Request, Service
from serving import messages
from serving.predict_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
    ModelSpec,
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
    asked, inputs = _parse(PredictRequest, raw), {}
    for name, tensor in asked.inputs.items():
        try:
            inputs[name] = messages.decode_texts(tensor)
        except ValueError as error:
            raise Refusal(INVALID, f"inputs[{name!r:.100}]: {error}.") from None
    response = PredictResponse(model_spec=asked.model_spec)
    spec = response.model_spec
    spec.signature_name = spec.signature_name or DEFAULT_SIGNATURE
    answer = service.answer(Request(spec.name, spec.signature_name, inputs, _version(spec)))
    spec.version.value = answer.version
    response.outputs[answer.output].CopyFrom(messages.encode_floats(answer.values))
    return response


async def _status(service: Service, raw: bytes) -> Message:
    spec = _parse(GetModelStatusRequest, raw).model_spec
    return status_of(service, spec.name, _version(spec))


def status_of(
    service: Service, name: str, version: int | str | None = None
) -> GetModelStatusResponse:
    """What became of the versions of a model, or of one.

    Raises:
        Refusal: there is no such model or version.
    """
    response = GetModelStatusResponse()
    for number, state in service.model(name).states().items():
        if version in (None, number):
            one = response.model_version_status.add(version=number, state=state.name)
            one.status.error_message = state.error
            one.status.error_code = "UNKNOWN" if state.error else "OK"
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


def _version(spec: ModelSpec) -> int | str | None:
    """What is asked for; no version has a label here."""
    return spec.version_label or spec.version.value or None
