"""Text to test with."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import pyarrow

from anyformer.data import Corpus

Prepare = Callable[..., Corpus]
_LINE = "the quick brown fox jumps over a lazy dog while café naïve 日本 123456 and <|endoftext|> is text\n"
_WORDS = tuple(_LINE.split(" "))


def prose(seed: int, words: int) -> str:
    """Deterministic text of varied words and lines."""
    state, out = seed * 2654435761 + 1, []
    for _ in range(words):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(_WORDS[(state >> 33) % len(_WORDS)])
    return " ".join(out)


def zstandard(content: bytes) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard,
}  # fmt: skip
