"""The saved tensors of a model, read off one forward pass on paper: no part declares them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from anyformer.costs.examples import examples
from anyformer.costs.saved.paper import put_on_paper
from anyformer.costs.saved.question import TracedLoss, TraceQuestion
from anyformer.costs.saved.record import Saved
from anyformer.costs.saved.reduced import Reduced, reduced
from anyformer.costs.saved.scoreless import Scoreless
from anyformer.costs.saved.watched import Watched
from anyformer.model import Transformer, build
from anyformer.model.inputs import CallOptions
from anyformer.model.loss import token_losses
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
