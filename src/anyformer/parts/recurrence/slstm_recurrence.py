"""The recurrence of sLSTM: numbers whose gates read what the heads gave at the token before, so that tokens go one by one.

    (z, i, f, o)_t = gates_t + h_{t-1} R
    m_t = max(i, log sigmoid(f) + m_{t-1}),    keep = exp(log sigmoid(f) + m_{t-1} - m_t),    entering = exp(i - m_t)
    c_t = keep c_{t-1} + entering tanh(z),    n_t = keep n_{t-1} + entering,    h_t = sigmoid(o) c_t / n_t

Shapes: gates (B, T, H, 4 E), R (H, E, 4 E), c, n, m and h (B, H, E), side by side in a state (B, 4, H, E), zeros at first: an n
of 0 says that there is no token yet, and is 1 at least after one. h is the same whatever m, which keeps the exponents small, so
its gradient takes m for a constant. No form of it computes several tokens at once, as R stands inside the gates: T steps, in an
operator of its own, so that a compiler sees one. Its backward pass has the products with R again from the saved states, all at
once, and then goes back token by token. (Beck et al. 2024, arXiv 2405.04517, section 2.2.)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.call.counted import counted


def slstm_recurrence(
    gates: Tensor, recurrent: Tensor, state: Tensor, valid: Tensor | None, starts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """h of every token (B, T, H, E), and the state after them, which takes no gradient.

    `valid` (B or 1, T) bool, false on padding, which leaves the state as it is; `starts` (B, T): where a document begins.
    """
    if gates.shape[1] == 1:
        h, *memory = _step(gates[:, 0], recurrent, state.unbind(1), valid, starts, 0)
        return h[:, None], torch.stack([*memory, h], 1).detach()
    h, memory = (_counted if gates.is_meta else _slstm)(gates, recurrent, state, valid, starts)
    return h, torch.cat([memory[:, -1], h[:, -1, None]], 1).detach()


def _through(h_BHE: Tensor, matrix: Tensor) -> Tensor:
    """Each head by its own matrix: (B, H, E), (H, E, O) -> (B, H, O)."""
    return (h_BHE.transpose(0, 1) @ matrix).transpose(0, 1)


def _at(mask: Tensor | None, t: int) -> Tensor | None:
    return None if mask is None else mask[:, t, None, None]


def _kept(f: Tensor, m: Tensor, n: Tensor) -> Tensor:
    """The logarithm of what is kept, before the stabiliser: nothing of no token."""
    return (F.logsigmoid(f) + m).masked_fill(n == 0, -torch.inf)


def _step(
    gates: Tensor, recurrent: Tensor, state: tuple[Tensor, ...], valid: Tensor | None, starts: Tensor | None, t: int
) -> tuple[Tensor, ...]:
    """h, c, n and m after token t, of the state (c, n, m, h) before it."""
    first, token = _at(starts, t), _at(valid, t)
    c, n, m, h = state if first is None else (x.masked_fill(first, 0) for x in state)
    z, i, f, o = (gates + _through(h, recurrent)).chunk(4, -1)
    kept = _kept(f, m, n)
    largest = torch.maximum(kept, i)
    keep, entering = (kept - largest).exp(), (i - largest).exp()
    cell, count = keep * c + entering * z.tanh(), keep * n + entering
    new = (o.sigmoid() * cell / count, cell, count, largest)
    return new if token is None else tuple(torch.where(token, x, y) for x, y in zip(new, (h, c, n, m), strict=True))


def _forward(
    gates: Tensor, recurrent: Tensor, state: Tensor, valid: Tensor | None, starts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """h (B, T, H, E), and c, n and m (B, T, 3, H, E)."""
    now, outputs, memories = state.unbind(1), [], []
    for t, gates_t in enumerate(gates.unbind(1)):
        h, *memory = _step(gates_t, recurrent, now, valid, starts, t)
        now = (*memory, h)
        outputs.append(h)
        memories.append(torch.stack(memory, 1))
    return torch.stack(outputs, 1), torch.stack(memories, 1)


def _backward(
    d_h: Tensor, h: Tensor, memory: Tensor, gates: Tensor, recurrent: Tensor, state: Tensor, valid: Tensor | None,
    starts: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of the gates and of R."""
    B, T, H, E = h.shape
    after = (*memory.unbind(2), h)
    before = [torch.cat([x[:, None], y[:, :-1]], 1) for x, y in zip(state.unbind(1), after, strict=True)]
    if starts is not None:
        before = [x.masked_fill(starts[..., None, None], 0) for x in before]
    (c_0, n_0, m_0, h_0), (c, n, m, _) = before, after
    flat = h_0.permute(2, 0, 1, 3).reshape(H, B * T, E)
    z, i, f, o = (gates + (flat @ recurrent).view(H, B, T, 4 * E).permute(1, 2, 0, 3)).chunk(4, -1)
    keep, entering = (_kept(f, m_0, n_0) - m).exp(), (i - m).exp()
    z, opened = z.tanh(), o.sigmoid()
    value, slope = c / n.masked_fill(n == 0, 1), keep * (-f).sigmoid()
    if valid is not None:  # padding gives on what it gets
        padding = ~valid[..., None, None]
        keep = keep.masked_fill(padding, 1)
        entering, opened, slope = (x.masked_fill(padding, 0) for x in (entering, opened, slope))
    shown = opened / n.masked_fill(n == 0, 1)
    steps = zip(*(x.unbind(1) for x in (d_h, keep, entering, slope, z, opened, value, shown, c_0, n_0)), strict=True)
    d_next = d_c = d_n = torch.zeros_like(h[:, 0])
    d_gates, back = [], recurrent.mT
    for t, (d, keep_t, entering_t, slope_t, z_t, o_t, value_t, shown_t, c_t, n_t) in reversed(list(enumerate(steps))):
        d, first, token = d + d_next, _at(starts, t), _at(valid, t)
        d_c, d_n = d_c + d * shown_t, d_n - d * shown_t * value_t
        d_z, d_i = d_c * entering_t * (1 - z_t.square()), (d_c * z_t + d_n) * entering_t
        d_f, d_o = (d_c * c_t + d_n * n_t) * slope_t, d * value_t * o_t * (1 - o_t)
        d_gates.append(torch.cat([d_z, d_i, d_f, d_o], -1))
        d_next = _through(d_gates[-1], back)
        d_next = d_next if token is None else torch.where(token, d_next, d)
        d_c, d_n = d_c * keep_t, d_n * keep_t
        if first is not None:
            d_next, d_c, d_n = (x.masked_fill(first, 0) for x in (d_next, d_c, d_n))
    of_gates = torch.stack(d_gates[::-1], 1)
    return of_gates, flat.mT @ of_gates.permute(2, 0, 1, 3).reshape(H, B * T, 4 * E)


