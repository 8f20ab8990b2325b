"""Both listeners over the same models, from start to stop."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn

from dssm_tf.common.errors import UserError
from dssm_tf.server.grpc_api import grpc_server
from dssm_tf.server.metrics import Metrics
from dssm_tf.server.models import Model
from dssm_tf.server.rest_api import Page, RestApi
from dssm_tf.server.service import Limits, Service
from serving.address import join_address

_WAITING = 2048  # connections that may wait to be accepted
_MOST_THREADS = 2 * (os.cpu_count() or 1) + 4


class Server:
    """Answers gRPC and REST until it is stopped.

    A port in use is known before a model is loaded; connections are refused until all are.

    Args:
        models: of different names; each is looked for at the start, and now and then.
        host: the address to listen at.
        port: of gRPC; 0 takes a free one, None listens at none.
        rest_api_port: of REST, likewise.
        limits: of a request.
        timeout: seconds a REST request may take.
        poll: seconds between two looks for new versions; 0 looks but once.
        page: further pages of the REST port.
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
        rest_api_port: int | None = 8501,
        limits: Limits | None = None,
        timeout: float = 30.0,
        poll: float = 1.0,
        page: Page | None = None,
        credentials: Any = None,
    ) -> None:
        self._models = models
        self._poll = poll
        self._metrics = Metrics()
        service = Service({one.name: one for one in models}, limits or Limits(), self._metrics)
        self._threads = f"dssm-serve-{id(self):x}"
        self._pool = ThreadPoolExecutor(_MOST_THREADS, self._threads)
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._grpc, self._health = grpc_server(service, self._pool)
        self._host, self._port, self._credentials = host, port, credentials
        self.grpc_address = self.rest_address = ""
        self._socket: socket.socket | None = None
        if port is not None:
            _bound(host, port, "--port").close()
        if rest_api_port is not None:
            self._socket = _bound(host, rest_api_port, "--rest_api_port")
        application = RestApi(service, self._pool, timeout, page)
        config = uvicorn.Config(
            application, log_config=None, access_log=False, lifespan="off", ws="none",
            interface="asgi3", server_header=False, timeout_graceful_shutdown=10,
        )  # fmt: skip
        self._rest = uvicorn.Server(config)
        self._rest_thread = threading.Thread(
            target=self._rest.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    def load(self) -> None:
        """Loads the models.

        Raises:
            UserError: of a model no version can be loaded; nothing can be answered then.
        """
        for model in self._models:
            model.look(self._metrics.loaded)
            if model.current is None:
                self.stop()
                told = [f"{number} ({one.error})" for number, one in model.states().items()]
                raise UserError(
                    f"{model.source.directory}: no version of {model.name} can be served: "
                    f"{', '.join(told) or 'there is none'}"
                )

    def start(self) -> None:
        """Begins to answer; models that are not loaded yet are loaded first, see `load`."""
        self.load()
        if self._port is not None:
            self.grpc_address = join_address(self._host, self._add_port(self._port))
            self._grpc.start()
        if self._socket is not None:
            self._socket.listen(_WAITING)
            self.rest_address = join_address(self._host, self._socket.getsockname()[1])
            self._rest_thread.start()
            while not self._rest.started and self._rest_thread.is_alive():
                self._stopped.wait(0.01)
        self._watcher.start()

    def stop(self, grace: float = 10.0) -> None:
        """Takes no more requests, and ends when those that came are answered.

        Args:
            grace: seconds to wait for them.
        """
        self._stopped.set()
        self._health.enter_graceful_shutdown()
        ended = self._grpc.stop(grace)
        self._rest.should_exit = True
        if self._rest_thread.is_alive():
            self._rest_thread.join(grace)
        elif self._socket is not None:
            self._socket.close()
        ended.wait(grace)
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._watcher.is_alive():
            self._watcher.join(grace)

    def is_busy(self) -> bool:
        """Whether a stopped server still computes for somebody who has been told to go.

        Python would not end before it has.
        """
        own = [one for one in threading.enumerate() if one.name.startswith(self._threads)]
        for one in own:
            one.join(1)
        return any(one.is_alive() for one in own)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _add_port(self, port: int) -> int:
        """Binds gRPC's port, which was free a while ago; returns its number."""
        address = join_address(self._host, port)
        try:
            taken = (
                self._grpc.add_secure_port(address, self._credentials)
                if self._credentials
                else self._grpc.add_insecure_port(address)
            )
        except RuntimeError:
            self.stop()
            _bound(self._host, port, "--port").close()  # which says why
            raise UserError(f"--port {port}: gRPC cannot listen at {address}.") from None
        return int(taken)

    def _watch(self) -> None:
        while self._poll and not self._stopped.wait(self._poll):
            for model in self._models:
                model.look(self._metrics.loaded)


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
        address = join_address(host, port)
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"{flag} {port}: {address} is in use, by another server perhaps; choose another "
                "port, or stop it."
            ) from None
        why = error.strerror or str(error)
        raise UserError(f"{flag} {port}: cannot listen at {address} ({why}).") from None
    return bound
