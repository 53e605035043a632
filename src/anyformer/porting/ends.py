"""What stands before the layers and behind them: tables of tokens, types and positions, narrow ones, and heads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from anyformer.model import Architecture
from anyformer.parts import InputProjection, LayerNorm, LearnedPosition, RMSNorm, Transform
from anyformer.parts.norms.norm import Norm
from anyformer.porting.changes import Put, PutAll
from anyformer.porting.explaining import Fit
from anyformer.porting.hint import Hint
from anyformer.porting.keys import LENGTHS
from anyformer.porting.looking import activations_in, norms_of_layer, of_another
from anyformer.porting.roles import role
from anyformer.porting.tensors import FileModule

_FURTHEST = 8
"""Rows of a table of positions before the first one, at most."""
_OF_HEADS = re.compile(r"head|predict|vocab|transform|decoder|classifier|(^|[._])(lm|cls|mlm|proj|output)([._]|$)")
"""What is in the names of layers between the last hidden state and the logits."""


def ends(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    """Every hint about what stands outside of layers, but norms."""
    yield from _head(fit)
    yield from _transform(fit)
    yield from _positions(fit, table)
    yield from _types(fit)
    yield from _narrow(fit)


def _outer(fit: Fit) -> Iterator[FileModule]:
    """Modules outside of layers that have no place."""
    yield from (each for each in fit.left if "{i}" not in each.name and each.shape is not None)


def _head(fit: Fit) -> Iterator[Hint]:
    """A head that has no tensor of its own is the embedding; one that has a tensor, and a bias of it, is not."""
    if any(source in ("head", "head.weight") for line in fit.missing for source in line.source):
        yield Hint("no tensor of the head: the embedding is tied to it", (Put("head.tied", True),))
    if any(source == "head.bias" for line in fit.missing for source in line.source):
        yield Hint("no bias of the head", (Put("head.bias", False),))
    vocab = _vocab(fit.architecture)
    for each in _outer(fit):
        if "head" in role(each.name) or (
            vocab is not None and each.shape == (vocab, _read(fit)) and _OF_HEADS.search(each.name)
        ):
            yield Hint("a tensor of the head: it is not tied", (Put("head.tied", False),), {"head": each.name})
        if vocab is not None and each.shape == (vocab,) and each.main == "bias":
            yield Hint("the head has a bias", (Put("head.bias", True),), {"head.bias": each.tensor})


def _vocab(architecture: Architecture | None) -> int | None:
    """V of an architecture whose head gives a logit per token."""
    assert architecture is not None
    if architecture.head is None or architecture.head.outputs is not None:
        return None
    return architecture.output_embedding.symbols


def _read(fit: Fit) -> int:
    """Features that the matrix of the head reads."""
    assert fit.architecture is not None
    assert fit.architecture.head is not None
    return fit.architecture.head.features(fit.architecture.width, fit.architecture.table_width)


def _transform(fit: Fit) -> Iterator[Hint]:
    """A dense layer before the matrix of tokens, a norm behind it, a first dense layer: as many as the files have."""
    architecture = fit.architecture
    assert architecture is not None
    if architecture.head is None or any(source.startswith("head.transform") for line in fit.missing for source in line.source):
        yield Hint("no dense layer before the head", (Put("head.transform", None),))
        return
    if architecture.head.transform is not None:
        return
    outer = [each for each in _outer(fit) if _OF_HEADS.search(each.name.lower())]
    dense = [
        each
        for each in outer
        if each.main == "weight" and len(each.shape or ()) == 2 and (each.shape or ())[1] == architecture.width
    ]
    vocab = _vocab(architecture)
    for each in dense:
        features, rows = (each.shape or (0, 0))[0], vocab
        norm = next((other for other in outer if other.shape == (features,) and other.main == "weight"), None)
        matrix = next((other for other in outer if other.shape == (rows, features) and other is not each), None)
        bias = next((other for other in outer if other.shape == (rows,) and other.main == "bias"), None)
        if matrix is None and features != architecture.table_width:
            continue
        part = Transform(
            activation=next(activations_in(architecture), "gelu"),
            norm=None if norm is None else _norm(architecture, norm),
            bias="bias" in each.leaves,
            width=None if matrix is None or features == architecture.table_width else features,
        )
        more = {"head.transform.dense": each.name}
        more |= {} if norm is None else {"head.transform.norm": norm.name}
        more |= {} if matrix is None else {"head": matrix.name}
        more |= {} if bias is None else {"head.bias": bias.tensor}
        biased = bias is not None or (matrix is not None and "bias" in matrix.leaves)
        values: dict[str, Any] = (
            {"head.transform": part} | ({"head.tied": False} if matrix else {}) | ({"head.bias": True} if biased else {})
        )
        yield Hint(f"a dense layer before the head: {each.name}", (PutAll.of(values),), more)


def _norm(architecture: Architecture, module: FileModule) -> Norm:
    """A norm as those of layers are, with a bias where the files have one."""
    like = next(norms_of_layer(architecture), None)
    eps = like.eps if isinstance(like, RMSNorm | LayerNorm) else 1e-12
    return LayerNorm(eps=eps) if "bias" in module.leaves else RMSNorm(eps=eps)


def _positions(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    """A learned table of positions; rows beyond the number that a key says stand before the first position."""
    assert fit.architecture is not None
    stacks = fit.architecture.stacks
    lengths = [table[key] for key in LENGTHS if isinstance(table.get(key), int)]
    for stack in stacks:
        if any(f"{stack}.position" in line.source for line in fit.missing):
            yield Hint("no table of positions", (Put(f"{stack}.position", None),))
        for each in _outer(fit):
            if (
                "positions" not in role(each.name)
                or len(each.shape or ()) != 2
                or of_another(stack, each.name, fit.architecture)
            ):
                continue
            rows = (each.shape or (0,))[0]
            offset = next((rows - length for length in lengths if 0 < rows - length <= _FURTHEST), 0)
            part = LearnedPosition(length=rows - offset, offset=offset)
            yield Hint(
                f"a table of {rows} learned positions" + (f", the first {offset} unused" if offset else ""),
                (Put(f"{stack}.position", part), Put("attention.rotary", None)),
                {f"{stack}.position": each.name},
            )


def _types(fit: Fit) -> Iterator[Hint]:
    """A table of the types of segments, whose first row is every token's unless types are given."""
    if any("embedding.types" in line.source for line in fit.missing):
        yield Hint("no table of types", (Put("embedding.types", 0),))
    for each in _outer(fit):
        if "types" in role(each.name) and len(each.shape or ()) == 2:
            count = (each.shape or (0,))[0]
            yield Hint(f"a table of {count} types", (Put("embedding.types", count),), {"embedding.types": each.tensor})


def _narrow(fit: Fit) -> Iterator[Hint]:
    """Embeddings of other features than the stream, and the matrix between them."""
    architecture = fit.architecture
    assert architecture is not None
    width = architecture.width
    for stack in architecture.stacks:
        if any(f"{stack}.input_projection" in line.source for line in fit.missing):
            values: dict[str, Any] = {"embedding_width": None, f"{stack}.input_projection": None}
            yield Hint("embeddings as wide as the stream", (PutAll.of(values),))
        tables = [each for each in _outer(fit) if "embedding" in role(each.name) and each.main == "weight"]
        for each in tables:
            rows, features = each.shape if each.shape and len(each.shape) == 2 else (0, 0)
            if rows != architecture.embedding.symbols or features in (0, width):
                continue
            for other in _outer(fit):
                if other.shape == (width, features):
                    part = InputProjection(bias="bias" in other.leaves)
                    values = {"embedding_width": features, f"{stack}.input_projection": part}
                    yield Hint(
                        f"embeddings of {features} features, and {other.name} to the stream",
                        (PutAll.of(values),),
                        {"embedding": each.name, f"{stack}.input_projection": other.name},
                    )
