"""The gRPC server: TensorFlow Serving's Predict, metadata and status, and the health check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1.health_pb2 import HealthCheckResponse

from dssm_tf.server.limits import BUSY, CLIENT_CLOSED, INVALID, Refusal
from dssm_tf.server.metadata import signatures, statuses
from dssm_tf.server.models import ServedModel, Snapshot
from dssm_tf.server.predict import OUTPUTS, compute, signature_of
from dssm_tf.server.scheduler import Blocks
from dssm_tf.server.service import Service
from serving import messages
from serving.predict_pb2 import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
    GetModelStatusRequest,
    ModelSpec,
    PredictRequest,
    PredictResponse,
)

HEALTH = "/grpc.health.v1.Health/Check"
METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"

_SIGNATURES = "signature_def"  # the only field of metadata
_SIGNATURES_TYPE = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
_STREAMS = 256  # calls per connection at once

_Call = Callable[[Service, bytes], Awaitable[Message]]
_Request = TypeVar("_Request", bound=Message)


def grpc_server(service: Service) -> grpc.aio.Server:
    """A gRPC server of the calls, which does not listen yet."""
    limits = service.limits
    milliseconds = int(1000 * limits.seconds)
    options = [
        ("grpc.so_reuseport", 0),  # otherwise a second server could listen at the same port
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_concurrent_streams", _STREAMS),
        ("grpc.http2.bdp_probe", 0),  # otherwise gRPC buffers megabytes of each waiting call
        ("grpc.server_handshake_timeout_ms", milliseconds),
        ("grpc.max_connection_idle_ms", 2 * milliseconds),
    ]
    server = grpc.aio.server(options=options)
    for path, api, call in (
        (messages.PREDICT, "grpc", _predict), (METADATA, "metadata", _metadata),
        (STATUS, "status", _status), (HEALTH, "health", _health),
    ):  # fmt: skip
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
    service.scheduler.calls += 1

    async def read() -> Any:
        try:
            return await context.read()
        except grpc.aio.BaseError:
            raise Refusal(CLIENT_CLOSED, "the client closed the connection.") from None

    async def work() -> None:
        async with service.bodies.read_message(read) as raw:
            if raw is grpc.aio.EOF:
                raise Refusal(INVALID, "expected one message.")
            answer = (await call(service, raw)).SerializeToString()
            del raw
        with service.answers.hold(len(answer)):
            try:
                await context.write(answer)
            except (grpc.aio.BaseError, grpc.RpcError):
                raise Refusal(CLIENT_CLOSED, "the client closed the connection.") from None

    try:
        await service.handle(api, work)
    except Refusal as refusal:
        trailers = (("retry-after", "1"),) if refusal.kind == BUSY else ()
        await context.abort(grpc.StatusCode[refusal.grpc_status], str(refusal), trailers)


async def _predict(service: Service, raw: bytes) -> Message:
    snapshot = service.snapshot

    def answer() -> Blocks[PredictResponse]:
        request = _parsed(PredictRequest, raw)
        model = _model_of(snapshot, request.model_spec)
        signature = signature_of(request.model_spec.signature_name)
        inputs = {}
        for name, tensor in request.inputs.items():
            try:
                inputs[name] = messages.decode_texts(tensor, service.limits.texts)
            except ValueError as error:
                raise Refusal(INVALID, f"{name:.100}: {error}.") from None
        with ExitStack() as held:

            def reserve(count: int) -> None:
                held.enter_context(service.answers.hold(4 * count))

            values = yield from compute(model, signature, inputs, service.limits, reserve)
            spec = _spec_of(model, signature)
            outputs = {OUTPUTS[signature]: messages.encode_floats(values)}
            return PredictResponse(model_spec=spec, outputs=outputs)

    return await service.compute("grpc", len(raw), answer)


async def _metadata(service: Service, raw: bytes) -> Message:
    request = _parsed(GetModelMetadataRequest, raw)
    model = _model_of(service.snapshot, request.model_spec)
    if list(request.metadata_field) != [_SIGNATURES]:
        raise Refusal(INVALID, f"metadata_field: expected {_SIGNATURES} only.")
    definitions = await service.compute("metadata", len(raw), lambda: signatures(model))
    response = GetModelMetadataResponse(model_spec=_spec_of(model, ""))
    response.metadata[_SIGNATURES].type_url = _SIGNATURES_TYPE
    response.metadata[_SIGNATURES].value = definitions.SerializeToString()
    return response


async def _status(service: Service, raw: bytes) -> Message:
    request, snapshot = _parsed(GetModelStatusRequest, raw), service.snapshot
    spec = request.model_spec
    version = None
    if spec.version.value or spec.version_label:
        version = _model_of(snapshot, spec).version
    return statuses(snapshot, spec.name, version)


async def _health(service: Service, raw: bytes) -> Message:
    return HealthCheckResponse(status=HealthCheckResponse.SERVING)


def _parsed(kind: type[_Request], raw: bytes) -> _Request:
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise Refusal(INVALID, f"the message is not a {kind.__name__}.") from None


def _model_of(snapshot: Snapshot, spec: ModelSpec) -> ServedModel:
    return snapshot.find(spec.name, spec.version.value, spec.version_label)


def _spec_of(model: ServedModel, signature: str) -> ModelSpec:
    spec = ModelSpec(name=model.name, signature_name=signature)
    spec.version.value = model.version
    return spec
