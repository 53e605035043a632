"""Traces remembered in this process and in the user's cache directory: a machine traces a question once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, replace
from functools import cache, lru_cache
from typing import Any

from anyformer.cache import Cache, digest, files
from anyformer.costs.saved.live_bytes import LiveBytes
from anyformer.costs.saved.question import TraceQuestion
from anyformer.costs.saved.record import Saved, SavedTensor
from anyformer.costs.saved.sizes import LONG, MANY, at_batch, at_length, follows_batch
from anyformer.costs.traceable import check_traceable
from anyformer.describe import UserError, Value
from anyformer.model import Architecture

KEPT = Cache("saved")
_FEW, _MORE, _FAR = 2, 3, 1021
"""Batches from which other batches follow where bytes grow evenly: a prime far off shows sizes that are rounded."""
_known: dict[str, Saved] = {}
_batches: dict[str, set[int]] = {}


def saved(question: TraceQuestion) -> Saved:
    """Tensors that a forward pass saves, traced unless they are remembered.

    A batch follows from two others, and a length beyond any trace from three, where bytes grow by the law of `sizes`.
    """
    check_traceable()
    key = _key(question)
    if key not in _known:
        _known[key] = _derived_or_traced(question, key)
    _batches.setdefault(_family(question), set()).add(question.shape.batch)
    return _known[key]


def _derived_or_traced(question: TraceQuestion, key: str) -> Saved:
    shape = question.shape
    if shape.length >= LONG:
        return at_length(shape.length, lambda length: saved(_sized(question, length=length)))
    if shape.source >= LONG:
        return at_length(shape.source, lambda source: saved(_sized(question, source=source)))
    each = question.rows_each
    if shape.batch > MANY * each:
        ends = (each * MANY // 2, each * MANY)
        return at_batch(_at_batches(question, ends), ends, shape.batch)
    if shape.batch > each and _other_batches(question):
        (far,) = _at_batches(question, (each * _FAR,))
        for ends in _ends(question):
            if follows_batch(traced := _at_batches(question, ends), ends, far, each * _FAR):
                return at_batch(traced, ends, shape.batch)
    if not (_ours(question.architecture) and (question.signal is None or _ours(question.signal.parts))):
        return _traced(question)
    found = _read(key)
    if found is None:
        found = _traced(question)
        _write(key, found)
    return found


def _ends(question: TraceQuestion) -> Iterator[tuple[int, int]]:
    """Pairs of batches from which others may follow. A sample alone is often computed in other steps, so it is taken only
    where it was asked for, which saves a trace."""
    each = question.rows_each
    if each in _batches[_family(question)]:
        yield each, each * _FEW
    yield each * _FEW, each * _MORE


def _at_batches(question: TraceQuestion, batches: Iterable[int]) -> list[Saved]:
    return [saved(_sized(question, batch=batch)) for batch in batches]


def _other_batches(question: TraceQuestion) -> bool:
    """Whether the question was answered for other batches, except those from which others follow."""
    each = question.rows_each
    from_others = question.shape.batch not in (each * _FEW, each * _MORE, each * _FAR)
    return from_others and bool(_batches.get(_family(question), set()) - {each})


def _sized(question: TraceQuestion, **sizes: int) -> TraceQuestion:
    return replace(question, shape=replace(question.shape, **sizes))


def _ours(value: Any) -> bool:
    """Whether the package itself defines every part of a description: the code of others is not in the key."""
    if isinstance(value, Value):
        own = type(value).__module__.startswith("anyformer.")
        return own and all(_ours(getattr(value, name)) for name in type(value).model_fields)
    if isinstance(value, Mapping):
        return all(map(_ours, value.values()))
    return all(map(_ours, value)) if isinstance(value, tuple) else True


def _traced(question: TraceQuestion) -> Saved:
    # Tracing imports what reading does not need.
    from anyformer.costs.saved.tracing import trace

    try:
        return trace(question)
    except RuntimeError as error:
        if "overflow" in str(error):
            raise UserError(f"tensors of {question.shape} are too large to be counted: make a size smaller") from error
        raise


def _family(question: TraceQuestion) -> str:
    """A digest of the question without its batch."""
    return _key(_sized(question, batch=question.rows_each))


def _key(question: TraceQuestion) -> str:
    """A digest of all that the answer depends on: the question, and the code that is traced."""
    learning = question.learning
    facts = {
        "architecture": _digest(question.architecture),
        "shape": astuple(question.shape),
        "plan": [question.precision.plain(), question.plan.attention, question.plan.chunk],
        "how": [question.recomputed, question.scoreless],
        "learning": None
        if learning is None
        else [
            sorted(learning.weights),
            sorted(learning.ranks.items()),
            learning.beside.plain() if learning.ranks else None,
        ],
        "signal": None if question.signal is None else question.signal.facts(question.shape),
        "code": _code(),
    }
    return digest(facts)


@lru_cache(maxsize=64)
def _digest(architecture: Architecture) -> str:
    """A search for the largest batch asks for the digest of one architecture hundreds of times."""
    return architecture.digest


@cache
def _code() -> str:
    """A digest of torch's version and of every file that is traced, as it stands."""
    import torch

    return digest([torch.__version__, files("precision", "tuning", "parts", "model", "costs", "objectives")])


def _read(key: str) -> Saved | None:
    written = KEPT.read(key)
    if written is None:
        return None
    tensors = tuple(SavedTensor(*fields) for fields in written["tensors"])
    return Saved(tensors, written["like"], _live(written["live"]))


def _live(written: list[Any]) -> tuple[LiveBytes, ...]:
    return tuple(LiveBytes(layer, tuple(before), size) for layer, before, size in written)


def _write(key: str, traced: Saved) -> None:
    KEPT.write(key, {"tensors": traced.tensors, "like": dict(traced.like), "live": traced.live})
