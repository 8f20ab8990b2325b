"""Starts and stops the gRPC and REST servers of the same models, on one event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import grpc
import uvicorn

from dssm_tf.common.errors import UserError
from dssm_tf.server.limits import DEFAULT_LIMITS, Limits
from dssm_tf.server.models import Model
from dssm_tf.server.rest import limited_protocol, rest_app
from dssm_tf.server.rpc import grpc_server
from dssm_tf.server.service import Service

if TYPE_CHECKING:
    from dssm_tf.retrieval.opening import AnyIndex

_GRACE_SECONDS = 10  # for open requests when the server stops


@dataclass
class Server:
    """A context manager that serves gRPC and REST.

    The event loop answers status, health and metrics itself, so these work while all workers are
    busy. On exit, the server accepts no more requests, and waits at most ten seconds for responses
    to open requests.

    Args:
        models: models with different names.
        host: the address to listen at.
        port: the port of gRPC; 0 chooses a free one.
        rest_port: the port of REST, metrics and page; 0 chooses a free one.
        limits: see `Limits`.
        hosts: values of the header Host that are allowed in addition to loopback and `host`; `*`
            for any.
        origins: sites whose pages may send requests, such as `https://shop.example`.
        index: the index of `/v1/search` and of the page at `/`; None for neither.

    Attributes:
        grpc_address: `host:port` of gRPC, set when the server has started.
        rest_address: `host:port` of REST.

    Raises:
        UserError: a port is not available.
    """

    models: Sequence[Model]
    _: KW_ONLY
    host: str = "127.0.0.1"
    port: int = 8500
    rest_port: int = 8501
    limits: Limits = DEFAULT_LIMITS
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    index: AnyIndex | None = None
    grpc_address = rest_address = ""

    def __enter__(self) -> Server:
        if self.index is not None:
            self.index.search("wizard of oz")  # the first search compiles functions
        self._service, self._stopping = Service(self.models, self.limits), threading.Event()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._service.pool.shutdown(wait=False, cancel_futures=True)

    def _serve(self, started: Future[None]) -> None:
        """Runs the event loop. An error before the start is passed to the thread that waits."""
        try:
            asyncio.run(self._run(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _run(self, started: Future[None]) -> None:
        service, index = self._service, self.index
        page_routes = []
        if index is not None:  # importing the page takes long
            from dssm_tf.server.page import search_route
            from dssm_tf.server.search_routes import search_api_routes

            page_routes = [search_route(index, service), *search_api_routes(index, service)]
        self._rest = uvicorn.Server(uvicorn.Config(
            rest_app(
                service, ["127.0.0.1", "localhost", self.host, *self.hosts], page_routes,
                self.origins,
            ),
            http=limited_protocol(self.limits), ws="none", lifespan="off", access_log=False,
            log_config=None, log_level="critical", server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS, h11_max_incomplete_event_size=1 << 14,
        ))  # fmt: skip
        rpc, tasks = grpc_server(service), []
        try:
            rest_socket = await self._listen(rpc)
            tasks.append(asyncio.create_task(self._rest.serve([rest_socket])))
            started.set_result(None)
            await asyncio.to_thread(self._stopping.wait)
        except UserError as error:
            started.set_exception(error)
        self._rest.should_exit = True
        await asyncio.gather(rpc.stop(_GRACE_SECONDS), *tasks, return_exceptions=True)

    async def _listen(self, rpc: grpc.aio.Server) -> socket.socket:
        """Listens at both ports; returns the socket of REST."""
        host, flag, port = self.host, "--port", self.port
        try:
            self.grpc_address = f"{host}:{rpc.add_insecure_port(f'{host}:{port}')}"
            await rpc.start()
            flag, port = "--rest-port", self.rest_port
            rest_socket = socket.create_server((host, port))
        except (OSError, RuntimeError):  # gRPC does not say why
            raise UserError(
                f"{flag} {port}: cannot listen at {host}:{port}; choose another port."
            ) from None
        # Otherwise the second packet of a response is delayed by 40 ms on a reused connection.
        rest_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest_address = f"{host}:{rest_socket.getsockname()[1]}"
        return rest_socket
