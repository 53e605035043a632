"""Running a service on a port until it is told to stop."""

from __future__ import annotations

import gc
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from anyformer.describe import UserError
from anyformer.serving.application import ModelService, application
from anyformer.training.allocator import keep_large_apart

LOOPBACK = "127.0.0.1"
LATER = 5
"""Seconds that are left for answers to be sent when all texts were ended."""
MOST_CONNECTIONS = 4096
UNREAD = 60
"""Seconds after which a client that takes nothing of what was sent is given up."""


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at an address of this machine. Raises `UserError` where it cannot be had."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family)
    except OSError as error:
        raise UserError(f"--host {host}: no address of this machine ({error.strerror}): give 127.0.0.1, or 0.0.0.0") from None
    with made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # connections have what the socket has that takes them
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * UNREAD)
        try:
            made.bind(address)
        except OSError as error:
            raise UserError(f"port {port} of {host} cannot be taken ({error.strerror}): give another --port") from None
        made.listen(1024)
        yield made


class ServiceServer(uvicorn.Server):
    """At the first signal takes no more requests, gives texts their time to end, and then ends them."""

    def __init__(self, service: ModelService, tell: Callable[[str], None]) -> None:
        self._service, self._tell = service, tell
        super().__init__(
            uvicorn.Config(
                application(service), log_level="warning", access_log=False, server_header=False, ws="none",
                timeout_graceful_shutdown=int(service.grace) + LATER, limit_concurrency=MOST_CONNECTIONS,
            )
        )  # fmt: skip

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        worker, grace = self._service.worker, self._service.grace
        if not worker.stopping:
            scheduler = worker.scheduler
            count = scheduler.running + scheduler.waiting
            self._tell(f"stops: {count} texts are under way or wait, and have {grace:g} s")
            worker.drain()
            timer = threading.Timer(grace, worker.end)
            timer.daemon = True
            timer.start()
        # uvicorn would raise the signal again in the end: whoever asked it to stop would read of a process that was killed.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def allow_connections() -> None:
    """Let the process have as many files as connections need: many systems begin with 1,024, far below what they allow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 2 * MOST_CONNECTIONS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def serve(service: ModelService, on: socket.socket, tell: Callable[[str], None] = lambda line: None) -> None:
    """Answer requests until SIGTERM or Ctrl-C; at SIGHUP load the weights again."""
    reload, hangup = service.reload, getattr(signal, "SIGHUP", None)  # which Windows lacks
    if reload is not None and hangup is not None:
        signal.signal(hangup, lambda *_: threading.Thread(target=_reload, args=(reload, tell), daemon=True).start())
    allow_connections()
    keep_large_apart()
    gc.collect()
    gc.freeze()  # what was loaded stays, and answers that have ended are found without going through it
    ServiceServer(service, tell).run(sockets=[on])


def _reload(reload: Callable[[], int], tell: Callable[[str], None]) -> None:
    tell("loads the weights again")
    try:
        tell(f"has the new weights; {reload()} texts end with the old")
    except UserError as error:
        tell(f"keeps the old weights: {error}")
