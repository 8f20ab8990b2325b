"""Both listeners over the same models, on one event loop, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
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
    from dssm_tf.server.page import SearchPage

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
        page: the search page; it follows the versions of its model.
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
        page: SearchPage | None = None,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.grpc_address = self.rest_address = ""
        self._models, self._poll, self._page = models, poll, page
        self._host, self._port, self._credentials = host, port, credentials
        self._service = Service(models, limits)
        if port is not None:
            _bound(host, port, "--port").close()
        self._socket = None if rest_port is None else _bound(host, rest_port, "--rest-port")
        routes = page.routes(self._service) if page else []
        app = rest_app(self._service, [*_LOOPBACK, host, *hosts], routes)
        self._rest = uvicorn.Server(uvicorn.Config(
            app, http=mortal(limits), ws="none", lifespan="off", access_log=False, log_config=None,
            log_level="critical", server_header=False, timeout_graceful_shutdown=10,
            h11_max_incomplete_event_size=1 << 14,
        ))  # fmt: skip
        self._started = threading.Event()
        self._failed: Exception | None = None
        self._grace = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def start(self, report: Callable[[str, float], object] = lambda step, share: None) -> None:
        """Loads the models, indexes what the page searches, and begins to answer.

        Args:
            report: called with what is being done for the page, and its share so far.

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
            if self._page:
                self._page.follow(report)
            self._thread.start()
            self._started.wait()
            if self._failed:
                raise self._failed
        except BaseException:
            self.stop()
            raise

    def stop(self, grace: float = 10.0) -> None:
        """Takes no more requests, and ends when those that came are answered.

        Args:
            grace: seconds to wait for them.
        """
        self._grace = grace
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(2 * grace)
        if self._socket is not None:
            self._socket.close()
        self._service.close()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self) -> None:
        """Both protocols, until `_ended` is set."""
        self._ended, self._loop = asyncio.Event(), asyncio.get_running_loop()
        ends = []
        try:
            rpc = grpc_server(self._service)
            if self._port is not None:
                self.grpc_address = _address(self._host, self._listen(rpc, self._port))
                await rpc.start()
            if self._socket is not None:
                self._socket.listen(2048)
                self.rest_address = _address(self._host, self._socket.getsockname()[1])
                rest = asyncio.create_task(self._rest.serve(sockets=[self._socket]))
                while not self._rest.started and not rest.done():
                    await asyncio.sleep(0.005)
                ends.append(rest)
        except Exception as error:
            self._failed = error
            return
        finally:
            self._started.set()
        watching = asyncio.create_task(self._watch())
        await self._ended.wait()
        watching.cancel()
        self._rest.should_exit = True
        await asyncio.gather(rpc.stop(self._grace), *ends)

    def _listen(self, rpc: grpc.aio.Server, port: int) -> int:
        """Binds gRPC's port, which was free a while ago; returns its number."""
        address = _address(self._host, port)
        try:
            if self._credentials:
                return int(rpc.add_secure_port(address, self._credentials))
            return int(rpc.add_insecure_port(address))
        except RuntimeError:
            raise UserError(f"--port {port}: gRPC cannot listen at {address}.") from None

    async def _watch(self) -> None:
        said = ""
        while self._poll:
            await asyncio.sleep(self._poll)
            try:
                await asyncio.to_thread(self._look)
                said = ""
            except Exception as error:  # a disk that is away now may be back at the next look
                told = f"{type(error).__name__}: {error}"
                if told != said:
                    _LOG.error("what answers goes on; new versions cannot be taken: %s", told)
                said = told

    def _look(self) -> None:
        for model in self._models:
            model.look()
        if self._page:
            self._page.follow()


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
