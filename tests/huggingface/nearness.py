"""How near ours is to theirs: within a bound, or as near to theirs in fp64 as a few times theirs in fp32 is.

How far two right ways of computing in fp32 lie apart depends on the model and on the processor's kernels; how far theirs lies
from itself in fp64 tells how much of that is the rounding of this computation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from huggingface.case import B, T
from huggingface.parity import Pair, gap, gradients_as_ours, inputs, routes, their_logits

MARGIN = 4.0
"""Errors of theirs within which ours counts as another rounding: it adds in another order, and fuses other products."""
Values = Mapping[str, Tensor]


@dataclass(frozen=True)
class Nearness:
    """What is compared: values of ours and of theirs by name, and how far they lie apart, as a share of their size."""

    ours: Callable[[Pair], Values]
    theirs: Callable[[Pair], Values]
    gap: Callable[[Values, Values], float]
    bound: Callable[[Pair], float]

    def found(self, pair: Pair) -> float:
        """How far ours lies from theirs."""
        return self.gap(self.ours(pair), self.theirs(pair))

    def check(self, pair: Pair) -> None:
        """Raise `AssertionError` if ours is farther from theirs than rounding says."""
        ours, theirs, bound = self.ours(pair), self.theirs(pair), self.bound(pair)
        found = self.gap(ours, theirs)
        if found <= bound:
            return
        exact = self.theirs(pair.exact)
        own, error = self.gap(ours, exact), self.gap(theirs, exact)
        assert own <= MARGIN * error, (
            f"ours is {found:.2e} from theirs, more than {bound:.0e}, and {own:.2e} from theirs in fp64, from which theirs in "
            f"fp32 is {error:.2e}"
        )


def farthest(ours: Values, theirs: Values) -> float:
    """The largest difference of any value, of its largest number."""
    return max(gap(ours[name], value) for name, value in theirs.items())


def _rows(pair: Pair) -> tuple[Tensor, ...]:
    """A plain batch; one of four times as many rows where tokens choose experts, for the choices to differ."""
    batches = [inputs(pair, seed) for seed in range(4 if routes(pair) else 1)]
    return tuple(torch.cat(each) for each in zip(*batches, strict=True))


@torch.no_grad()
def _ours(pair: Pair) -> Values:
    return {"logits": pair.ours(*_rows(pair))}


@torch.no_grad()
def _theirs(pair: Pair) -> Values:
    x = _rows(pair)
    return {"logits": their_logits(pair, x[0], target=x[1] if len(x) > 1 else None)}


def _padded(pair: Pair) -> tuple[tuple[Tensor, ...], Tensor]:
    """A batch whose first row is padded, and its padding: on the left of a text, on the right of a source or in an encoder;
    of a wave, so many samples that positions are padding."""
    x = inputs(pair)
    decodes = pair.ours.architecture.decoder is not None and len(x) == 1
    padding = torch.zeros_like(x[0], dtype=torch.bool)
    few = x[0].shape[1] // 4 if x[0].is_floating_point() else 3
    padding[0, slice(0, few) if decodes else slice(-few, None)] = True
    return (torch.where(padding, getattr(pair.theirs.config, "pad_token_id", None) or 0, x[0]), *x[1:]), padding


def _valid(pair: Pair, values: Tensor, x: tuple[Tensor, ...], padding: Tensor) -> Values:
    """The values at the positions that are no padding: all of a target, and all of one value for each row."""
    own = pair.ours.architecture.embedding.padding(padding)
    assert own is not None
    return {"logits": values[~own] if values.dim() > 2 and len(x) == 1 else values}


@torch.no_grad()
def _ours_padded(pair: Pair) -> Values:
    x, padding = _padded(pair)
    return _valid(pair, pair.ours(*x, padding=padding), x, padding)


@torch.no_grad()
def _theirs_padded(pair: Pair) -> Values:
    x, padding = _padded(pair)
    return _valid(pair, their_logits(pair, x[0], padding, x[1] if len(x) > 1 else None), x, padding)


@torch.no_grad()
def _ours_cached(pair: Pair) -> Values:
    """Token by token."""
    x = inputs(pair)
    text, two = x[-1], len(x) > 1
    read = pair.ours.architecture.embedding.check("source", x[0], None) if two else 0
    state = pair.ours.state(B, T, source=read)
    first, *rest = text.split(1, 1)
    if two:
        pieces = [pair.ours(x[0], first, state=state), *(pair.ours(None, piece, state=state) for piece in rest)]
    else:
        pieces = [pair.ours(piece, state=state) for piece in (first, *rest)]
    return {"logits": torch.cat(pieces, 1)}


@torch.no_grad()
def _theirs_whole(pair: Pair) -> Values:
    x = inputs(pair)
    return {"logits": their_logits(pair, x[0], target=x[1] if len(x) > 1 else None)}


def _backward(logits: Tensor) -> None:
    direction = torch.randn(*logits.shape[:-1], 1, generator=torch.Generator().manual_seed(2))
    (logits * direction).square().mean().sqrt().backward()


def _our_gradients(pair: Pair) -> Values:
    pair.ours.zero_grad()
    _backward(pair.ours(*inputs(pair)))
    return {name: parameter.grad for name, parameter in pair.ours.named_parameters() if parameter.grad is not None}


def _their_gradients(pair: Pair) -> Values:
    x = inputs(pair)
    pair.theirs.zero_grad()
    _backward(their_logits(pair, x[0], target=x[1] if len(x) > 1 else None))
    found = gradients_as_ours(pair)
    pair.theirs.zero_grad()
    return found


def farthest_gradient(ours: Values, theirs: Values) -> float:
    """The largest over all weights of the largest difference, of the largest gradient of that weight; of one whose gradient is
    next to nothing, of a thousandth of the largest of all."""
    scale = max(float(value.abs().max()) for value in theirs.values())
    each = (
        float((ours[name] - theirs[name]).abs().max()) / max(float(theirs[name].abs().max()), 1e-3 * scale)
        for name in ours.keys() & theirs.keys()
    )
    return max(each, default=0.0)


LOGITS = Nearness(_ours, _theirs, farthest, lambda pair: pair.case.logits)
PADDED = Nearness(_ours_padded, _theirs_padded, farthest, lambda pair: pair.case.logits)
CACHED = Nearness(_ours_cached, _theirs_whole, farthest, lambda pair: pair.case.logits)
GRADIENTS = Nearness(_our_gradients, _their_gradients, farthest_gradient, lambda pair: pair.case.gradients)
