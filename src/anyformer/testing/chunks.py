"""The contract of a plan's chunk, which changes rounding only."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.testing.comparisons import equal
from anyformer.testing.inputs import B, T, inputs, tokens
from anyformer.testing.models import evaluated
from anyformer.testing.traits import decodes_tokens

LONG = 70
"""More positions than the default chunk has."""


def _outputs_and_gradients(architecture: Architecture, plan: Plan) -> tuple[Tensor, dict[str, Tensor]]:
    model = evaluated(architecture, plan, torch.float64)
    output: Tensor = model(*inputs(architecture))
    direction = torch.randn(output.shape, dtype=output.dtype, generator=torch.Generator().manual_seed(3))
    names, weights = zip(*((name, p) for name, p in model.named_parameters() if p.requires_grad), strict=True)
    return output, dict(zip(names, torch.autograd.grad((output * direction).sum(), weights), strict=True))


def any_chunk_equals_the_default_chunk(architecture: Architecture) -> None:
    """Outputs and gradients are equal for any chunk; a text longer than the default chunk equals its pieces."""
    whole, gradients = _outputs_and_gradients(architecture, Plan())
    for chunk in (1, 3, 4):
        output, others = _outputs_and_gradients(architecture, Plan(chunk=chunk))
        equal(output, whole, f"{T} positions in chunks of {chunk} and in one")
        for name, gradient in gradients.items():
            equal(others[name], gradient, f"the gradient of {name} by {T} positions in chunks of {chunk} and in one")
    if decodes_tokens(architecture):
        x = tokens(architecture, length=min(LONG, architecture.output_stack.max_length or LONG))
        for plan in (Plan(), Plan(chunk=3)):  # pieces of less than a chunk, and of many
            model = evaluated(architecture, plan)
            state = model.state(B, x.shape[1])
            pieces = torch.cat([model(piece, state=state) for piece in torch.split(x, LONG // 2, 1)], 1)
            equal(pieces, model(x), f"{x.shape[1]} positions at once and in pieces of {LONG // 2}, in chunks of {plan.chunk}")
