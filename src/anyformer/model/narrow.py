"""The linear maps of a built model whose products a plan computes in 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import nn

from anyformer.model.narrow_choice import chosen
from anyformer.operations import Weight
from anyformer.precision import Precision
from anyformer.precision.products import NarrowLinear
from anyformer.precision.running import Running


def narrow_products(model: nn.Module, precision: Precision, weights: Mapping[str, Weight]) -> None:
    """Give the linear maps of chosen weights their products; parameters stay the same ones under the same names."""
    if precision.narrow is None:
        return
    for holder, module in list(model.named_modules()):
        for leaf, linear in list(module.named_children()):
            path = f"{holder}.{leaf}.weight" if holder else f"{leaf}.weight"
            if type(linear) is nn.Linear and path in weights and (narrow := chosen(precision, weights[path])) is not None:
                setattr(module, leaf, NarrowLinear(linear, narrow))


def narrowed_alike(made: nn.Module, whole: nn.Module) -> None:
    """Give the linear maps of a module the products that those of the same names in another have."""
    for name, module in list(whole.named_modules()):
        if isinstance(module, NarrowLinear):
            made.set_submodule(name, module.like(made.get_submodule(name)))


def histories(model: nn.Module) -> Iterator[tuple[str, Running]]:
    """Every linear map with scales of the updates before, by its path."""
    for name, module in model.named_modules():
        if isinstance(module, NarrowLinear) and module.running is not None:
            yield name, module.running
