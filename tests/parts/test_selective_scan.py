"""The selective scan: any chunk is the loop, however strong the decay, across documents and from a state."""

from __future__ import annotations

import pytest
import torch

from anyformer.describe import DescriptionError
from anyformer.operations import Shape
from anyformer.parts import GroupedRMSNorm, Mamba, Mamba2, RMSNorm
from anyformer.parts.recurrence.selective_scan import selective_scan
from anyformer.plan import Plan

B, W, M = 2, 3, 4


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def arguments(length: int, strength: float = 1.0) -> list[torch.Tensor]:
    """Value, step, rate, key, query and state."""
    given = [
        drawn(B, length, W, seed=1), drawn(B, length, W, seed=2).abs(), strength * drawn(W, M, seed=3).abs(),
        drawn(B, length, M, seed=4), drawn(B, length, M, seed=5), drawn(B, W, M, seed=6),
    ]  # fmt: skip
    return [x.requires_grad_() for x in given]


def loop(value, step, rate, key, query, state, segments=None):
    """The recurrence as written, token after token."""
    out = []
    for t in range(value.shape[1]):
        if segments is not None and t:
            same = segments[:, t] == segments[:, t - 1]
            state = state * same[:, None, None]
        write = (step[:, t] * value[:, t])[..., None] * key[:, t, None]
        state = torch.exp(-step[:, t, :, None] * rate) * state + write
        out.append((state * query[:, t, None]).sum(-1))
    return torch.stack(out, 1), state


@pytest.mark.parametrize("length", [1, 2, 3, 7, 16, 23])
@pytest.mark.parametrize("chunk", [1, 5, 8, 64])
def test_any_chunk_is_the_loop_forward_and_backward(length, chunk):
    given = arguments(length)
    ours, theirs = selective_scan(*given, chunk=chunk, segments=None), loop(*given)
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y)
    found, wanted = (torch.autograd.grad((x * x.detach()).sum() + s.sum(), given) for x, s in (ours, theirs))
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_documents_start_empty(chunk):
    *given, _ = arguments(11)
    segments = torch.tensor([[0] * 4 + [1] * 5 + [2] * 2, [0] * 8 + [1] * 3])
    mixed, state = selective_scan(*given, None, chunk=chunk, segments=segments)
    wanted, last = loop(*given, torch.zeros(B, W, M, dtype=torch.float64), segments)
    torch.testing.assert_close(mixed, wanted)
    torch.testing.assert_close(state, last)


def test_a_decay_that_forgets_all_leaves_no_nan():
    given = arguments(23, strength=1e6)
    mixed, _ = selective_scan(*given, chunk=8, segments=None)
    torch.testing.assert_close(mixed, loop(*given)[0])
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(mixed.sum(), given[:5]))


REFUSED = {
    "groups do not divide the heads": (
        lambda: Mamba2(heads=4, head_width=8, state_width=8, groups=3), "heads must be a multiple of groups, got heads = 4"
    ),
    "limits the wrong way round": (
        lambda: Mamba2(heads=4, head_width=8, state_width=8, step_floor=1.0, step_ceiling=0.5), "must not be below step_floor"
    ),
    "a bias on what has none": (lambda: Mamba(channels=8, state_width=4, step_rank=2, bias=("key",)), "bias"),
    "groups that do not divide the norm": (
        lambda: Mamba2(heads=4, head_width=8, state_width=8, norm=GroupedRMSNorm(groups=3)).check(16),
        "groups = 3 and width = 32"
    ),
    "groups that do not divide an inner norm": (
        lambda: Mamba(channels=8, state_width=4, step_rank=2, inner_norm=GroupedRMSNorm(groups=3)).check(16), "groups = 3"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case):
    make, reason = REFUSED[case]
    with pytest.raises((ValueError, DescriptionError), match=reason):
        make()


def test_rates_do_not_decay_and_are_no_matrices():
    weights = Mamba(channels=8, state_width=4, step_rank=2, inner_norm=RMSNorm()).cost(16, Shape(), Plan()).weights
    assert not weights["A_log"].decays
    assert not weights["A_log"].linear
    assert weights["step_down.weight"].decays
