"""How the weights of a model are held while it generates: products of few rows wait for the bytes of the weights."""

from __future__ import annotations

from collections.abc import Callable, Container

import torch
from torch import Tensor, nn

from anyformer.costs.examples import examples
from anyformer.describe import UserError
from anyformer.generation.native.decode import unavailable
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape, Weight
from anyformer.processor import multiplies_tiles
from anyformer.quantising import FORMATS, HALF, MatrixFormat, Quantising, plain_of
from anyformer.quantising.joint import OutputSlice, joined, read_together
from anyformer.quantising.model import WHOLE, format_of, quantisable, quantised
from anyformer.quantising.tensor import PackedMatrix, Quantised

STORED = "stored"
"""The name for weights as they are."""
BETWEEN = "/"
"""Stands between the format of the layers and that of the tables."""
TABLES = "int8"
"""The format of tables beside layers in 8 and 4 bits, where no other is named."""
SAMPLE = 128
"""Tokens and features of a table that every kernel takes."""


def computing(model: Transformer) -> torch.dtype:
    """The type to compute in: fp32 beside matrices of 32 bits, else bf16, but fp32 on a processor without AMX.

    There products alone take numbers of 16 bits, cast for each.
    """
    slow = model.device.type == "cpu" and not multiplies_tiles()
    return torch.float32 if slow or _in_32_bits(model) else torch.bfloat16


def state_type(model: Transformer) -> torch.dtype:
    """The type of decode states: bf16 beside matrices of at most 16 bits where C++ computes the steps, else as `computing`.

    Behind a long prompt a step waits for the bytes of keys and values. The steps in C++ read them as they lie; torch's calls
    would copy all of them to the type to compute in.
    """
    native = model.device.type == "cpu" and model.share is None and not unavailable()
    return torch.bfloat16 if native and not _in_32_bits(model) else computing(model)


def _in_32_bits(model: Transformer) -> bool:
    """Whether a matrix of a layer has numbers of more than 16 bits."""
    matrices = quantisable(model)
    return any(value.dtype.itemsize > 2 for name, value in model.named_parameters() if name in matrices)


def check_weights(weights: str, processes: int = 1, device: str = "cpu") -> None:
    """Raises `UserError` for a word that `generating` does not know, or not for a model of several processes or on a device."""
    layers, stroke, tables = weights.partition(BETWEEN)
    whole = layers != STORED and format_of(layers).whole
    if stroke:
        _check_tables(weights, tables, whole=whole, device=device)
    if processes > 1 and not whole and weights != STORED:
        raise UserError(
            f"weights {weights!r} are not divided among {processes} processes yet, since a part would have other scales than "
            "the whole: take fp32 or bf16, or start one process"
        )


def _check_tables(weights: str, tables: str, *, whole: bool, device: str) -> None:
    """Refuse a format of tables that there is not, or not there."""
    out = f"leave {BETWEEN}{tables} out"
    if whole:
        raise UserError(f"weights {weights!r}: tables have a format of their own beside layers in 8 and 4 bits alone: {out}")
    if not _takes(format_of(tables), (SAMPLE, SAMPLE)):
        there = (name for name, format in FORMATS.items() if _takes(format, (SAMPLE, SAMPLE)))
        raise UserError(f"weights {weights!r}: no kernel multiplies by a table in {tables}: take {', '.join(there)}, or {out}")
    if device != "cpu":
        raise UserError(f"weights {weights!r}: tables in few bits are a processor's, and the model is on {device}: {out}")


def _takes(format: MatrixFormat, shape: tuple[int, ...]) -> bool:
    """Whether a table beside layers in few bits may be in a format: in 16 bits, or in one for which there is a kernel."""
    return format.multiplies(shape) if isinstance(format, Quantising) else format.bits == HALF.bits


def generating(model: Transformer, weights: str = STORED) -> Transformer:
    """A model whose weights are held for generating, and learn no more: `model` itself, changed, or for few bits another one.

    `weights`: as they are stored, `fp32`, `bf16`, or a format of 8 or 4 bits for the matrices of layers; beside it tables of
    tokens and heads are in 8 bits with a scale per token, where a kernel multiplies by them, and all else is in 16. Behind a
    stroke a second format is that of tables and heads: `int4-64/int4-64`, or `stored/int8` where layers are stored in few bits.
    Matrices lie in the order in which products of few rows read them fastest, and all is computed as `computing` says.
    Raises `UserError` for a format that there is not, for one of tables that no kernel multiplies by in their sizes, and for a
    model in few bits that is to be in others.
    """
    check_weights(weights, 1 if model.share is None else model.share.processes, model.device.type)
    layers, _, tables = weights.partition(BETWEEN)
    if tables:
        _check_sizes(model, weights, format_of(tables), stored=layers == STORED)
    if layers != STORED:
        model = _in_format(model, format_of(layers))
    if tables or (layers != STORED and not format_of(layers).whole and model.device.type == "cpu"):
        model = _with_tables(model, format_of(tables or TABLES))
    return _laid_out(model)


