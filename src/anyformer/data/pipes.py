"""Messages between a process and a fresh interpreter that it started: lists of byte strings with their lengths before them."""

from __future__ import annotations

import os
import struct
import sys
from typing import IO, Any


def environment(**more: str) -> dict[str, str]:
    """The environment of a fresh interpreter that finds this package where this process found it."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


def send(stream: IO[bytes], parts: list[bytes]) -> None:
    stream.write(struct.pack(f"<I{len(parts)}Q", len(parts), *map(len, parts)))
    for part in parts:
        stream.write(part)
    stream.flush()


def receive(stream: IO[bytes]) -> list[bytes]:
    (count,) = struct.unpack("<I", _exactly(stream, 4))
    lengths: tuple[Any, ...] = struct.unpack(f"<{count}Q", _exactly(stream, 8 * count))
    return [_exactly(stream, length) for length in lengths]


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data
