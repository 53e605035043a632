"""Networks and experts, as alternatives to be tried: activations, orders of gate and up, scores and weights of routers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anyformer.huggingface.rules import Alternating, Rows, Then, To, Transposed
from anyformer.huggingface.words.activations import ACTIVATIONS
from anyformer.parts import Experts, FeedForward, Renormalise, Router, SparseMixer
from anyformer.porting.changes import Put
from anyformer.porting.explaining import Fit, StoredLine
from anyformer.porting.hint import Hint
from anyformer.porting.keys import numbers
from anyformer.porting.looking import blocks_in

_NETWORKS = ("feedforward", "experts")


def networks(fit: Fit) -> Iterator[Hint]:
    """Another activation, and another order of gate and up."""
    found = [
        each for block in blocks_in(fit.architecture) for each in block.sublayers if isinstance(each, FeedForward | Experts)
    ]
    if not found:
        return
    for activation in dict.fromkeys(ACTIVATIONS.values()):
        if found[0].activation != activation and activation != "xielu":
            acts = Put("feedforward.activation", activation), Put("experts.activation", activation)
            yield Hint(f"activation: {activation}", acts)
    if any(each.gated and not each.up_offset for each in found):
        oss = [
            Put(f"{name}.{field}", value)
            for name in _NETWORKS
            for field, value in (("activation", "quick_gelu"), ("up_offset", 1.0))
        ]
        yield Hint("activation: quick_gelu, times up + 1 (gpt-oss)", tuple(oss))
    for branch in _NETWORKS:
        swapped = {f"{branch}.gate", f"{branch}.up"}
        named = {
            source: fit.matched[line.module.name]
            for line in fit.lines
            for source in line.source
            if source in swapped and line.module.name in fit.matched and len(line.source) == 1
        }
        both = next((line for line in fit.lines if set(line.source) == swapped and line.module.name in fit.matched), None)
        if both is not None:
            yield from _halves(fit, both)
        if named.keys() == swapped:
            gate, up = f"{branch}.gate", f"{branch}.up"
            yield Hint("gate and up the other way round", (), {gate: named[up], up: named[gate]})


def _halves(fit: Fit, line: StoredLine) -> Iterator[Hint]:
    """Gate and up of one tensor in the other order, or in turns."""
    tensor = fit.matched[line.module.name]
    shape = line.module.shape or ()
    name = tensor if len(shape) < 3 else f"{tensor}.{line.module.main}".rstrip(".")
    across = max(len(shape) - 2, 0)
    held = fit.derivation.more.get(line.source)
    turned = isinstance(held, To) and isinstance(held.op, Then) and isinstance(held.op.first, Transposed)
    pair = tuple(f"{source}_bias" for source in line.source)
    beside = next((each for each in fit.lines if set(each.source) == {*pair} and each.module.name in fit.matched), None)
    for order in (line.source, line.source[::-1]):
        for op, flat in ((Rows(across), Rows(1)), (Alternating(across), Alternating(1))):
            if (order, op) != (line.source, Rows(across)) or line.source in fit.derivation.more:
                words = "one after the other" if isinstance(op, Rows) else "in turns"
                lines: dict[Any, str | To] = {order: To(name, Then(Transposed(), op) if turned else op)}
                if beside is not None:
                    biases = tuple(f"{source}_bias" for source in order)
                    lines[biases] = To(fit.matched[beside.module.name], flat)
                yield Hint(f"{order[0]} before {order[1]} in {tensor}, {words}", (), lines)


def _mixed(margin: float) -> Put:
    return Put("experts.router", Router(choice=SparseMixer(margin=margin)))


def experts(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    """Another score of experts, and other weights of the chosen ones."""
    found = [each for block in blocks_in(fit.architecture) for each in block.sublayers if isinstance(each, Experts)]
    if not found:
        return
    router = found[0].router
    for renormalise in (None, Renormalise(eps=0.0), Renormalise()):
        if router.renormalise != renormalise:
            yield Hint(
                f"weights of chosen experts: {'sum to 1' if renormalise else 'as they are'}",
                (Put("experts.router.renormalise", renormalise),),
            )
    for score in ("softmax", "sigmoid"):
        if router.score != score:
            yield Hint(f"scores of experts: {score}", (Put("experts.router.score", score),))
    for number in (1.0, *numbers(table, "scal", "factor", "multipl")):
        if router.scale != number:
            yield Hint(f"factor of what experts give: {number}", (Put("experts.router.scale", number),))
    jitters = [jitter for jitter in numbers(table, "jitter") if jitter < 1]
    for margin in (2 * jitter for jitter in jitters):
        yield Hint(f"experts chosen one after the other, margin {margin:g}", (_mixed(margin),))
    for over in ("all", "chosen"):
        if router.over != over:
            yield Hint(f"softmax over {over} experts", (Put("experts.router.over", over),))
