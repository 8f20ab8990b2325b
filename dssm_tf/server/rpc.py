"""The gRPC server: Predict of TensorFlow Serving, and the gRPC health check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1.health_pb2 import HealthCheckResponse

from dssm_tf.server.limits import INVALID, Refusal
from dssm_tf.server.service import Service
from serving import messages
from serving.predict_pb2 import PredictRequest, PredictResponse

HEALTH = "/grpc.health.v1.Health/Check"
_Call = Callable[[Service, bytes], Awaitable[Message]]


def grpc_server(service: Service) -> grpc.aio.Server:
    """A gRPC server of Predict and Health, which does not listen yet."""
    limits = service.limits
    milliseconds = int(1000 * limits.seconds)
    options = [
        ("grpc.so_reuseport", 0),  # otherwise a second server could listen at the same port
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_concurrent_streams", 2 * limits.in_flight),
        ("grpc.server_handshake_timeout_ms", milliseconds),
        ("grpc.max_connection_idle_ms", 2 * milliseconds),
    ]
    server = grpc.aio.server(options=options)
    for path, api, call in ((messages.PREDICT, "grpc", _predict), (HEALTH, "health", _health)):
        _, name, method = path.split("/")
        handler = grpc.stream_stream_rpc_method_handler(partial(_handle, service, call, api))
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(name, {method: handler}),)
        )
    return server


async def _handle(service: Service, call: _Call, api: str, _: object, context: Any) -> None:
    """Answers a call with a request and a response in bytes.

    gRPC would report a message that it cannot parse as an error of the server. A unary call has the
    same wire format as two streams of one message. With streams, reading the request and writing
    the response count toward the limits, so slow clients fill neither memory nor workers.
    """

    async def work() -> None:
        raw = await context.read()
        if raw is grpc.aio.EOF:
            raise Refusal(INVALID, "expected one message.")
        await context.write((await call(service, raw)).SerializeToString())

    try:
        await service.handle(api, work)
    except Refusal as refusal:
        await context.abort(grpc.StatusCode[refusal.grpc_status], str(refusal))


async def _predict(service: Service, raw: bytes) -> Message:
    def answer() -> PredictResponse:
        try:
            request = PredictRequest.FromString(raw)
        except DecodeError:
            raise Refusal(INVALID, "the message is not a PredictRequest.") from None
        spec, output, values = service.answer(request)
        return PredictResponse(model_spec=spec, outputs={output: messages.encode_floats(values)})

    return await service.compute(answer)


async def _health(service: Service, raw: bytes) -> Message:
    return HealthCheckResponse(status=HealthCheckResponse.SERVING)
