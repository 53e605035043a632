"""Training at test time: a linear map of keys to values whose weights learn from each mini-batch of a text's tokens.

    g_s = d/dz |norm(z) - (v_s - k_s)|^2 / 2 at z = k_s W: how the map of before the mini-batch is wrong about token s
    W_t = W - share_t * sum over s <= t of the mini-batch of rate_s k_s^T g_s,    o_t = q_t W_t

Shapes: q, k, v (B, H, T, E), rate (B, H, T, 1), share (b,), W (B, H, E + 1, E): a bias is the weight of one more feature of
queries and keys, which is 1. norm: LayerNorm with a gain and a bias (H, 1, E). A mini-batch is b tokens that follow one another
in a document; the next one begins with the W of its last token. So within one all is matrix products, the dual form of Sun et
al. 2024 (arXiv 2407.04620, section 2.5), and mini-batches follow one another. It is an operator of its own, so that a compiler
sees one step; its backward pass computes the weights again that enter each mini-batch, and holds those of one layer.

The state between calls is W, and the sum of the mini-batch that is not whole yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.call.counted import counted
from anyformer.parts.recurrence.minibatches import MiniBatches, minibatches


class InnerModel(NamedTuple):
    """What learns, and how fast: share (b,), the norm's gain and bias (H, 1, E), W and the sum (B, H, E + 1, E), its eps."""

    share: Tensor
    gain: Tensor
    bias: Tensor
    weight: Tensor
    total: Tensor
    eps: float


