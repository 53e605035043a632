"""The saved tensors of a model, read off one forward pass on paper: no part declares them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from anyformer.costs.examples import examples
from anyformer.costs.saved.paper import put_on_paper
from anyformer.costs.saved.question import TracedLoss, TraceQuestion
from anyformer.costs.saved.record import Saved
from anyformer.costs.saved.reduced import Reduced, reduced
from anyformer.costs.saved.watched import Watched
from anyformer.model.inputs import CallOptions
from anyformer.model.loss import token_losses
from anyformer.model.transformer import Transformer, build
from anyformer.parts.attention.attend_blocks import BLOCKS
from anyformer.plan import Plan


def trace(question: TraceQuestion) -> Saved:
    """Tensors saved by a smaller architecture with all kinds of layers, and by the loss."""
    small = reduced(question)
    traced = _trace(question, small)
    if all(_alike(traced, *pair) for pair in small.alike):
        return traced
    return _trace(question, reduced(question, merged=False))


def _alike(saved: Saved, layer: str, other: str) -> bool:
    """Whether two traced layers save tensors of the same operations, sizes and reasons."""
    one, two = (
        [(x.path.removeprefix(at), x.operation, x.bytes, x.reason) for x in saved.tensors if x.layer == at]
        for at in (layer, other)
    )
    return one == two


@torch.inference_mode(False)
@torch.enable_grad()
def _trace(question: TraceQuestion, small: Reduced) -> Saved:
    plan = question.plan.but(precision=question.precision, checkpointing="none")
    model = build(small.architecture, plan, device="meta").train()
    call = Watched(question, small, model)
    with call, Scoreless(call.attended) if question.scoreless else nullcontext():
        call.put_on_paper()
        with torch.autograd.graph.saved_tensors_hooks(call.pack, call.unpack):
            if question.signal is None:
                output = _next_token_loss(question, small, model, call)
            else:
                output = _own_loss(question, question.signal, model, call)
            call.walk(output)
    found = Saved(tuple(call.recomputed() if question.recomputed else call.saved()), small.like, tuple(call.live()))
    call.release()
    return found


def _next_token_loss(question: TraceQuestion, small: Reduced, model: Transformer, call: Watched) -> Tensor:
    """The mean cross-entropy of every prediction; the features of a model without a head."""
    inputs, more = list(examples(small.architecture, question.shape)), CallOptions()
    if question.shape.prefix and small.architecture.shape_of_model == "decoder-only":
        more = {"prefix": torch.full((question.shape.batch,), question.shape.prefix)}
    call.begin()
    with _products_in(model.plan):
        outputs = model.predictions(*inputs, **more)
    if small.architecture.head is None:
        return outputs[0]
    with call.loss(outputs):
        losses = [token_losses(x, torch.zeros(x.shape[:-1], dtype=torch.int64))[0].mean() for x in outputs]
        return sum(losses[1:], losses[0])


def _own_loss(question: TraceQuestion, signal: TracedLoss, model: Transformer, call: Watched) -> Tensor:
    """The loss of the signal; the models beside are as small, and none of their weights learns."""
    others = {}
    for name, architecture in signal.others.items():
        other = reduced(replace(question, architecture=architecture, learning=None, signal=None)).architecture
        others[name] = build(other, model.plan, device="meta").train()
        put_on_paper(others[name], lambda _: False)
    call.begin()
    with call.signal(), _products_in(model.plan):
        return signal.loss(model, question.shape, others)


def _products_in(plan: Plan) -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=plan.precision.autocasts)


class Scoreless(TorchFunctionMode):
    """Inside, torch's attention and ours by blocks save q, k, v, their output and log Z in fp32.

    `attended` is called with q, k and v, with these two outputs, and with masks and biases, which the kernel does not read.
    Dao et al. 2022 (arXiv 2205.14135), algorithm 1.
    """

    def __init__(self, attended: Callable[..., None]) -> None:
        super().__init__()
        self._attended = attended

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if function not in (F.scaled_dot_product_attention, BLOCKS):
            return function(*args, **(kwargs or {}))
        qkv = args[:3]
        if function is not BLOCKS and torch.is_autocast_enabled("cpu"):
            qkv = tuple(x.to(torch.get_autocast_dtype("cpu")) for x in qkv)
        mixed, log_z = _Kernel.apply(*qkv)  # type: ignore[no-untyped-call]
        unread = [x for x in (*args[3:], *(kwargs or {}).values()) if isinstance(x, Tensor)]
        self._attended(qkv, (mixed, log_z), unread)
        return mixed


class _Kernel(torch.autograd.Function):
    """(B, H, T, E), (B, K, S, E), (B, K, S, U) -> (B, H, T, U), laid out in memory as the queries are."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        (B, H, T, _), U = q.shape, v.shape[-1]
        heads_first = q.stride(1) > q.stride(2)
        mixed = q.new_empty(B, H, T, U) if heads_first else q.new_empty(B, T, H, U).transpose(1, 2)
        log_z = q.new_empty(B, H, T, dtype=torch.float32)
        ctx.mark_non_differentiable(log_z)
        ctx.save_for_backward(q, k, v, mixed, log_z)
        return mixed, log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("tensors on paper have no gradients")
