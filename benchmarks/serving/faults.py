"""What befalls a server: clients that are killed or do not read, a full disk, a signal under load.

Each fault is put upon a running server; then its figures are read: nothing may be held for who is gone, nobody else may wait,
and nothing may end in a traceback.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.serving.client import HOST, Streamed, request_text, streamed
from benchmarks.serving.endurance import gauge
from benchmarks.serving.servers import RunningServer, ours, running

LONG = {"prompt": [3, 1, 4], "max_tokens": 400, "temperature": 0, "ignore_eos": True, "stream": True}
SHORT = {"prompt": [2, 7], "max_tokens": 16, "temperature": 0, "ignore_eos": True}
PATH = "/v1/completions"
CLIENTS, PLACES = 40, 8


def quiet(server: RunningServer, seconds: float = 20.0) -> float:
    """Seconds until no text runs or waits."""
    start = time.monotonic()
    while gauge(server, "anyformer_running_texts") + gauge(server, "anyformer_waiting_texts"):
        if time.monotonic() - start > seconds:
            raise SystemExit(f"after {seconds} seconds texts are still held: {server.get('/metrics').decode()[-3000:]}")
        time.sleep(0.05)
    return time.monotonic() - start


def asked(server: RunningServer, *, receive: int | None = None) -> socket.socket:
    """A connection on which a long stream was asked for; `receive`: bytes of its buffer."""
    connection = socket.socket()
    if receive is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    connection.connect((HOST, server.port))
    connection.sendall(request_text(PATH, LONG))
    return connection


def killed(server: RunningServer) -> dict[str, Any]:
    """Clients that reset their connections while their texts run or wait."""
    gone = [asked(server) for _ in range(CLIENTS)]
    while not gauge(server, "anyformer_running_texts"):
        time.sleep(0.01)
    for each in gone:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        each.close()
    return {"clients": CLIENTS, "seconds_until_free": round(quiet(server), 3), "next": fine(server)}


def unread(server: RunningServer) -> dict[str, Any]:
    """Clients that read nothing, in all places but one: another gets its text meanwhile, and the texts of the former end."""
    before = server.resident
    silent = [asked(server, receive=4096) for _ in range(PLACES - 1)]
    others = fine(server)
    freed = quiet(server, 120)
    grown = server.resident - before
    for each in silent:
        each.close()
    return {"clients": len(silent), "next": others, "seconds_until_free": round(freed, 3), "resident_grew_bytes": grown}


def fine(server: RunningServer) -> float:
    """Seconds of a short text, which must come whole."""
    found = asyncio.run(streamed(server.port, SHORT))
    if not found.whole or found.made != SHORT["max_tokens"]:
        raise SystemExit(f"a text of another client is not whole: {found}")
    return round(found.last, 3)


def full_disk(place: Path) -> dict[str, Any]:
    """A log on a disk without room: requests are answered, and the lost lines counted."""
    server = ours(place, "--length", "512", "--log", name="full disk")
    start = 'exec "$@" > /dev/full'
    full = type(server)(server.name, ("bash", "-c", start, "bash", *server.command))
    with running(full, place, threads=1, TMPDIR="/proc/nowhere") as made:
        for _ in range(5):
            fine(made)
        return {"requests": 5, "lines_lost": int(gauge(made, "anyformer_log_lines_lost_total")), "tracebacks": tracebacks(made)}


def terminated(place: Path) -> dict[str, Any]:
    """SIGTERM while as many texts run and wait as clients: all end whole, and the process with 0."""
    with running(ours(place, "--length", "512", "--grace", "60", name="terminated"), place, threads=1) as server:

        async def load() -> list[Streamed]:
            texts = [asyncio.create_task(streamed(server.port, LONG)) for _ in range(CLIENTS)]
            while not await asyncio.to_thread(gauge, server, "anyformer_running_texts"):
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            return list(await asyncio.gather(*texts))

        start, found = time.monotonic(), asyncio.run(load())
        code = server.process.wait(60)
        whole = sum(each.whole and each.made == LONG["max_tokens"] for each in found)
        taken = {"clients": CLIENTS, "whole": whole, "exit": code, "seconds": round(time.monotonic() - start, 2)}
        return {**taken, "tracebacks": tracebacks(server)}


def tracebacks(server: RunningServer) -> int:
    return server.said.count("Traceback")


def suffered(place: Path) -> dict[str, Any]:
    """What every fault did."""
    record: dict[str, Any] = {}
    with running(ours(place, "--length", "512", "--places", str(PLACES), name="faults"), place, threads=1) as server:
        faults: dict[str, Callable[[RunningServer], dict[str, Any]]] = {"killed clients": killed, "slow readers": unread}
        for name, fault in faults.items():
            record[name] = {**fault(server), "tracebacks": tracebacks(server)}
            print(name, record[name], file=sys.stderr, flush=True)
    record["full disk"] = full_disk(place)
    record["SIGTERM"] = terminated(place)
    wrong = [name for name, each in record.items() if each["tracebacks"]]
    if wrong or record["SIGTERM"]["whole"] != CLIENTS or record["SIGTERM"]["exit"] or not record["full disk"]["lines_lost"]:
        raise SystemExit(f"a fault was not borne: {record}")
    return record