def train_at_test_time(
    q: Tensor, k: Tensor, v: Tensor, rate: Tensor, learner: InnerModel, positions: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs (B, H, T, E), and W and the sum after them.

    `positions` (B, T), counted from 0 within each document, below 0 on padding; None: 0 to T - 1 of every row, and no sum yet.
    """
    if q.shape[2] == 1:
        return _step(
            q, k, v, rate, learner, torch.zeros_like(q[:, 0, :, 0], dtype=torch.long) if positions is None else positions
        )
    call = _counted if q.is_meta else _train
    share, gain, bias, weight, total, eps = learner
    return call(q, k, v, rate, share, gain, bias, weight, total, positions, eps)  # type: ignore[no-any-return]


def _step(
    q: Tensor, k: Tensor, v: Tensor, rate: Tensor, learner: InnerModel, positions: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One token: T is 1."""
    share, gain, bias, weight, total, eps = learner
    q, k = (F.pad(x, (0, 1), value=1.0) for x in (q, k))
    valid, place = positions[..., None, None] >= 0, positions.clamp(min=0) % len(share)
    error = Reconstruction.of(k @ weight, v - k[..., :-1], gain, bias, eps).error
    total = torch.where(valid, total + rate * k.mT * error, total)
    now = weight - share[place][..., None, None] * total
    whole = valid & (place[..., None, None] == len(share) - 1)
    return q @ now, torch.where(whole, now, weight), total.masked_fill(whole, 0)


class _Batch(NamedTuple):
    """One mini-batch: queries and keys (B, H, b, E + 1), what keys are to give, rates, and the weights q_t . k_s times both
    factors (B, H, b, b) of errors; whether it is whole, and whether it is the first of a document, bool (B or 1, 1, 1, 1)."""

    q: Tensor
    k: Tensor
    target: Tensor
    rate: Tensor
    scores: Tensor
    mixing: Tensor
    whole: Tensor
    first: Tensor | None


def _batches(q: Tensor, k: Tensor, v: Tensor, rate: Tensor, share: Tensor, order: MiniBatches) -> Iterator[_Batch]:
    """The mini-batches of all rows, in order."""
    target = v - k
    q, k = (F.pad(x, (0, 1), value=1.0) for x in (q, k))
    q, k, target, rate = (order.folded(x) for x in (q, k, target, rate))
    scores = (q @ k.mT).tril()
    mixing = scores * share[: order.size, None] * rate.mT
    firsts = [None] * order.count if order.first is None else order.first.unbind(1)
    tensors = zip(*(x.unbind(2) for x in (q, k, target, rate, scores, mixing)), order.whole.unbind(1), strict=True)
    yield from (_Batch(*each, first) for each, first in zip(tensors, firsts, strict=True))  # type: ignore[call-arg]


def _forward(
    q: Tensor, k: Tensor, v: Tensor, rate: Tensor, share: Tensor, gain: Tensor, bias: Tensor, weight: Tensor, total: Tensor,
    positions: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    order, mixed, start = minibatches(positions, q, len(share)), [], (weight, total)
    for each in _batches(q, k, v, rate, share, order):
        if each.first is not None:
            weight, total = (torch.where(each.first, new, old) for new, old in zip(start, (weight, total), strict=True))
        error = Reconstruction.of(each.k @ weight, each.target, gain, bias, eps).error
        found = each.q @ weight - each.mixing @ error
        if positions is not None:
            found = found - share[: order.size, None] * (each.q @ total)
        mixed.append(found)
        weight, total = _learnt(weight, total, each, error, share, positions)
    return order.unfolded(torch.stack(mixed, 2)), weight.clone(), total.clone()


def _learnt(
    weight: Tensor, total: Tensor, each: _Batch, error: Tensor, share: Tensor, positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """W and the sum after a mini-batch."""
    written = (each.rate * each.k).mT @ error
    total = written if positions is None else total + written
    return torch.where(each.whole, weight - share[-1] * total, weight), total.masked_fill(each.whole, 0)


def _backward(
    d_mixed: Tensor, d_weight: Tensor, d_total: Tensor, q: Tensor, k: Tensor, v: Tensor, rate: Tensor, share: Tensor,
    gain: Tensor, bias: Tensor, weight: Tensor, total: Tensor, positions: Tensor | None, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of q, k, v, rate, share, gain, bias, W and the sum."""
    order, start = minibatches(positions, q, len(share)), (weight, total)
    batches, entering, errors = list(_batches(q, k, v, rate, share, order)), [], []
    for each in batches:
        if each.first is not None:
            weight, total = (torch.where(each.first, new, old) for new, old in zip(start, (weight, total), strict=True))
        entering.append((weight, total))
        errors.append(Reconstruction.of(each.k @ weight, each.target, gain, bias, eps))
        weight, total = _learnt(weight, total, each, errors[-1].error, share, positions)
    shares, grads = share[: order.size, None], []
    d_share, d_gain, d_bias = torch.zeros_like(share), torch.zeros_like(gain), torch.zeros_like(bias)
    d_start = [torch.zeros_like(x) for x in start]
    d_found = order.folded(d_mixed).unbind(2)
    for each, (weight, total), wrong, d_y in reversed(list(zip(batches, entering, errors, d_found, strict=True))):
        g = wrong.error
        # Behind a whole mini-batch the sum goes on as part of W, times -share.
        d_after = torch.where(each.whole, d_weight, d_total)
        factor = torch.where(each.whole, -share[-1], torch.ones_like(share[-1]))
        told = each.k @ d_after
        d_rate = (told * g).sum(-1, keepdim=True)
        d_last = (each.rate * d_rate).sum((-2, -1), keepdim=True) + (d_after * total).sum((-2, -1), keepdim=True)
        d_share[-1] -= (d_last * each.whole).sum()
        d_rate = factor * d_rate
        d_k = factor * each.rate * (g @ d_after.mT)
        d_total = factor * d_after
        d_scores = -(d_y @ g.mT).tril()
        weighed = d_scores * each.scores
        d_share[: order.size] += (weighed * each.rate.mT).sum((0, 1, 3))
        d_rate = d_rate + (weighed * shares).sum(-2)[..., None]
        d_scores = d_scores * shares * each.rate.mT
        d_q = d_y @ weight.mT + d_scores @ each.k
        if positions is not None:
            seen = d_y @ total.mT
            d_share[: order.size] -= (seen * each.q).sum((0, 1, 3))
            d_q, d_total = d_q - shares * seen, d_total - (shares * each.q).mT @ d_y
        d_z, d_target, d_own_gain, d_own_bias = wrong.gradients(factor * each.rate * told - each.mixing.mT @ d_y)
        d_gain, d_bias = d_gain + d_own_gain, d_bias + d_own_bias
        d_k = d_k + d_scores.mT @ each.q + d_z @ weight.mT
        d_weight = d_weight + each.q.mT @ d_y + each.k.mT @ d_z
        grads.append((d_q[..., :-1], d_k[..., :-1] - d_target, d_target, d_rate))
        if each.first is not None:
            d_start = [x + d * each.first for x, d in zip(d_start, (d_weight, d_total), strict=True)]
            d_weight, d_total = (d.masked_fill(each.first, 0) for d in (d_weight, d_total))
    of_tokens = (order.unfolded(torch.stack(each[::-1], 2)) for each in zip(*grads, strict=True))
    d_total = torch.zeros_like(d_total) if positions is None else d_start[1] + d_total
    return *of_tokens, d_share, d_gain, d_bias, d_start[0] + d_weight, d_total


@torch.library.custom_op("anyformer::train_at_test_time", mutates_args=())
def _train(
    q: Tensor, k: Tensor, v: Tensor, rate: Tensor, share: Tensor, gain: Tensor, bias: Tensor, weight: Tensor, total: Tensor,
    positions: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    mixed, weight, total = _forward(q, k, v, rate, share, gain, bias, weight, total, positions, eps)
    return mixed.contiguous(), weight.contiguous(), total.contiguous()


@torch.library.custom_op("anyformer::train_at_test_time_backward", mutates_args=())
def _train_backward(
    d_mixed: Tensor, d_weight: Tensor, d_total: Tensor, q: Tensor, k: Tensor, v: Tensor, rate: Tensor, share: Tensor,
    gain: Tensor, bias: Tensor, weight: Tensor, total: Tensor, positions: Tensor | None, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    gradients = _backward(d_mixed, d_weight, d_total, q, k, v, rate, share, gain, bias, weight, total, positions, eps)
    return tuple(x.contiguous() for x in gradients)  # type: ignore[return-value]


@_train.register_fake
def _(q, k, v, rate, share, gain, bias, weight, total, positions, eps):  # type: ignore[no-untyped-def]
    return v.new_empty(v.shape), weight.new_empty(weight.shape), total.new_empty(total.shape)


@_train_backward.register_fake
def _(d_mixed, d_weight, d_total, *given):  # type: ignore[no-untyped-def]
    return tuple(x.new_empty(x.shape) for x in given[:9])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *given, ctx.eps = inputs
    ctx.save_for_backward(*given)


def _gradients(backward: Any, ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    return *backward(*gradients, *ctx.saved_tensors, ctx.eps), None, None


_train.register_autograd(partial(_gradients, _train_backward), setup_context=_keep)
_counted = counted(_forward, _keep, partial(_gradients, _backward))


class Reconstruction(NamedTuple):
    """d/dz |gain * u + bias - target|^2 / 2 with u = (z - mean(z)) / deviation(z), over the last dimension E, and its factors.

    The gradient through a norm is (h - mean(h) - u mean(h * u)) / deviation of h = gain * (gain * u + bias - target).
    """

    error: Tensor
    unit: Tensor
    inverse: Tensor
    """1 / deviation."""
    above: Tensor
    """h."""
    wrong: Tensor
    """gain * u + bias - target."""
    gain: Tensor

    @classmethod
    def of(cls, z: Tensor, target: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Reconstruction:
        z = z - z.mean(-1, keepdim=True)
        inverse = torch.rsqrt(z.square().mean(-1, keepdim=True) + eps)
        unit = z * inverse
        wrong = gain * unit + bias - target
        above = gain * wrong
        return cls(_across(above, unit) * inverse, unit, inverse, above, wrong, gain)

    def gradients(self, d_error: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of z, target, gain and bias, the latter two summed over all but the heads: (H, 1, E)."""
        d_above = _across(d_error, self.unit) * self.inverse
        d_wrong = self.gain * d_above
        d_unit = self.gain * d_wrong - self.inverse * (
            d_error * (self.above * self.unit).mean(-1, keepdim=True)
            + self.above * (d_error * self.unit).mean(-1, keepdim=True)
        )
        # The deviation divides the error once more.
        d_scale = (d_error * self.error).mean(-1, keepdim=True)
        d_z = (_across(d_unit, self.unit) - self.unit * d_scale) * self.inverse
        d_gain = (d_above * self.wrong + d_wrong * self.unit).sum((0, 2))[:, None]
        return d_z, -d_wrong, d_gain, d_wrong.sum((0, 2))[:, None]


def _across(x: Tensor, unit: Tensor) -> Tensor:
    """x without its mean and without what of it is along `unit`."""
    return x - x.mean(-1, keepdim=True) - unit * (x * unit).mean(-1, keepdim=True)