def _check_sizes(model: Transformer, weights: str, format: MatrixFormat, *, stored: bool) -> None:
    """Refuse a format that is named for tables of sizes that no kernel takes in it, and beside layers that are stored whole."""
    if stored and not any(isinstance(value, Quantised) for value in model.parameters()):
        raise UserError(f"weights {weights!r}: the layers are not stored in few bits: name a format for them too")
    for path, weight in _declared(model, lambda weight: weight.of_vocabulary).items():
        if not _takes(format, weight.shape):
            raise UserError(
                f"weights {weights!r}: {path} has {' x '.join(map(str, weight.shape))} numbers, and no kernel multiplies by so "
                f"many in {format.name}: take another format behind {BETWEEN}, or none"
            )


def _in_format(model: Transformer, format: MatrixFormat) -> Transformer:
    """The model with its weights in a format."""
    if not format.whole:
        return quantised(model, format)[0]
    if any(isinstance(value, Quantised) for value in model.parameters()):
        raise UserError(f"this model's matrices are in few bits already, not to be had as {format.name}: leave --weights out")
    return model.to(WHOLE[format.bits])


def _with_tables(model: Transformer, format: MatrixFormat) -> Transformer:
    """The model itself with its tables of tokens and its heads in a format, where a kernel multiplies by them as they are.

    Beside layers in 4 bits a table of 16 bits would be half of what a token reads.
    """
    tables = _declared(model, lambda weight: weight.of_vocabulary and _takes(format, weight.shape))
    for name, module in model.named_modules():
        for leaf, value in list(module.named_parameters(recurse=False)):
            if f"{name}.{leaf}" in tables and not isinstance(value, Quantised):
                small = (
                    PackedMatrix.of(value, format) if isinstance(format, Quantising) else value.detach().to(WHOLE[format.bits])
                )
                setattr(module, leaf, nn.Parameter(small, requires_grad=False))
    return model


def _laid_out(model: Transformer) -> Transformer:
    """The model with each weight as products of few rows read it fastest."""
    matrices, tables = _declared(model, lambda weight: weight.multiplied), _declared(model, lambda weight: weight.of_vocabulary)
    dtype, held = computing(model), dict[int, nn.Parameter]()
    model.narrow_state = state_type(model)
    _join(model, matrices, dtype)
    for name, module in model.named_modules():
        for leaf, value in list(module.named_parameters(recurse=False)):
            path = f"{name}.{leaf}"
            if id(value) not in held:
                made = _held(value.detach(), dtype, looked_up=path in tables, multiplied=path in matrices)
                held[id(value)] = nn.Parameter(made, requires_grad=False)
            setattr(module, leaf, held[id(value)])
    return model


def _declared(model: Transformer, which: Callable[[Weight], bool]) -> dict[str, Weight]:
    """The weights that are declared so, by path."""
    return {path: weight for path, weight in model.architecture.trained_cost(Shape(source=1)).weights.items() if which(weight)}


def _join(model: Transformer, matrices: Container[str], dtype: torch.dtype) -> None:
    """Let matrices of layers that read the same input become one, each a span of its outputs."""
    places: dict[int, list[tuple[nn.Module, str]]] = {}
    for name, module in model.named_modules():
        for leaf, value in module.named_parameters(recurse=False):
            if f"{name}.{leaf}" in matrices and (isinstance(value, Quantised) or _ordered(value)):
                places.setdefault(id(value), []).append((module, leaf))
    if not places:
        return
    inputs = list(examples(model.architecture, Shape(source=1)))
    groups = read_together(lambda: model(*inputs), places)
    while groups:
        group = groups.pop()  # so that few lie in memory twice
        for matrix, piece in zip(group, joined(group, dtype) or (), strict=False):
            for module, leaf in places[id(matrix)]:
                setattr(module, leaf, nn.Parameter(piece, requires_grad=False))


def _ordered(value: Tensor) -> bool:
    """Whether a processor may have an order of its own for a matrix, or for several."""
    return value.is_floating_point() and value.dim() > 1 and value.device.type == "cpu"


def _held(value: Tensor, dtype: torch.dtype, *, looked_up: bool, multiplied: bool) -> Tensor:
    """One weight: a table whose rows may be looked up, a matrix of a layer, or another."""
    if isinstance(value, OutputSlice):
        return value
    if isinstance(value, Quantised):
        return PackedMatrix(value.planes, value.format, tuple(value.shape), dtype)
    if not value.is_floating_point():
        return value
    if not (looked_up or multiplied) or not _ordered(value):
        return value.to(torch.promote_types(value.dtype, dtype))  # such as gates of recurrences, which stay in 32 bits
    format = plain_of(value)
    planes = format.quantised(value) if looked_up else format.ordered(value)
    return PackedMatrix(planes, format, tuple(value.shape), dtype)
