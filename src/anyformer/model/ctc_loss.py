"""The loss of connectionist temporal classification and its gradient, as one operator that a compiler takes as it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

NEVER = -1e4
"""log p of what cannot be; torch has no gradient beside -inf."""


def ctc_losses(logits_BTV: Tensor, symbols_BU: Tensor, positions_B: Tensor, blank_B1: Tensor) -> Tensor:
    """-log sum_(paths of y) prod_t softmax(logits_t)[path_t] of every row, (B,) in fp32: torch's `ctc_loss`.

    symbols (B, U): y of each row, negative behind it; a row without symbols has a loss of 0. positions (B,): those that are
    heard, the first of T. blank (B, 1): the number of the blank. A row whose y needs more positions than it has: infinity.
    """
    losses: Tensor = _ctc(logits_BTV, symbols_BU, positions_B, blank_B1)[0]
    return losses


@torch.library.custom_op("anyformer::ctc", mutates_args=())
def _ctc(logits: Tensor, symbols: Tensor, positions: Tensor, blank: Tensor) -> tuple[Tensor, Tensor]:
    """The losses, and their gradient of the logits in fp32."""
    # Torch's gradient of the loss has no order of its sums on a GPU.
    if logits.is_cuda and torch.are_deterministic_algorithms_enabled():
        losses, gradient = _computed(logits.cpu(), symbols.cpu(), positions.cpu(), blank.cpu())
        return losses.to(logits.device), gradient.to(logits.device)
    return _computed(logits, symbols, positions, blank)


def _computed(logits: Tensor, symbols: Tensor, positions: Tensor, blank: Tensor) -> tuple[Tensor, Tensor]:
    counts, V = (symbols >= 0).sum(1), logits.shape[2]
    symbols = symbols[:, : int(counts.max())].clamp(min=0)
    places = blank.expand(logits.shape[1], -1, 1)
    log_p = _log_p(logits, places)
    losses, paths = torch.ops.aten._ctc_loss(log_p, symbols, positions, counts, V, False)
    # Torch's gradient is that of the logits: of log p it lacks a multiple of p, which the softmax takes out.
    given = (torch.ones_like(losses), log_p, symbols, positions, counts, losses, paths, V, False)
    gradient = torch.ops.aten._ctc_loss_backward(*given)
    del log_p, paths, given
    gradient[..., :V].scatter_add_(-1, places, gradient[..., V:])
    real = counts > 0
    gradient.masked_fill_(~real[None, :, None], 0.0)
    return torch.where(real, losses, 0.0), gradient[..., :V].transpose(0, 1).contiguous()


def _log_p(logits: Tensor, places: Tensor) -> Tensor:
    """(T, B, V + 1): log softmax of the logits (B, T, V), with the blank moved behind all symbols.

    Torch has one number for the blanks of all rows, and these may have several.
    """
    log_p = logits.new_empty((logits.shape[1], len(logits), logits.shape[2] + 1), dtype=torch.float32)
    torch.log_softmax(logits.float().transpose(0, 1), -1, out=log_p[..., :-1])
    log_p[..., -1:] = log_p.gather(-1, places)
    return log_p.scatter_(-1, places, NEVER)


@_ctc.register_fake
def _(logits, symbols, positions, blank):  # type: ignore[no-untyped-def]
    losses = logits.new_empty(len(logits), dtype=torch.float32)
    return losses, torch.empty_like(logits, dtype=torch.float32, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.type = inputs[0].dtype
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, of_losses: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    (gradient,) = ctx.saved_tensors
    return (of_losses[:, None, None] * gradient).to(ctx.type), None, None, None


_ctc.register_autograd(_gradients, setup_context=_keep)
