"""Damage to bytes, drawn: bits flipped, numbers replaced, pieces cut, doubled, moved or filled."""

from __future__ import annotations

import random

NUMBERS = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\xef\xbb\xbf",
    b"\x1b[2J",
)


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Another content, one to four damages away."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        content = _once(bytearray(content), draw)
    return content


def _once(data: bytearray, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    length = draw.choice((1, 2, 4, 16, 256))
    match draw.choice(("flip", "flip", "number", "number", "cut", "gone", "twice", "moved", "more")):
        case "flip":
            for _ in range(draw.choice((1, 1, 8, 50)) if data else 0):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case "number":
            number = draw.choice(NUMBERS)
            data[at : at + len(number)] = number
        case "cut":
            del data[at:]
        case "gone":
            del data[at : at + length]
        case "twice":
            data[at:at] = data[at : at + length] * draw.choice((1, 2, 1000))
        case "moved":
            piece = data[at : at + length]
            del data[at : at + length]
            to = draw.randrange(len(data) + 1)
            data[to:to] = piece
        case "more":
            data += draw.randbytes(length)
    return bytes(data)
