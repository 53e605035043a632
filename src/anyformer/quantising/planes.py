"""Matrices in few bits whose planes are parameters of their own, for what divides, gathers and writes parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from anyformer.model import Transformer
from anyformer.model.divided import copy_in, extent_of, local
from anyformer.quantising.format import Quantising
from anyformer.quantising.plain import Plain
from anyformer.quantising.tensor import Quantised, restored


@dataclass(frozen=True)
class MatrixOfPlanes:
    """How a module reads the matrix `name` (..., O, I), of type `dtype`, from its parameters `NAME.PLANE` as they are now."""

    name: str
    format: Quantising
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def planes(self) -> dict[str, str]:
        """The names of the parameters by plane."""
        return {plane: f"{self.name}.{plane}" for plane in self.format.planes(self.shape)}

    def computed_with(self, module: nn.Module) -> Tensor:
        """What operations of the module read. Numbers of 16 bits are plain tensors then, which a compiled layer may make."""
        codes = module._parameters[f"{self.name}.codes"] if isinstance(self.format, Plain) else None
        return self(module) if codes is None else codes.to(self.dtype)

    def __call__(self, module: nn.Module) -> nn.Parameter:
        """The weight."""
        held = {plane: module._parameters[name] for plane, name in self.planes.items()}
        planes = {plane: values for plane, values in held.items() if values is not None}
        return nn.Parameter(Quantised(planes, self.format, self.shape, self.dtype), requires_grad=False)


class HoldsPlanes(nn.Module):
    """A module with such matrices; `matrices`: by name."""

    matrices: ClassVar[Mapping[str, MatrixOfPlanes]]


def set_apart(model: nn.Module) -> None:
    """Let every matrix in few bits of a model be one parameter for each of its planes, `NAME.PLANE`; modules read it as before.

    Planes may be divided anywhere: a matrix is read when they are whole.
    """
    for module in model.modules():
        own = {name: weight for name, weight in module.named_parameters(recurse=False) if isinstance(weight, Quantised)}
        if own:
            _hold_planes(module, own)


def _hold_planes(module: nn.Module, own: Mapping[str, Quantised]) -> None:
    matrices = {name: MatrixOfPlanes(name, held.format, tuple(held.shape), held.dtype) for name, held in own.items()}
    for name, held in own.items():
        del module._parameters[name]
        for plane, values in held.planes.items():
            module._parameters[f"{name}.{plane}"] = nn.Parameter(values, requires_grad=False)
    reads = {name: property(matrix.computed_with) for name, matrix in matrices.items()}
    kind = type(module)
    module.__class__ = type(kind.__name__, (HoldsPlanes, kind), {"matrices": matrices, **reads})


def planes_of(model: nn.Module) -> dict[str, str]:
    """Of every parameter that is a plane, by its name, the name of the weight that it is a part of."""
    return {name: weight for name, (weight, _, _) in _placed(model).items()}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once, by name: parameters, and in place of planes the matrices that they make."""
    placed, found = _placed(model), dict[str, Tensor]()
    for name, parameter in model.named_parameters():
        if name not in placed:
            found[name] = parameter
            continue
        weight, matrix, module = placed[name]
        if weight not in found:
            found[weight] = matrix(module)
    return found


def _placed(model: nn.Module) -> dict[str, tuple[str, MatrixOfPlanes, nn.Module]]:
    """Every plane's parameter by name: the name of its weight, and how a module reads that."""
    return {
        f"{path}.{plane}" if path else plane: (f"{path}.{matrix.name}" if path else matrix.name, matrix, module)
        for path, module in model.named_modules()
        if isinstance(module, HoldsPlanes)
        for matrix in module.matrices.values()
        for plane in matrix.planes.values()
    }


def put(held: Quantised, values: Tensor) -> None:
    """Give a matrix in few bits the values of a whole one, rounded unless they are stored alike; a process keeps its part."""
    alike = isinstance(values, Quantised) and values.format == held.format
    planes = values.planes if isinstance(values, Quantised) and alike else held.format.quantised(restored(values))
    for name, plane in held.planes.items():
        copy_in(plane, planes[name])


@torch.no_grad()
def materialise_few_bits(model: Transformer, device: torch.device | str, seed: int) -> Transformer:
    """Give a model on the meta device its values as `materialise` does, of matrices in few bits each whole before its part."""
    model.to_empty(device=device)
    declared, rules = model.declared, model.initialisation
    for name, weight in weights_of(model).items():
        rule = model.own_rules.get(name, rules)
        if isinstance(weight, Quantised):
            put(weight, rule.fill(declared[name], name, seed))
        else:
            local(weight).copy_(rule.fill(declared[name], name, seed, extent_of(weight)))
    return model
