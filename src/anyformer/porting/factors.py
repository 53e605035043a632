"""Factors that are measured: where the stream departs from the reference's, by how much what was added to it is off."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from anyformer.describe import DescriptionError, get
from anyformer.model import Architecture
from anyformer.parts import Embedding
from anyformer.porting.changes import Put
from anyformer.porting.hint import Hint
from anyformer.porting.looking import blocks_in
from anyformer.porting.probes import Probe, ProbedRun

_STREAM = re.compile(r"\w+\.(layers\.\d+\.(\w+\.norm_before|step_\d+_norm_(before|after))|final_norm|input_norm)")
"""Modules of ours whose input is the residual stream."""
_BRANCH = re.compile(r"(\w+\.layers\.\d+\.(\w+)\.sublayer)\b.*")
_EXACT = 1e-4
"""Largest part of the reference's stream that two factors may leave unexplained."""


def factors(
    architecture: Architecture, mine: ProbedRun, theirs: Tensor | None, first: Probe | None, logits: tuple[Tensor, Tensor]
) -> Iterator[Hint]:
    """Factors of embeddings, of a branch or of logits that make the reference's numbers of ours, where two of them do.

    `theirs`: what goes into the first place that departs; with none of these places (`first` None) the logits are compared.
    """
    if first is None:
        yield from _of_logits(architecture, *logits)
    elif theirs is not None and first.side == "input" and _STREAM.fullmatch(first.where):
        yield from _of_stream(architecture, mine, first.where, theirs)


def _of_logits(architecture: Architecture, ours: Tensor, theirs: Tensor) -> Iterator[Hint]:
    head = architecture.resolved().head
    if head is None or head.outputs is not None or ours.numel() != theirs.numel():
        return
    (factor,), left = _solved([ours], theirs)
    if left <= _EXACT and isinstance(head.scale, float) and factor > 0:
        yield Hint(
            f"factor of logits, measured: {_plain(factor * head.scale)}", (Put("head.scale", _plain(factor * head.scale)),)
        )


def _of_stream(architecture: Architecture, mine: ProbedRun, where: str, theirs: Tensor) -> Iterator[Hint]:
    """theirs = a s + b d of our stream s before, and of what was added to it since, d."""
    at = mine.order.index(where)
    stream = mine.inputs[where]
    if stream.numel() != theirs.numel():
        return
    theirs = theirs.reshape(stream.shape)
    latest = next((found for name in reversed(mine.order[:at]) if (found := _BRANCH.fullmatch(name))), None)
    branch = None if latest is None else latest[2]
    begun = 0 if latest is None else mine.order.index(latest[1])
    before = next((name for name in reversed(mine.order[:begun]) if _STREAM.fullmatch(name)), None)
    if branch is None:
        table = mine.outputs.get("embedding")
        embedding = architecture.resolved().embedding
        if table is None or table.shape != stream.shape or not isinstance(embedding, Embedding):
            return
        rest = stream - table
        (factor, same), left = _solved([table, rest], theirs)
        scale = embedding.scale
        if left <= _EXACT and (abs(same - 1) < _EXACT or not bool(rest.abs().max() > _EXACT)) and isinstance(scale, float):
            value = _plain(factor * scale)
            yield Hint(f"factor of embeddings, measured: {value}", (Put("embedding.scale", value),))
    elif before is not None and mine.inputs[before].shape == stream.shape:
        kept = mine.outputs[before] if before.endswith("norm_after") else mine.inputs[before]
        (same, factor), left = _solved([kept, stream - kept], theirs)
        if left <= _EXACT and abs(same - 1) < _EXACT:
            for multiplier in dict.fromkeys(_multipliers(architecture, branch)):
                value = _plain(factor * multiplier)
                yield Hint(f"factor of {branch.replace('_', ' ')}, measured: {value}", (Put(f"{branch}.multiplier", value),))


def _multipliers(architecture: Architecture, branch: str) -> Iterator[float]:
    for block in blocks_in(architecture):
        try:
            yield float(get(block, f"{branch}.multiplier"))
        except DescriptionError:
            continue


def _solved(parts: list[Tensor], whole: Tensor) -> tuple[tuple[float, ...], float]:
    """The factors of parts whose sum is nearest to the whole, and the largest part of it that they leave."""
    columns = torch.stack([part.flatten().double() for part in parts], 1)
    target = whole.flatten().double()
    found = torch.linalg.lstsq(columns, target[:, None], driver="gelsd").solution[:, 0]
    left = (columns @ found - target).abs().max() / target.abs().max().clamp(min=1e-30)
    return tuple(found.tolist()), float(left)


def _plain(value: float) -> float:
    """The number with the fewest digits that is as near as a measurement in fp32 can tell."""
    rounded = (float(f"{value:.{digits}g}") for digits in range(1, 8))
    return next((each for each in rounded if abs(each - value) <= 2e-6 * abs(value)), value)
