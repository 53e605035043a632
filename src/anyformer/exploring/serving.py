"""The server that runs the application on a port of this machine until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from anyformer.describe import UserError
from anyformer.exploring.desk import Desk

LOOPBACK = "127.0.0.1"


@contextmanager
def listening(port: int | None, usual: int) -> Iterator[tuple[socket.socket, str]]:
    """A socket of this machine alone, and its address; without a port the usual one, or any that is free where it is taken."""
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((LOOPBACK, usual if port is None else port))
        except OSError as error:
            if port is not None:
                raise UserError(
                    f"port {port} of this machine cannot be taken ({error.strerror}): give another --port"
                ) from None
            made.bind((LOOPBACK, 0))
        made.listen(128)
        yield made, f"http://{LOOPBACK}:{made.getsockname()[1]}"


def serve(desk: Desk, on: socket.socket) -> None:
    """Answer requests until Ctrl-C or SIGTERM."""
    import uvicorn

    from anyformer.exploring.memory import MemoryDesk
    from anyformer.exploring.server import application

    config = uvicorn.Config(application(desk, MemoryDesk()), log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[on])
