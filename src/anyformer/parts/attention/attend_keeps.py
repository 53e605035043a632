"""What attention keeps for backward, with each kernel: the sizes beside the functions of `attend`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from anyformer.parts.attention.attend import kernel_of
from anyformer.parts.masks.band import Band, band_of
from anyformer.parts.masks.mask import Mask
from anyformer.tally import Shape
from anyformer.tape import Held, Tape


@dataclass(frozen=True)
class Sizes:
    """H query heads, K of keys and values, E features of a key, U of a value.

    `packed`: values stand in memory head by head. `turned`: features do not stand side by side, which no kernel takes.
    """

    heads: int
    groups: int
    key: int
    value: int
    packed: bool = False
    turned: bool = False


@dataclass(frozen=True)
class Seen:
    """What queries see of `keys` keys: `all`, the lower triangle that kernels know (`causal`), or a written `mask`.

    `mask`: who says which, once for all layers, None where each layer writes its own; `rows`: how many masks, one of each row
    where each has a prefix of its own.
    """

    kind: Literal["all", "causal", "mask"]
    keys: int
    mask: Mask | None = None
    band: Band | None = None
    rows: int = 1

    @staticmethod
    def of(mask: Mask, shape: Shape, *, banded: bool, virtual: int = 0) -> Seen:
        """As `Context.visible` decides for rows without padding and documents; `virtual` keys in front every query sees."""
        length, shared = shape.length, None if virtual else mask
        if shape.prefix:
            return Seen("mask", length + virtual, shared, rows=_masks(mask, shape.batch))
        if mask.kind == "causal" and not virtual:
            return Seen("causal", length)
        return Seen("mask", length + virtual, shared, band_of(mask, length, aligned=True) if banded else None)


def _masks(mask: Mask, batch: int) -> int:
    """B where the mask looks at the prefix of each row, else 1."""
    first = torch.zeros(1, 1, 1, dtype=torch.int64)
    return mask.allowed(first, first, first.expand(batch, 1, 1)).shape[0]


def attend_keeps(
    tape: Tape,
    of: Sizes,
    q: Held,
    k: Held,
    v: Held,
    seen: Seen,
    bias: Held | None = None,
    *,
    capped: bool = False,
    sink: bool = False,
    dropout: float = 0.0,
) -> Held:
    """What `attend` keeps; the scores of the plain kernel are 4 B H T S bytes and more, the others keep none."""
    B, T, S = tape.shape.batch, tape.shape.length, seen.keys
    dropout = dropout if tape.training else 0.0
    own = capped or sink or dropout > 0
    if seen.band is not None:
        blocks = -(-T // seen.band.size)
        B, T, S = B * blocks, seen.band.size, seen.band.keys
        lengths = ((q, T * of.heads * of.key), (k, S * of.groups * of.key), (v, S * of.groups * of.value))
        q, k, v = (tape.new(B * each, x.number) for x, each in lengths)
    if tape.scoreless:
        mixed = _fused_keeps(tape, of, q, k, v, (B, T, S), Seen("all", S), None)
    elif (kernel := kernel_of(tape.plan.attention, T, S, own=own)) == "plain":
        mixed = _plain_keeps(tape, of, q, k, v, (B, T, S), seen, capped=capped, sink=sink, dropout=dropout)
    elif kernel == "blocks":
        mixed = _blocks_keep(tape, of, q, k, v, (B, T, S), seen, bias)
    elif of.turned or of.key != of.value or (bias is not None and bias.learns):
        mixed = _composed_keeps(tape, of, q, k, v, (B, T, S), seen, bias)
    else:
        mixed = _fused_keeps(tape, of, q, k, v, (B, T, S), seen, bias)
    elements = tape.rows * of.heads * of.value
    if seen.band is None:
        return mixed
    mixed = tape.like(mixed) if mixed.apart else mixed
    if elements == mixed.elements:
        return mixed
    # The last block is filled up; what fills it is cut off.
    return Held(elements, mixed.number, base=mixed, apart=tape.shape.batch > 1)


def _plain_keeps(
    tape: Tape,
    of: Sizes,
    q: Held,
    k: Held,
    v: Held,
    sides: tuple[int, int, int],
    seen: Seen,
    *,
    capped: bool,
    sink: bool,
    dropout: float,
) -> Held:
    """q, k, v as one matrix per head, copied where they are not; shares in fp32, and in the type of products."""
    B, T, S = sides
    pairs = B * of.heads * T * S
    rows_apart = B > 1 and of.groups > 1
    q = tape.like(q) if rows_apart or (of.heads != of.groups and T > 1) else q
    k = tape.like(k) if rows_apart else k
    v = tape.like(v) if rows_apart and not of.packed else v
    tape.keep("scores.inputs", q, k)
    if capped:
        tape.keep("softcap", tape.new(pairs, "fp32"))
    if seen.kind != "all":
        tape.keep("mask", tape.new((seen.rows if seen.band is None else B) * T * S, "bool", learns=False))
    shares = tape.new(pairs + (B * of.heads * T if sink else 0), "fp32")
    tape.keep("softmax", shares)
    used = shares if v.number == "fp32" else tape.new(pairs, v.number)
    used = tape.dropped("dropout", used, dropout)
    tape.keep("mix.inputs", used, v)
    tape.gives("scores", tape.new(pairs, q.number))
    return tape.gives("mix", Held(B * of.heads * T * of.value, v.number, apart=of.heads > 1 < of.value))


def _blocks_keep(
    tape: Tape, of: Sizes, q: Held, k: Held, v: Held, sides: tuple[int, int, int], seen: Seen, bias: Held | None
) -> Held:
    """q, k and v, and what is there for all layers: the mask and the bias."""
    B, T, S = sides
    tape.keep("blocks", q, k, v)
    if seen.kind == "mask":
        banded = seen.band is not None
        allowed = tape.new((B if banded else seen.rows) * T * S, "bool", learns=False)
        alone = seen.mask is None or (banded and tape.shape.batch > 1)
        tape.keep("mask", allowed if alone else tape.shared(("mask", seen.mask, S, banded), lambda: allowed))
    if bias is not None:
        tape.keep("bias", bias)
    return tape.gives("mix", tape.new(B * of.heads * T * of.value, q.number))


def _fused_keeps(
    tape: Tape, of: Sizes, q: Held, k: Held, v: Held, sides: tuple[int, int, int], seen: Seen, bias: Held | None
) -> Held:
    """q, k, v, what it gives, log Z in fp32 and the mask as numbers (Dao et al. 2022, arXiv 2205.14135, algorithm 1)."""
    B, T, S = sides
    mixed = tape.new(B * of.heads * T * of.value, q.number)
    log_z = tape.new(B * of.heads * T, "fp32")
    tape.keep("kernel", q, k, v, mixed, log_z)
    if bias is not None:
        tape.keep("kernel.mask", tape.new(of.heads * T * S, q.number, learns=False))
    elif seen.kind == "mask":
        tape.keep("kernel.mask", tape.new((seen.rows if seen.band is None else B) * T * S, q.number, learns=False))
    return tape.gives("kernel", mixed, log_z)


def _composed_keeps(
    tape: Tape, of: Sizes, q: Held, k: Held, v: Held, sides: tuple[int, int, int], seen: Seen, bias: Held | None
) -> Held:
    """Where no kernel of torch fits, its own composition of operations."""
    B, T, S = sides
    pairs = B * of.heads * T * S
    if bias is not None and bias.learns and seen.kind != "all":
        allowed = tape.new(seen.rows * T * S, "bool", learns=False)
        tape.keep("mask", allowed if seen.mask is None else tape.shared(("mask", seen.mask, S, False), lambda: allowed))
    written_out = (B > 1 and not of.packed) or of.heads != of.groups or v.number != "fp32"
    q = tape.new(B * of.heads * T * of.key, "fp32")
    k = tape.new(B * of.heads * S * of.key, "fp32")
    v = tape.new(B * of.heads * S * of.value, "fp32") if written_out else v
    tape.keep("composed", q, k, v, tape.new(pairs, "fp32"))
    tape.gives("scores", tape.new(pairs, "fp32"))
    mixed = tape.gives("mix", Held(B * of.heads * T * of.value, "fp32", apart=of.heads > 1 < of.value))
    return tape.cast(mixed, tape.products)
