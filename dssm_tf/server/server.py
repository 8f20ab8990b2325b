"""Both listeners over the same models, on one event loop, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import grpc
import uvicorn

from dssm_tf.common.errors import UserError
from dssm_tf.server.limits import DEFAULT, Limits
from dssm_tf.server.rest import mortal, rest_app
from dssm_tf.server.rpc import grpc_server
from dssm_tf.server.service import Service
from dssm_tf.server.versions import Model

if TYPE_CHECKING:
    from dssm_tf.retrieval.index import Index

_LOG = logging.getLogger("dssm_tf.server")
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
_GRACE = 10  # seconds that open requests have when the server stops


class Server:
    """Answers gRPC and REST until it is stopped.

    It listens once all models are loaded. Status, health and metrics are answered by the event loop
    itself, so they are answered while all workers compute.

    Args:
        models: of different names.
        host: the address to listen at.
        port: of gRPC; 0 takes a free one, None listens at none.
        rest_port: of REST, metrics and page, likewise.
        limits: see `Limits`.
        hosts: names in the header Host beside those of loopback and `host`; `*` for any.
        poll: seconds between two looks for new versions; 0 looks but once.
        index: what the page at `/` searches; without one there is no page.
        credentials: of gRPC, such as `grpc.ssl_server_credentials`; None does not encrypt.
    """

    def __init__(
        self,
        models: Sequence[Model],
        *,
        host: str = "127.0.0.1",
        port: int | None = 8500,
        rest_port: int | None = 8501,
        limits: Limits = DEFAULT,
        hosts: Sequence[str] = (),
        poll: float = 1.0,
        index: Index | None = None,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.grpc_address = self.rest_address = ""
        self._models, self._poll, self._credentials = models, poll, credentials
        self._host, self._port, self._rest_port = host, port, rest_port
        self._service = Service(models, limits)
        page = []
        if index is not None:
            from dssm_tf.server.page import search_route

            page.append(search_route(index, self._service))
        app = rest_app(self._service, [*_LOOPBACK, host, *hosts], page)
        self._rest = uvicorn.Server(uvicorn.Config(
            app, http=mortal(limits), ws="none", lifespan="off", access_log=False, log_config=None,
            log_level="critical", server_header=False, timeout_graceful_shutdown=_GRACE,
            h11_max_incomplete_event_size=1 << 14,
        ))  # fmt: skip
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Loads the models and begins to answer.

        Raises:
            UserError: of a model no version can be loaded, or a port cannot be listened at.
        """
        for model in self._models:
            model.look()
            if model.current is None:
                errors = [f"{number} ({one.error})" for number, one in model.states().items()]
                raise UserError(
                    f"{model.directory}: no version of {model.name} can be served: "
                    f"{', '.join(errors) or 'there is none'}"
                )
        started: Future[None] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(started),), daemon=True)
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Takes no more requests, and ends when those that came are answered, or ten seconds on."""
        if self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._service.close()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _run(self, started: Future[None]) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        rpc, watching = grpc_server(self._service), asyncio.create_task(self._watch())
        tasks = []
        try:
            if self._port is not None:
                self.grpc_address = _address(self._host, self._listen(rpc, self._port))
                await rpc.start()
            if self._rest_port is not None:
                listening = _listening(self._host, self._rest_port)
                self.rest_address = _address(self._host, listening.getsockname()[1])
                tasks.append(asyncio.create_task(self._rest.serve(sockets=[listening])))
                while not self._rest.started:
                    await asyncio.sleep(0.005)
            started.set_result(None)
            await self._stopping.wait()
        except UserError as error:
            started.set_exception(error)
        watching.cancel()
        self._rest.should_exit = True
        await asyncio.gather(rpc.stop(_GRACE), *tasks)

    def _listen(self, rpc: grpc.aio.Server, port: int) -> int:
        """Listens at gRPC's port; returns its number."""
        address = _address(self._host, port)
        try:
            if self._credentials:
                return int(rpc.add_secure_port(address, self._credentials))
            return int(rpc.add_insecure_port(address))
        except RuntimeError:  # gRPC does not say why
            raise UserError(
                f"--port {port}: cannot listen at {address}; choose another port."
            ) from None

    async def _watch(self) -> None:
        last = ""
        while self._poll:
            await asyncio.sleep(self._poll)
            try:
                for model in self._models:
                    await asyncio.to_thread(model.look)
                last = ""
            except Exception as error:  # a disk that is away now may be back at the next look
                message = f"{type(error).__name__}: {error}"
                if message != last:
                    _LOG.error("new versions cannot be looked for: %s", message)
                last = message


def _address(host: str, port: int) -> str:
    """`HOST:PORT`, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens at REST's port.

    Raises:
        UserError: the port is in use, or the host is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UserError(
            f"--rest-port {port}: cannot listen at {_address(host, port)} "
            f"({error.strerror or error}); choose another port."
        ) from None
    # Else each answer's second packet would wait 40 ms on a kept connection.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
