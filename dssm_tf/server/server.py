"""Both listeners over the same models, on one event loop, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

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


class Server:
    """Answers gRPC and REST until it is stopped.

    Ports are bound at once, and connections refused until all models are loaded. The models may
    be asked for while all workers compute: status, health and metrics are answered by the event
    loop itself.

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

    Raises:
        UserError: a port cannot be listened at.
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
        self._models, self._poll = models, poll
        self._host, self._port, self._credentials = host, port, credentials
        self._service = Service(models, limits)
        if port is not None:
            _bound(host, port, "--port").close()
        self._socket = None if rest_port is None else _bound(host, rest_port, "--rest-port")
        page = []
        if index is not None:
            from dssm_tf.server.page import search_route

            page.append(search_route(index, self._service))
        app = rest_app(self._service, [*_LOOPBACK, host, *hosts], page)
        self._rest = uvicorn.Server(uvicorn.Config(
            app, http=mortal(limits), ws="none", lifespan="off", access_log=False, log_config=None,
            log_level="critical", server_header=False, timeout_graceful_shutdown=10,
            h11_max_incomplete_event_size=1 << 14,
        ))  # fmt: skip
        self._thread: threading.Thread | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Loads the models and begins to answer.

        Raises:
            UserError: of a model no version can be loaded, or a port was taken meanwhile.
        """
        try:
            for model in self._models:
                model.look()
                if model.current is None:
                    told = [f"{number} ({one.error})" for number, one in model.states().items()]
                    raise UserError(
                        f"{model.directory}: no version of {model.name} can be served: "
                        f"{', '.join(told) or 'there is none'}"
                    )
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._live, daemon=True)
            self._thread.start()
            self._run(self._start())
        except BaseException:
            self.stop()
            raise

    def stop(self, grace: float = 10.0) -> None:
        """Takes no more requests, and ends when those that came are answered.

        Args:
            grace: seconds to wait for them.
        """
        if self._thread is not None:
            self._run(self._stop(grace))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._thread = None
        if self._socket is not None:
            self._socket.close()
        self._service.close()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _live(self) -> None:
        self._loop.run_forever()
        # One more round, in which connections that were closed give their sockets back.
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        self._rpc = grpc_server(self._service)
        self._watching = asyncio.create_task(self._watch())
        if self._port is not None:
            self.grpc_address = _address(self._host, self._listen(self._port))
            await self._rpc.start()
        if self._socket is not None:
            self._socket.listen(2048)
            self.rest_address = _address(self._host, self._socket.getsockname()[1])
            self._tasks.append(asyncio.create_task(self._rest.serve(sockets=[self._socket])))
            while not self._rest.started:
                await asyncio.sleep(0.005)

    async def _stop(self, grace: float) -> None:
        self._watching.cancel()
        self._rest.should_exit = True
        await asyncio.gather(self._rpc.stop(grace), *self._tasks)

    def _listen(self, port: int) -> int:
        """Binds gRPC's port, which was free a while ago; returns its number."""
        address = _address(self._host, port)
        try:
            if self._credentials:
                return int(self._rpc.add_secure_port(address, self._credentials))
            return int(self._rpc.add_insecure_port(address))
        except RuntimeError:
            raise UserError(f"--port {port}: gRPC cannot listen at {address}.") from None

    async def _watch(self) -> None:
        said = ""
        while self._poll:
            await asyncio.sleep(self._poll)
            try:
                for model in self._models:
                    await asyncio.to_thread(model.look)
                said = ""
            except Exception as error:  # a disk that is away now may be back at the next look
                told = f"{type(error).__name__}: {error}"
                if told != said:
                    _LOG.error("new versions cannot be looked for: %s", told)
                said = told


def _address(host: str, port: int) -> str:
    """`HOST:PORT`, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bound(host: str, port: int, flag: str) -> socket.socket:
    """A socket bound to a port; who connects before it listens is refused.

    Raises:
        UserError: the port is in use, or the host is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, since asyncio sends at once only what it knows for TCP: on a kept
    # connection each answer's second packet would else wait 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        why = error.strerror or error
        raise UserError(
            f"{flag} {port}: cannot listen at {_address(host, port)} ({why}); choose another port."
        ) from None
    return bound
