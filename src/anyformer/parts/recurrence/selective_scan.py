"""The selective scan: a state per channel whose every entry decays by itself, so that no matrix product carries it on.

    h_t = exp(-step_t rate) h_{t-1} + step_t v_t k_t^T,    o_t = h_t q_t

Shapes: value and step (B, T, W), rate (W, M), key and query (B, T, M), state (B, W, M). Chunks follow one another, each with a
scan of its own, and the states of one chunk at a time are held: the backward pass computes them again from the state that
entered the chunk (Gu & Dao 2023, arXiv 2312.00752, section 3.3.2). It is an operator of its own, because a compiler that saw
the steps would save the states of both passes, and would see more steps the more chunks there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyformer.parts.call.counted import counted
from anyformer.parts.recurrence.document_places import document_starts
from anyformer.parts.recurrence.scan import add_up


def selective_scan(
    value: Tensor,
    step: Tensor,
    rate: Tensor,
    key: Tensor,
    query: Tensor,
    state: Tensor | None,
    *,
    chunk: int,
    segments: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The outputs (B, T, W) and the state after them. Documents (`segments`, numbered in order) start from an empty state."""
    if value.shape[1] == 1:
        return selective_step(value, step, rate, key, query, state)
    starts = document_starts(segments)
    state = value.new_zeros(value.shape[0], *rate.shape) if state is None else state
    call = _counted if value.is_meta else _selective_scan
    mixed, last, _ = call(value, step, rate, key, query, state, starts, chunk)
    return mixed, last