@torch.library.custom_op("anyformer::slstm", mutates_args=())
def _slstm(
    gates: Tensor, recurrent: Tensor, state: Tensor, valid: Tensor | None, starts: Tensor | None
) -> tuple[Tensor, Tensor]:
    return _forward(gates, recurrent, state, valid, starts)


@torch.library.custom_op("anyformer::slstm_backward", mutates_args=())
def _slstm_backward(
    d_h: Tensor, h: Tensor, memory: Tensor, gates: Tensor, recurrent: Tensor, state: Tensor, valid: Tensor | None,
    starts: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return _backward(d_h, h, memory, gates, recurrent, state, valid, starts)


@_slstm.register_fake
def _(gates, recurrent, state, valid, starts):  # type: ignore[no-untyped-def]
    (B, T, H, _), E = gates.shape, recurrent.shape[1]
    return gates.new_empty(B, T, H, E), gates.new_empty(B, T, 3, H, E)


@_slstm_backward.register_fake
def _(d_h, h, memory, gates, recurrent, state, valid, starts):  # type: ignore[no-untyped-def]
    return gates.new_empty(gates.shape), recurrent.new_empty(recurrent.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*output, *inputs)


def _gradients(backward: Any, ctx: Any, d_h: Tensor, d_memory: Tensor | None) -> tuple[Tensor | None, ...]:
    return *backward(d_h, *ctx.saved_tensors), None, None, None


_slstm.register_autograd(partial(_gradients, _slstm_backward), setup_context=_keep)
_counted = counted(_forward, _keep, partial(_gradients, _backward))
