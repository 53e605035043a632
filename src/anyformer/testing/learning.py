"""The contract of learning: every weight gets a gradient, equal to that of a naive twin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyformer.model import Architecture
from anyformer.model.inputs import CallOptions
from anyformer.parts.call.reports import Auxiliary
from anyformer.testing.inputs import inputs
from anyformer.testing.models import evaluated
from anyformer.testing.traits import reads_prefix

Twin = Callable[..., Tensor | tuple[Tensor, ...]]
"""twin(architecture, weights, *inputs, prefix=0) -> outputs (T, V) of one row, by plain loops over positions and heads; with
predictions of later tokens a tuple of the logits of all.

`weights`: the model's parameters by name, in float64; `inputs`: each input of the row as nested lists.
"""
LENGTH, PREFIX = 6, 3


def every_weight_learns(architecture: Architecture, twin: Twin | None = None) -> None:
    """Every weight has a finite gradient; with a `twin`, outputs and gradients are the twin's, in float64.

    A weight of index scores has that of their loss alone, and none of the outputs.
    """
    model = evaluated(architecture, dtype=torch.float64)
    given = inputs(architecture, rows=1, length=LENGTH)
    prefix = PREFIX if reads_prefix(architecture) else 0
    reports = Auxiliary()
    options: CallOptions = {"auxiliary": reports}
    if prefix:
        options["prefix"] = torch.tensor([prefix])
    ours = torch.cat([logits[0].flatten() for logits in model.predictions(*given, **options)])
    direction = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    torch.autograd.backward((ours * direction).sum(), retain_graph=True)
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}  # running statistics do not learn
    of_outputs = {name: p.grad for name, p in learned.items() if p.grad is not None}
    if reports.index is not None:
        before = {name: gradient.clone() for name, gradient in of_outputs.items()}
        torch.autograd.backward(reports.index)
        assert all(torch.equal(gradient, before[name]) for name, gradient in of_outputs.items()), "an index trains itself alone"
    for name, parameter in learned.items():
        assert parameter.grad is not None, f"{name} gets no gradient"
        assert parameter.grad.isfinite().all(), f"the gradient of {name} is not finite"
    if twin is None:
        return
    weights = {name: p.detach().clone().requires_grad_(p.is_floating_point()) for name, p in model.named_parameters()}
    rows: list[Any] = [x[0].tolist() for x in given]
    theirs = torch.cat([made.flatten() for made in _all(twin(architecture, weights, *rows, prefix=prefix))])
    named = partial("{}: {}".format, "outputs beside those of the naive twin")
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, msg=named)  # rotary angles and sinusoids are fp32
    torch.autograd.backward((theirs * direction).sum())
    for name, gradient in of_outputs.items():
        named = partial("the gradient of {} beside that of the naive twin: {}".format, name)
        torch.testing.assert_close(gradient, weights[name].grad, rtol=1e-3, atol=5e-5, msg=named)


def _all(outputs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else outputs
