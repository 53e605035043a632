"""What the loss of a token takes beside its logits."""

from __future__ import annotations

PIECE = {"cpu": 2**20, "cuda": 2**24}
"""Logits whose numbers in fp32 stand at once: on a CPU what stays in its cache, elsewhere what fills the device."""


def backward_bytes(logits: int, each: int) -> int:
    """Bytes that the backward pass takes on a CPU beside what it saved, for `logits` bytes of logits of `each` bytes.

    Their gradient; a piece of the softmax in fp32; and a piece of the logits in fp32, where they have another type.
    """
    return logits + min(logits // each, PIECE["cpu"]) * (4 if each == 4 else 8)
