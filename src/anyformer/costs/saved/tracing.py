"""The saved tensors of a model, read off one forward pass on paper: no part declares them."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from anyformer.costs.examples import examples
from anyformer.costs.saved.question import Question
from anyformer.costs.saved.record import Saved
from anyformer.costs.saved.reduced import Reduced, reduced
from anyformer.costs.saved.scoreless import Scoreless
from anyformer.costs.saved.watched import Watched
from anyformer.model import build
from anyformer.model.inputs import CallOptions
from anyformer.model.loss import token_losses


def trace(question: Question) -> Saved:
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
def _trace(question: Question, small: Reduced) -> Saved:
    plan = question.plan.but(precision=question.precision, checkpointing="none")
    model = build(small.architecture, plan, device="meta").train()
    call = Watched(question, small, model)
    with call, Scoreless(call.attended) if question.scoreless else nullcontext():
        call.put_on_paper()
        inputs, more = list(examples(small.architecture, question.shape)), CallOptions()
        if question.shape.prefix and small.architecture.shape_of_model == "decoder-only":
            more = {"prefix": torch.full((question.shape.batch,), question.shape.prefix)}
        with torch.autograd.graph.saved_tensors_hooks(call.pack, call.unpack):
            with torch.autocast("cpu", torch.bfloat16, enabled=plan.precision.autocasts):
                outputs = model.predictions(*inputs, **more)
            output = outputs[0]
            if small.architecture.head is not None:
                with call.loss(outputs):
                    losses = [token_losses(x, torch.zeros(x.shape[:-1], dtype=torch.int64))[0].mean() for x in outputs]
                    output = sum(losses[1:], losses[0])
            call.walk(output)
    return Saved(tuple(call.recomputed() if question.recomputed else call.saved()), small.like)
