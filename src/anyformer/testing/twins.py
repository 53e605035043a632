"""The contract of a naive twin, which computes a sublayer in plain loops over one row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.testing.around import WIDTH
from anyformer.testing.counted_work import elementwise, operations_of
from anyformer.testing.inputs import inputs
from anyformer.testing.models import evaluated

SublayerTwin = Callable[[Any, dict[str, Tensor], Tensor], Tensor]
"""twin(description, weights, x) -> y: one row (T, D) to (T, D), its module's weights by name, all in float64."""
LENGTH = 6


def sublayer_equals_its_twin(architecture: Architecture, kind: str, twin: SublayerTwin) -> None:
    """Outputs and gradients of every sublayer of `kind` equal the twin's; the sublayer reads nothing but the stream."""
    model = evaluated(architecture, dtype=torch.float64)
    given = inputs(architecture, rows=1, length=LENGTH)
    compared = 0
    for name, stack in architecture.stacks.items():
        for layer, variant in enumerate(stack.layers):
            for branch, part in stack.variants[variant].branches.items():
                if part.sublayer.kind == kind:
                    module = model.get_submodule(f"{name}.layers.{layer}.{branch}.sublayer")
                    _equals(model, given, module, partial(twin, part.sublayer.of_layer(layer, stack.depth)))
                    compared += 1
    assert compared, f"no layer has a sublayer of kind {kind!r} to compare with its twin"


def declared_work_is_near_that_of_its_twin(part: Sublayer, twin: SublayerTwin) -> None:
    """A sublayer declares at least half of the sums, products and functions of single numbers that its twin computes; what a
    fused kernel does within a product is left out of prices, a gate is not."""
    module = part.build(WIDTH, Plan(), "it")
    weights = {name: torch.rand(weight.shape, dtype=torch.float64) for name, weight in module.named_parameters()}
    rows = torch.rand(LENGTH, WIDTH, dtype=torch.float64)
    counted = operations_of(lambda x: twin(part, weights, x), rows)
    declared = elementwise(part.cost(WIDTH, Shape(length=LENGTH), Plan()))
    assert 2 * declared >= counted, (
        f"of {LENGTH} positions it declares {declared:,} element-wise operations, and its twin computes {counted:,}"
    )


def _equals(
    model: nn.Module, given: tuple[Tensor, ...], module: nn.Module, twin: Callable[[dict[str, Tensor], Tensor], Tensor]
) -> None:
    calls: list[tuple[Tensor, Tensor]] = []
    with module.register_forward_hook(lambda _, arguments, output: calls.append((arguments[0], output))):
        model(*given)
    (x, ours), *_ = calls
    direction = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    own = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    weights = {
        name: weight.detach().clone().requires_grad_(weight.is_floating_point()) for name, weight in module.named_parameters()
    }
    row = x.detach().clone().requires_grad_()
    theirs = twin(weights, row[0])[None]
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, msg=partial("{}: {}".format, "outputs beside the twin's"))
    gradients = (
        torch.autograd.grad((y * direction).sum(), list(leaves))
        for y, leaves in ((ours, [x, *own.values()]), (theirs, [row, *(weights[name] for name in own)]))
    )
    for name, one, other in zip(["its input", *own], *gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=5e-5, msg=partial("the gradient of {}: {}".format, name))
