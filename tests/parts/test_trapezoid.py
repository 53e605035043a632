"""Recurrences by the trapezoidal rule: any chunk is the loop, across documents, padding, and from a state."""

from __future__ import annotations

import pytest
import torch

from anyformer.describe import DescriptionError
from anyformer.parts import Mamba3
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import EMPTY
from anyformer.parts.recurrence.trapezoid import following, latest, trapezoidal_recurrence
from anyformer.plan import Plan

B, H, M, E = 2, 2, 3, 4


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def context(length: int, valid=None, segments=None) -> Context:
    positions = torch.arange(length)[None]
    if valid is not None:
        positions = positions.expand(len(valid), -1).masked_fill(~torch.tensor(valid), EMPTY)
    documents = None if segments is None else torch.tensor(segments)
    return Context(positions, Plan(), padded=valid is not None, documents=documents)


def arguments(length: int, valid=None) -> list[torch.Tensor]:
    """q, k, v, own, before, log-decay; the last three 0 on padding."""
    q, k, v = (drawn(B, length, H, n, seed=n) for n in (M, M + 10, E))
    q, k = q[..., :M], k[..., :M]
    steps = [drawn(B, length, H, seed=n).abs() for n in (1, 2, 5)]
    if valid is not None:
        steps = [x * torch.tensor(valid)[..., None] for x in steps]
    return [x.requires_grad_() for x in (q, k, v, *steps[:2], -steps[2].detach())]


def loop(q, k, v, own, before, log_decay, valid=None, segments=None):
    """One row and token after the other."""
    rows = []
    for row in range(B):
        state, last, out = torch.zeros(H, M, E, dtype=torch.float64), None, []
        for t in range(q.shape[1]):
            if valid is not None and not valid[row][t]:
                out.append(torch.zeros(H, E, dtype=torch.float64))
                continue
            if segments is not None and last is not None and segments[row][t] != segments[row][last]:
                state, last = torch.zeros_like(state), None
            write = lambda s, row=row: k[row, s, :, :, None] * v[row, s, :, None]  # noqa: E731
            if last is not None:
                state = state + before[row, t, :, None, None] * write(last)
            state = log_decay[row, t].exp()[:, None, None] * state + own[row, t, :, None, None] * write(t)
            out.append(torch.einsum("hm,hme->he", q[row, t], state))
            last = t
        rows.append((torch.stack(out), state))
    return [torch.stack(each) for each in zip(*rows, strict=True)]


CASES = {
    "in order": {},
    "padding on both sides": {"valid": [[False] * 3 + [True] * 8, [True] * 9 + [False] * 2]},
    "padding in between": {"valid": [[True, False, True, False, False] + [True] * 6, [False] * 11]},
    "documents": {"segments": [[0] * 4 + [1] * 5 + [2] * 2, [0] * 8 + [1] * 3]},
    "documents with padding": {
        "segments": [[0] * 4 + [1] * 5 + [2] * 2, [0] * 8 + [1] * 3],
        "valid": [[True] * 3 + [False] * 2 + [True] * 6, [False] * 2 + [True] * 8 + [False]],
    },
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_any_chunk_is_the_loop_forward_and_backward(case, chunk):
    given = arguments(11, CASES[case].get("valid"))
    ours = trapezoidal_recurrence(*given, None, context(11, **CASES[case]), chunk=chunk)
    theirs = loop(*given, **CASES[case])
    valid = torch.tensor(CASES[case].get("valid", [[True] * 11] * B))[..., None, None]
    torch.testing.assert_close(ours[0] * valid, theirs[0])
    torch.testing.assert_close(ours[1][:, :, 0], theirs[1])
    found, wanted = (torch.autograd.grad((x * valid * x.detach()).sum(), given) for x in (ours[0], theirs[0]))
    for x, y in zip(found, wanted, strict=True):
        tokens = valid if x.ndim == 4 else valid[..., 0]
        torch.testing.assert_close(x * tokens, y)  # what is 0 on padding comes from a mask


def test_what_follows_passes_over_padding_and_stays_in_a_document():
    x = torch.arange(1.0, 6.0)[None, :, None]
    one = lambda **case: following(x, context(5, **case))[0, :, 0].tolist()  # noqa: E731
    assert one() == [1, 2, 3, 4, 5, 0]
    assert one(valid=[[False, True, False, True, False]]) == [2, 0, 4, 0, 0, 0]
    assert one(segments=[[0, 0, 1, 1, 2]]) == [1, 2, 0, 4, 0, 0]


def test_the_latest_token_is_the_held_one_where_all_is_padding():
    x, held = drawn(B, 4, 3, seed=0), drawn(B, 1, 3, seed=1)
    found = latest(x, held, context(4, valid=[[True, True, False, False], [False] * 4]))
    torch.testing.assert_close(found, torch.stack([x[0, 1:2], held[1]]))
    torch.testing.assert_close(latest(x, held, context(4)), x[:, -1:])


def test_angles_that_do_not_fit_are_refused():
    with pytest.raises(DescriptionError, match=r"at most 2, got angles = 3 and state_width = 5"):
        Mamba3(heads=2, head_width=4, state_width=5, angles=3)
    with pytest.raises(DescriptionError, match=r"heads must be a multiple of groups, got heads = 3 and groups = 2"):
        Mamba3(heads=3, head_width=4, state_width=4, groups=2)
    with pytest.raises(DescriptionError, match="leave it out, or give angles"):
        Mamba3(heads=2, head_width=4, state_width=4, bias=("angle",))
