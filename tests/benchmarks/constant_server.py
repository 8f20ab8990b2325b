"""A server that answers each Predict request with the same bytes: the ceiling of a benchmark.

    python -m tests.benchmarks.constant_server GRPC_PORT REST_PORT

It has the event loop and the libraries of `dssm serve`, but computes nothing.
"""

from __future__ import annotations

import asyncio
import sys

import grpc
import numpy as np
import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from serving import messages
from serving.predict_pb2 import PredictResponse

SCORES = np.full(100, 0.123456, np.float32)


async def rest(scope, receive, send) -> None:
    """Reads a body and answers with 100 scores."""
    await Request(scope, receive).body()
    content = f'{{"outputs": {SCORES.tolist()}}}\n'
    await Response(content, media_type="application/json")(scope, receive, send)


async def main(grpc_port: int, rest_port: int) -> None:
    """Serves until the process ends."""
    answer = PredictResponse(outputs={"scores": messages.encode_floats(SCORES)})
    raw = answer.SerializeToString()

    async def predict(_: object, context) -> None:
        await context.read()
        await context.write(raw)

    server = grpc.aio.server()
    _, name, method = messages.PREDICT.split("/")
    handlers = {method: grpc.stream_stream_rpc_method_handler(predict)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    await server.start()
    config = uvicorn.Config(
        rest, port=rest_port, http="httptools", lifespan="off", access_log=False, backlog=4096,
        log_level="critical",
    )  # fmt: skip
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
