"""Requests that no client library would send: what goes over the socket is drawn with a seed."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.serving.client import HOST, request_text

GOOD = {"prompt": [3, 1, 4], "max_tokens": 2, "temperature": 0}
PATH = "/v1/completions"


@dataclass(frozen=True)
class RawRequest:
    """`pieces`: bytes that are sent one after the other; `hangs_up`: before an answer is read."""

    kind: str
    pieces: tuple[bytes, ...]
    hangs_up: bool = False


def _good() -> bytes:
    return request_text(PATH, GOOD)


def truncated(drawn: random.Random) -> RawRequest:
    """A request that ends somewhere."""
    whole = _good()
    return RawRequest("truncated", (whole[: drawn.randrange(len(whole))],), hangs_up=True)


def in_pieces(drawn: random.Random) -> RawRequest:
    """A good request, byte by byte or in a few pieces."""
    whole = _good()
    cuts = sorted(drawn.sample(range(1, len(whole)), drawn.randrange(1, 12)))
    return RawRequest("in pieces", tuple(whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)))


def garbage(drawn: random.Random) -> RawRequest:
    """Any bytes."""
    return RawRequest("garbage", (drawn.randbytes(drawn.randrange(1, 2000)) + b"\r\n\r\n",))


def flipped(drawn: random.Random) -> RawRequest:
    """A good request in which some bytes are others."""
    whole = bytearray(_good())
    for _ in range(drawn.randrange(1, 6)):
        whole[drawn.randrange(len(whole))] = drawn.randrange(256)
    return RawRequest("flipped", (bytes(whole),), hangs_up=True)


def huge_headers(drawn: random.Random) -> RawRequest:
    """Many headers, or a long one."""
    size = drawn.choice([2**12, 2**14, 2**16, 2**18])
    many = drawn.random() < 0.5
    more = b"".join(b"X-%d: a\r\n" % n for n in range(size // 16)) if many else b"X-Long: " + b"a" * size + b"\r\n"
    return RawRequest("huge headers", (_good().replace(b"Content-Type", more + b"Content-Type", 1),))


def pipelined(drawn: random.Random) -> RawRequest:
    """Several requests at once on one connection."""
    one = _good().replace(b"Connection: close\r\n", b"")
    return RawRequest("pipelined", (one * drawn.randrange(2, 5) + _good(),))


def wrong_lengths(drawn: random.Random) -> RawRequest:
    """A length that is not that of the body, not a number, or given twice."""
    whole = _good()
    said = drawn.choice([b"0", b"1", b"-1", b"99999999999999999999", b"1e3", b"\xff", b"", b"7\r\nContent-Length: 9", b"+5"])
    head, _, body = whole.partition(b"Content-Length: ")
    return RawRequest("wrong lengths", (head + b"Content-Length: " + said + body[body.index(b"\r\n") :],), hangs_up=True)


def chunked(drawn: random.Random) -> RawRequest:
    """A body in chunks whose sizes may be wrong."""
    size = drawn.choice([b"5", b"ffffffffffffffff", b"-1", b"zz", b"", b"0x5", b"5;a=" + b"b" * 5000])
    start = f"POST {PATH} HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return RawRequest("chunked", (start + size + b"\r\n{}   \r\n0\r\n\r\n",), hangs_up=True)


def other_lines(drawn: random.Random) -> RawRequest:
    """Other methods, versions, addresses and hosts."""
    method = drawn.choice(["GET", "POST", "PUT", "TRACE", "CONNECT", "OPTIONS", "HEAD", "get", "\x00", "A" * 300])
    path = drawn.choice(["/", "*", PATH, "/%00", "/%ff%fe", "/..;/", "http://a/", "/v1/models/%2e%2e", "/" + "a" * 9000])
    protocol = drawn.choice(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", "", "ICY"])
    host = drawn.choice([HOST, "", "evil.example", "[::1]", "[", "a" * 3000, "127.0.0.1:99999", "\xff"])
    return RawRequest("other lines", (f"{method} {path} {protocol}\r\nHost: {host}\r\n\r\n".encode("latin-1"),), hangs_up=True)


KINDS: tuple[Callable[[random.Random], RawRequest], ...] = (
    truncated, in_pieces, garbage, flipped, huge_headers, pipelined, wrong_lengths, chunked, other_lines,
)  # fmt: skip


def drawn_request(seed: int) -> RawRequest:
    """The request of a seed."""
    drawn = random.Random(seed)
    return drawn.choice(KINDS)(drawn)


def answered(port: int, request: RawRequest, seconds: float = 20.0) -> list[int]:
    """The statuses of the answers to a request, in order; none where the connection was closed without one."""
    with socket.create_connection((HOST, port), timeout=seconds) as connection:
        try:
            for piece in request.pieces:
                connection.sendall(piece)
            if request.hangs_up:
                connection.shutdown(socket.SHUT_WR)
            got = b""
            while data := connection.recv(65536):
                got += data
        except (ConnectionResetError, BrokenPipeError):
            return []
    return [int(status) for status in re.findall(rb"HTTP/1\.\d (\d{3}) ", got)]
