"""A model whose matrices are in few bits, and what that did to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.model.adapters import made_of
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape, Weight
from anyformer.quantising.calibrated import calibrated, watching
from anyformer.quantising.format import MatrixFormat, Quantising
from anyformer.quantising.formats import FORMATS
from anyformer.quantising.grouped import Grouped
from anyformer.quantising.tensor import Quantised, restored, stored_bytes

WHOLE = {16: torch.bfloat16, 32: torch.float32}
"""The type of plain numbers of so many bits."""


@dataclass(frozen=True)
class QuantisingReport:
    """What quantising did: bytes of all weights before and after, and of each matrix its relative error |W' - W| / |W|."""

    format: str
    before: int
    after: int
    errors: Mapping[str, float]
    calibrated: tuple[str, ...]
    """The matrices whose codes were chosen by their inputs."""

    @property
    def nearest(self) -> tuple[str, ...]:
        """The matrices whose numbers were rounded to the nearest."""
        return tuple(name for name in self.errors if name not in self.calibrated)


def format_of(name: str) -> MatrixFormat:
    """The format of this name. Raises `UserError` for one that there is not."""
    if name not in FORMATS:
        raise UserError(f"{name!r} is no format of weights; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def quantisable(model: Transformer) -> dict[str, Weight]:
    """The weights that formats below 16 bits hold, by path: what their parts declare as matrices of blocks."""
    return {
        path: weight for path, weight in model.architecture.trained_cost(Shape(source=1)).weights.items() if weight.quantisable
    }


def quantised(
    model: Transformer, format: MatrixFormat, run: Callable[[Transformer], object] | None = None
) -> tuple[Transformer, QuantisingReport]:
    """A model with its matrices in `format` and everything else in 16 or 32 bits as the format says; `model` stays as it is.

    `run`: calls the model on text that is like what it will read; matrices of linear maps that are called then get the codes
    that change their outputs least (GPTQ), others are rounded to the nearest. Raises `UserError` for a model that is quantised
    already.
    """
    held = dict(model.named_parameters())
    if any(isinstance(value, Quantised) for value in held.values()):
        raise UserError("this model's matrices are in few bits already: start from the model that it was made of")
    if run is not None and not isinstance(format, Grouped):
        raise UserError(f"{format.name} has no calibrated form: leave the text out, or take int4 or int8")
    matrices = {} if format.whole else quantisable(model)
    moments = {} if run is None else _moments(model, matrices, run)
    made: dict[str, Tensor] = {}
    errors = {}
    other = WHOLE[format.other_bits]
    for path, value in held.items():
        if path in matrices:
            assert isinstance(format, Quantising)
            made[path] = matrix = _stored(value, moments.get(path), format, other)
            errors[path] = _error(value, matrix)
        else:
            made[path] = value.detach().to(other) if value.is_floating_point() else value.detach()
    before, after = (sum(map(stored_bytes, values)) for values in (held.values(), made.values()))
    return _with(model, made), QuantisingReport(
        format.name, before, after, errors, tuple(path for path in errors if path in moments)
    )


def hold(model: nn.Module, path: str, format: MatrixFormat) -> None:
    """Put the weight at a path into `format`, in the model itself, each number rounded to the nearest; it learns no more."""
    assert isinstance(format, Quantising), f"{format.name} stores plain numbers"
    matrix = model.get_parameter(path)
    held_as(model, path, Quantised.empty(matrix, format) if matrix.is_meta else Quantised.of(matrix, format))


def held_as(model: nn.Module, path: str, value: Quantised) -> None:
    """Put a matrix in few bits at a path to the bit, as a weight that learns no more, of the type of the one that was there."""
    owner, _, leaf = path.rpartition(".")
    holder = model.get_submodule(owner)
    was = holder.get_parameter(leaf)
    planes = {name: plane.to(was.device) for name, plane in value.planes.items()}
    setattr(holder, leaf, nn.Parameter(Quantised(planes, value.format, tuple(was.shape), was.dtype), requires_grad=False))


def dense(model: Transformer) -> Transformer:
    """A model that computes the same with plain matrices, for formats and programs that know no others."""
    values = {path: value.detach() for path, value in model.named_parameters()}
    if not any(isinstance(value, Quantised) for value in values.values()):
        return model
    return _with(model, {path: restored(value) for path, value in values.items()})


def _stored(value: Tensor, moment: Tensor | None, format: Quantising, dtype: torch.dtype) -> Quantised:
    """One matrix in the format."""
    if moment is None or not isinstance(format, Grouped):
        planes = format.quantised(value.detach())
    else:
        planes = calibrated(value, moment, format)
    return Quantised(planes, format, tuple(value.shape), dtype)


def _moments(model: Transformer, matrices: Mapping[str, Weight], run: Callable[[Transformer], object]) -> dict[str, Tensor]:
    """X^T X of the inputs of every matrix that belongs to a linear map which `run` called."""
    linear = {f"{name}.weight": name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    with torch.no_grad(), watching(model, {path: name for path, name in linear.items() if path in matrices}) as found:
        run(model)
    return found


def _error(value: Tensor, made: Quantised) -> float:
    exact, size = value.detach().float(), value.detach().float().norm()
    return 0.0 if size == 0 else ((made.format.restored(made.planes, tuple(made.shape)) - exact).norm() / size).item()


def _with(model: Transformer, values: Mapping[str, Tensor]) -> Transformer:
    """A model like this one with other values, none of which learns."""
    return made_of(model.architecture, model.plan, values).requires_grad_(False)
