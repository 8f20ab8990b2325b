"""Starts and stops the gRPC and REST servers of the same models, on one event loop."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import grpc
import uvicorn

from dssm_tf.common.errors import UserError
from dssm_tf.server.http_protocol import limited_protocol
from dssm_tf.server.limits import DEFAULT_LIMITS, Limits
from dssm_tf.server.models import WARM_UP_QUERY, ServedModel, Snapshot
from dssm_tf.server.rest import rest_app
from dssm_tf.server.rpc import grpc_server
from dssm_tf.server.service import Service

if TYPE_CHECKING:
    from dssm_tf.retrieval.opening import AnyIndex
    from dssm_tf.server.repository import Repository

_GRACE_SECONDS = 10  # for open requests when the server stops
_SPARE_FILES = 256  # open files besides connections
_KEEP_ALIVE = "keep-alive"


@dataclass
class Server:
    """A context manager that serves gRPC and REST.

    The event loop answers status, health and metrics itself, so these work while all workers are
    busy. On exit, the server accepts no more requests, and waits at most ten seconds for responses
    to open requests.

    Args:
        models: models with different names.
        host: the IPv4 address to listen at, or its name.
        port: the port of gRPC; 0 chooses a free one.
        rest_port: the port of REST, metrics and page; 0 chooses a free one.
        limits: see `Limits`.
        hosts: values of the header Host that are allowed in addition to loopback and `host`; `*`
            for any.
        origins: sites whose pages may send requests, such as `https://shop.example`.
        index: the index of `/v1/search` and of the page at `/`; None for neither.
        repository: an open repository, instead of models and index.
        poll_seconds: time between two checks for new versions in the repository; 0 to check after
            `reload` only.

    Attributes:
        grpc_address: `host:port` of gRPC, set when the server has started.
        rest_address: `host:port` of REST.

    Raises:
        UserError: the host or a port is not available.
    """

    models: Sequence[ServedModel] = ()
    _: KW_ONLY
    host: str = "127.0.0.1"
    port: int = 8500
    rest_port: int = 8501
    limits: Limits = DEFAULT_LIMITS
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    index: AnyIndex | None = None
    repository: Repository | None = None
    poll_seconds: float = 1.0
    grpc_address = rest_address = ""
    _reload: threading.Event = field(default_factory=threading.Event, repr=False)

    def __enter__(self) -> Server:
        _allow_files(2 * self.limits.connections + _SPARE_FILES)
        if self.index is not None:
            self.index.search(WARM_UP_QUERY)  # compiles functions
        snapshot = Snapshot.from_models(self.models, self.index)
        if self.repository is not None:
            snapshot = self.repository.snapshot
        _ignore_in_collections()
        self._service, self._stopping = Service(snapshot, self.limits), threading.Event()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self.__exit__()
            raise
        if self.repository is not None:
            threading.Thread(target=self._poll, name="dssm-serve-poll", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._reload.set()
        self._thread.join()
        self._service.scheduler.stop()

    def reload(self) -> None:
        """Checks for new versions at once. Signal handlers may call it."""
        self._reload.set()

    def _poll(self) -> None:
        """Loads new versions until the server stops; runs in its own thread."""
        repository = self.repository
        while repository is not None and not self._stopping.is_set():
            at_once = self._reload.wait(self.poll_seconds or None)
            self._reload.clear()
            if self._stopping.is_set():
                return
            if repository.refresh(at_once):
                is_new = repository.snapshot.rankers != self._service.snapshot.rankers
                self._service.metrics.count_reload(is_new)
                self._service.snapshot = repository.snapshot
                if is_new:
                    _ignore_in_collections()

    def _serve(self, started: Future[None]) -> None:
        """Runs the event loop. An error before the start is passed to the thread that waits."""
        try:
            asyncio.run(self._run(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _run(self, started: Future[None]) -> None:
        service, page_routes = self._service, []
        if service.snapshot.index is not None:  # importing the page takes long
            from dssm_tf.server.page import page_route
            from dssm_tf.server.search_routes import search_api_routes

            page_routes = [page_route(service), *search_api_routes(service)]
        hosts = ["127.0.0.1", "localhost", self.host, *self.hosts]
        idle = int(2 * self.limits.seconds)
        self._rest = uvicorn.Server(uvicorn.Config(
            rest_app(service, hosts, page_routes, self.origins),
            http=limited_protocol(self.limits), ws="none", lifespan="off", access_log=False,
            log_config=None, log_level="critical", server_header=False, timeout_keep_alive=idle,
            headers=[(_KEEP_ALIVE, f"timeout={idle}")], timeout_graceful_shutdown=_GRACE_SECONDS,
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
            socket.create_server((host, 0)).close()
        except (OSError, UnicodeError):
            raise UserError(
                f"--host {host}: cannot listen there; expected an IPv4 address of this machine, "
                "or a name that has one (IPv6 is not supported)."
            ) from None
        try:
            self.grpc_address = f"{host}:{rpc.add_insecure_port(f'{host}:{port}')}"
            await rpc.start()
            flag, port = "--rest-port", self.rest_port
            rest_socket = socket.create_server((host, port), backlog=4096)
        except (OSError, RuntimeError):  # gRPC does not say why
            raise UserError(
                f"{flag} {port}: cannot listen at {host}:{port}; choose another port."
            ) from None
        # Otherwise the second packet of a response is delayed by 40 ms on a reused connection.
        rest_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest_address = f"{host}:{rest_socket.getsockname()[1]}"
        return rest_socket


def _ignore_in_collections() -> None:
    """Garbage collections ignore the objects of the models: to visit them takes up to a second."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _allow_files(count: int) -> None:
    """Raises the limit of open files to `count`, or as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
