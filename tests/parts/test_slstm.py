"""The recurrence of sLSTM: the operator is the loop without a stabiliser, forward and backward, whatever begins where."""

from __future__ import annotations

import pytest
import torch

from anyformer.parts import SLSTM
from anyformer.parts.recurrence.slstm_recurrence import slstm_recurrence

B, H, E, T = 2, 3, 2, 11


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def arguments(length: int = T, strength: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    return (strength * drawn(B, length, H, 4 * E, seed=1)).requires_grad_(), drawn(H, E, 4 * E, seed=2).requires_grad_()


EMPTY = torch.zeros(B, 4, H, E, dtype=torch.float64)


def loop(gates, recurrent, c, n, h, valid=None, starts=None):
    """One row and token after the other; c, n and h as they are, not scaled."""
    rows = []
    for row in range(B):
        now, out = (c[row], n[row], h[row]), []
        for t in range(gates.shape[1]):
            if starts is not None and starts[row][t]:
                now = tuple(torch.zeros_like(x) for x in now)
            if valid is None or valid[row][t]:
                z, i, f, o = (gates[row, t] + torch.einsum("he,heo->ho", now[2], recurrent)).chunk(4, -1)
                keep = 1 / (1 + torch.exp(-f))
                cell, count = keep * now[0] + i.exp() * torch.tanh(z), keep * now[1] + i.exp()
                now = (cell, count, cell / count / (1 + torch.exp(-o)))
            out.append(now[2])
        rows.append((torch.stack(out), *now))
    return [torch.stack(each) for each in zip(*rows, strict=True)]


CASES = {
    "in order": {},
    "padding on both sides": {"valid": [[False] * 3 + [True] * 8, [True] * 9 + [False] * 2]},
    "nothing but padding": {"valid": [[True, False, True, False, False] + [True] * 6, [False] * T]},
    "documents": {"starts": [[t in (4, 9) for t in range(T)], [t == 8 for t in range(T)]]},
    "documents with padding": {
        "starts": [[t in (4, 9) for t in range(T)], [t == 8 for t in range(T)]],
        "valid": [[t not in (3, 4, 10) for t in range(T)], [t not in (0, 7) for t in range(T)]],
    },
}


def compared(gates, recurrent, state, unscaled, case):
    valid, starts = (None if case.get(name) is None else torch.tensor(case[name]) for name in ("valid", "starts"))
    ours, after = slstm_recurrence(gates, recurrent, state, valid, starts)
    theirs, cell, count, last = loop(gates, recurrent, *unscaled, **case)
    torch.testing.assert_close(ours, theirs)
    c, n, m, h = after.unbind(1)
    for x, y in ((c * m.exp(), cell), (n * m.exp(), count), (h, last)):
        torch.testing.assert_close(x, y)
    direction = drawn(*ours.shape, seed=9)
    found, wanted = (torch.autograd.grad((x * direction).sum(), (gates, recurrent)) for x in (ours, theirs))
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("case", CASES)
def test_tokens_are_the_loop_forward_and_backward(case):
    compared(*arguments(), EMPTY, [EMPTY[:, 0]] * 3, CASES[case])


@pytest.mark.parametrize("length", [1, 2, 7])
def test_any_length_goes_on_from_a_state(length):
    c, n, m, h = (drawn(B, H, E, seed=seed) for seed in (3, 4, 5, 6))
    n = n.abs() + 1
    compared(*arguments(length), torch.stack([c, n, m, h], 1), (c * m.exp(), n * m.exp(), h), {})


@pytest.mark.parametrize("strength", [1e2, 1e4])
def test_gates_whose_exponentials_overflow_leave_no_nan(strength):
    for length in (1, T):
        given = arguments(length, strength)
        h, after = slstm_recurrence(*given, EMPTY, None, None)
        assert h.isfinite().all()
        assert after.isfinite().all()
        assert (after[:, 1] >= 1).all()
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(h.sum(), given))


@pytest.mark.parametrize("case", ["in order", "documents with padding"])
def test_operators_are_what_torch_takes_them_for(case):
    masks = (None if CASES[case].get(name) is None else torch.tensor(CASES[case][name]) for name in ("valid", "starts"))
    torch.library.opcheck(torch.ops.anyformer.slstm, (*arguments(), EMPTY, *masks))


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="10"):
        SLSTM(heads=4).check(10)