def selective_step(
    value: Tensor, step: Tensor, rate: Tensor, key: Tensor, query: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """One token: T is 1."""
    written = (step * value).mT * key
    state = written if state is None else (-step.mT * rate).exp() * state + written
    return (state @ query.mT).mT, state


class _Chunk(NamedTuple):
    """The inputs of some positions that follow one another."""

    value: Tensor
    step: Tensor
    rate: Tensor
    key: Tensor
    query: Tensor
    starts: Tensor | None

    def decay(self) -> Tensor:
        """(B, T, W, M)."""
        decay = (-self.step[..., None] * self.rate).exp_()
        return decay if self.starts is None else decay.masked_fill_(self.starts[..., None, None], 0)

    def states(self, decay: Tensor, entering: Tensor) -> Tensor:
        """(B, T, W, M), after the one that enters; it uses up `decay`."""
        states = (self.step * self.value)[..., None] * self.key[:, :, None]
        states[:, 0].addcmul_(decay[:, 0], entering)
        add_up(decay[:, 1:], states)
        return states


def _size(length: int, width: int, chunk: int) -> int:
    """Positions of a chunk, whose states are no more numbers than the values of all positions."""
    return max(1, min(chunk, length // width))


def _chunks(
    value: Tensor, step: Tensor, rate: Tensor, key: Tensor, query: Tensor, starts: Tensor | None, chunk: int
) -> Iterator[tuple[slice, _Chunk]]:
    """The positions of each chunk, the last one first, and its inputs."""
    length, size = value.shape[1], _size(value.shape[1], rate.shape[1], chunk)
    for first in reversed(range(0, length, size)):
        at = slice(first, min(first + size, length))
        opens = None if starts is None else starts[:, at]
        yield at, _Chunk(value[:, at], step[:, at], rate, key[:, at], query[:, at], opens)


def _forward(
    value: Tensor, step: Tensor, rate: Tensor, key: Tensor, query: Tensor, state: Tensor, starts: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs, the state after them, and the states that enter the chunks, (B, chunks, W, M)."""
    mixed, entering = torch.empty_like(value), []
    for at, piece in reversed(list(_chunks(value, step, rate, key, query, starts, chunk))):
        entering.append(state)
        states = piece.states(piece.decay(), state)
        mixed[:, at] = (states @ piece.query[..., None]).squeeze(-1)
        state = states[:, -1].clone()
    return mixed, state, torch.stack(entering, 1)


def _backward(
    chunk: int, d_mixed: Tensor, d_last: Tensor, value: Tensor, step: Tensor, rate: Tensor, key: Tensor, query: Tensor,
    entering: Tensor, starts: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of value, step, rate, key, query and state.

    Those of the states come from later ones: G_t = do_t q_t^T + decay_{t+1} G_{t+1}. What is written has the gradient G_t, and
    the logarithm of the decay G_t (h_t - what is written).
    """
    d_value, d_step, d_key, d_query = (torch.empty_like(x) for x in (value, step, key, query))
    d_rate, d_state = torch.zeros_like(rate), d_last
    chunks = _chunks(value, step, rate, key, query, starts, chunk)
    for (at, piece), state in zip(chunks, reversed(entering.unbind(1)), strict=True):
        decay = piece.decay()
        states = piece.states(decay.clone(), state)
        d_query[:, at] = (d_mixed[:, at, None] @ states).squeeze(2)
        gradient = d_mixed[:, at, :, None] * piece.query[:, :, None]
        gradient[:, -1] += d_state
        gradient = _from_the_end(decay[:, 1:], gradient)
        d_state = decay[:, 0] * gradient[:, 0]
        written = piece.step * piece.value
        d_written = (gradient @ piece.key[..., None]).squeeze(-1)
        d_key[:, at] = (written[:, :, None] @ gradient).squeeze(2)
        of_decay = states.addcmul_(written[..., None], piece.key[:, :, None], value=-1).mul_(gradient)
        d_value[:, at] = d_written * piece.step
        d_step[:, at] = d_written * piece.value - torch.einsum("btwm,wm->btw", of_decay, rate)
        d_rate -= torch.einsum("btwm,btw->wm", of_decay, piece.step)
    return d_value, d_step, d_rate, d_key, d_query, d_state


def _from_the_end(links: Tensor, writes: Tensor) -> Tensor:
    """`scan` from the last position to the first."""
    states = writes.flip(1)
    add_up(links.flip(1), states)
    return states.flip(1)


@torch.library.custom_op("anyformer::selective_scan", mutates_args=())
def _selective_scan(
    value: Tensor, step: Tensor, rate: Tensor, key: Tensor, query: Tensor, state: Tensor, starts: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor, Tensor]:
    return _forward(value, step, rate, key, query, state, starts, chunk)


@torch.library.custom_op("anyformer::selective_scan_backward", mutates_args=())
def _selective_scan_backward(
    chunk: int, d_mixed: Tensor, d_last: Tensor, value: Tensor, step: Tensor, rate: Tensor, key: Tensor, query: Tensor,
    entering: Tensor, starts: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return _backward(chunk, d_mixed, d_last, value, step, rate, key, query, entering, starts)


SELECTIVE_SCAN = torch.ops.anyformer.selective_scan.default
"""The operator in dispatch modes (FLOP counters, tracers)."""


@_selective_scan.register_fake
def _(value, step, rate, key, query, state, starts, chunk):  # type: ignore[no-untyped-def]
    length = value.shape[1]
    chunks = -(-length // _size(length, rate.shape[1], chunk))
    return torch.empty_like(value), torch.empty_like(state), state.new_empty(len(state), chunks, *rate.shape)


@_selective_scan_backward.register_fake
def _(chunk, d_mixed, d_last, value, step, rate, key, query, entering, starts):  # type: ignore[no-untyped-def]
    return *(torch.empty_like(x) for x in (value, step, rate, key, query)), torch.empty_like(d_last)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *given, _, starts, ctx.chunk = inputs
    ctx.save_for_backward(*given, output[2], starts)
    ctx.mark_non_differentiable(output[2])


def _gradients(backward: Any, ctx: Any, d_mixed: Tensor, d_last: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return *backward(ctx.chunk, d_mixed, d_last, *ctx.saved_tensors), None, None


_selective_scan.register_autograd(partial(_gradients, _selective_scan_backward), setup_context=_keep)
_counted = counted(_forward, _keep, partial(_gradients, _backward))
