"""The server on a real socket: bytes that no client sends, clients that go away or do not read, and a signal under load."""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from benchmarks.serving.client import request_text, streamed
from benchmarks.serving.raw import KINDS, answered, drawn_request
from zoo import DECODERS

from anyformer.model.transformer import build
from anyformer.serving.serve import ServiceServer, listening
from serving.service import service

LONG = {"prompt": [3, 1], "max_tokens": 50, "temperature": 0}


@contextmanager
def serving(made):
    """The port of a service that runs in a thread, and its server."""
    with listening("127.0.0.1", 0) as taken:
        server = ServiceServer(made, lambda line: None)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        try:
            yield taken.getsockname()[1], server
        finally:
            server.handle_exit(signal.SIGTERM, None)
            thread.join(30)
            assert not thread.is_alive()


def until(done, seconds=20):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it comes to that"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def model():
    return build(DECODERS["llama"]).eval()


def test_no_bytes_make_the_server_fail(model, capfd):
    with serving(service(model, None)) as (port, _):
        kinds = set()
        for seed in range(90):
            request = drawn_request(seed)
            kinds.add(request.kind)
            assert not {500, 502} & set(answered(port, request)), (seed, request)
        assert len(kinds) == len(KINDS)
        assert asyncio.run(streamed(port, LONG)).made == 50
    assert "Traceback" not in capfd.readouterr().err


def test_a_good_request_is_answered_however_it_is_cut(model):
    with serving(service(model, None)) as (port, _):
        for seed in range(60):
            request = drawn_request(seed)
            if request.kind == "in pieces":
                assert answered(port, request) == [200]
            if request.kind == "pipelined":
                count = request.pieces[0].count(b"POST")
                assert answered(port, request) == [200] * count


def test_clients_that_reset_their_connections_free_their_texts(model):
    made = service(model, None, length=2000, places=2)
    scheduler = made.worker.scheduler
    with serving(made) as (port, _):
        gone = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for each in gone:
            each.sendall(request_text("/v1/completions", {**LONG, "max_tokens": 1990, "stream": True}))
        until(lambda: scheduler.running and scheduler.waiting)
        for each in gone:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.close()
        until(lambda: scheduler.idle)
        assert asyncio.run(streamed(port, LONG)).whole
        assert 'anyformer_texts_total{reason="cancelled"} 5.0' in made.worker.metrics.text().decode()


def test_a_client_that_does_not_read_holds_up_no_one(model):
    made = service(model, None, length=2000, places=2)
    with serving(made) as (port, _), socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        silent.connect(("127.0.0.1", port))
        silent.sendall(request_text("/v1/completions", {**LONG, "max_tokens": 1900, "stream": True}))
        until(lambda: made.worker.scheduler.running)
        assert asyncio.run(streamed(port, LONG)).made == 50
        assert made.worker.scheduler.running, "the other one goes on"


def test_many_streams_at_once_lose_nothing(model):
    """The quick form of `python -m benchmarks.serving endurance`."""
    prompts = [(3, 1), (4,), (1, 5, 9), (2, 6)]
    made = service(model, None, places=6)

    async def ask(port):
        texts = (streamed(port, {**LONG, "prompt": prompts[number % 4], "max_tokens": 12}) for number in range(60))
        return await asyncio.gather(*texts)

    with serving(made) as (port, _):
        found = asyncio.run(ask(port))
    assert [(each.status, each.whole, each.made, each.error) for each in found] == [(200, True, 12, None)] * 60
    assert made.worker.scheduler.states.held == made.worker.scheduler.states.foretold


def test_a_signal_under_load_ends_every_text_whole(model):
    made = service(model, None)

    async def load(port, server):
        texts = [asyncio.create_task(streamed(port, LONG)) for _ in range(12)]
        while not made.worker.scheduler.running:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        server.handle_exit(signal.SIGTERM, None)
        return await asyncio.gather(*texts)

    with serving(made) as (port, server):
        found = asyncio.run(load(port, server))
    assert [(each.whole, each.made) for each in found] == [(True, 50)] * 12
    assert not server._captured_signals, "uvicorn would raise it again, and the process end as if killed"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has it")
def test_a_connection_gives_up_a_client_that_takes_nothing():
    with listening("127.0.0.1", 0) as taken, socket.create_connection(taken.getsockname()):
        connection, _ = taken.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
