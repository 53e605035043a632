"""The generalised delta rule: any chunk is the loop, however strong the decay, across documents and from a state."""

from __future__ import annotations

import pytest
import torch

from anyformer.operations import Shape
from anyformer.parts import RWKV7, ValueGate
from anyformer.parts.recurrence.generalised_delta import generalised_delta
from anyformer.parts.recurrence.recurrence import delta_recurrence
from anyformer.plan import Plan

B, H, M, E = 2, 2, 5, 4


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def arguments(length: int, strength: float = 1.0) -> list[torch.Tensor]:
    """q, k, v, what is read, what is taken out, log-decay and state."""
    q, k, a, c, g = (drawn(B, H, 1, length, M, seed=seed) for seed in range(5))
    a = torch.nn.functional.normalize(a, dim=-1)
    state = drawn(B, H, 1, M, E, seed=6)
    given = [q, k, drawn(B, H, 1, length, E, seed=5), a, a * c.sigmoid(), -strength * g.abs(), state]
    return [x.requires_grad_() for x in given]


def loop(q, k, v, a, c, g, state, segments=None):
    """The recurrence as written, token after token."""
    out = []
    for t in range(q.shape[3]):
        if segments is not None and t:
            state = state * (segments[:, t] == segments[:, t - 1])[:, None, None, None, None]
        taken = torch.einsum("bhgm,bhgme->bhge", a[..., t, :], state)
        state = torch.diag_embed(g[..., t, :].exp()) @ state
        state = state - torch.einsum("bhgm,bhge->bhgme", c[..., t, :], taken)
        state = state + torch.einsum("bhgm,bhge->bhgme", k[..., t, :], v[..., t, :])
        out.append(torch.einsum("bhgm,bhgme->bhge", q[..., t, :], state))
    return torch.stack(out, -2), state


@pytest.mark.parametrize("length", [1, 2, 7, 16, 23])
@pytest.mark.parametrize("chunk", [1, 5, 8, 64])
def test_any_chunk_is_the_loop_forward_and_backward(length, chunk):
    given = arguments(length)
    ours, theirs = generalised_delta(*given, chunk=chunk, segments=None), loop(*given)
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y)
    found, wanted = (torch.autograd.grad((x * x.detach()).sum() + s.sum(), given) for x, s in (ours, theirs))
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_documents_start_empty(chunk):
    *given, state = arguments(11)
    segments = torch.tensor([[0] * 4 + [1] * 5 + [2] * 2, [0] * 8 + [1] * 3])
    mixed, last = generalised_delta(*given, None, chunk=chunk, segments=segments)
    wanted, end = loop(*given, torch.zeros_like(state), segments)
    torch.testing.assert_close(mixed, wanted)
    torch.testing.assert_close(last, end)


def test_a_decay_that_forgets_all_leaves_no_nan():
    given = arguments(23, strength=1e6)
    mixed, _ = generalised_delta(*given, chunk=8, segments=None)
    torch.testing.assert_close(mixed, loop(*given)[0])
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(mixed.sum(), given))


def test_the_delta_rule_is_one_of_them():
    q, k, v, _, c, g, state = arguments(13)
    beta = c[..., :1].sigmoid()
    wanted = delta_recurrence(q, k, v, beta, g, state, chunk=4, segments=None)
    ours = generalised_delta(q, beta * k, v, k * g.exp(), beta * k, g, state, chunk=4, segments=None)
    for x, y in zip(ours, wanted, strict=True):
        torch.testing.assert_close(x, y)


def test_initial_steps_forget_little():
    """0.06 to 6 % of a channel where nothing depends on the token yet, as the description says."""
    part = RWKV7(heads=16, decay_rank=8, rate_rank=8, gate_rank=8, value_gate=ValueGate(variant="first", rank=4))
    weights = part.cost(1024, Shape(), Plan()).weights
    assert weights["decay.bias"].fill == "time_step"
    step = torch.tensor([1e-3, 1e-1])
    forgotten = 1 - torch.exp(-torch.tensor(-0.5).exp() * (step.expm1().log()).sigmoid())
    torch.testing.assert_close(forgotten, torch.tensor([0.0006, 0.056]), rtol=0.05, atol=0)
