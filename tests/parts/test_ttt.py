"""Training at test time: mini-batches at once are one token after the other with losses by autograd, whatever begins where."""

from __future__ import annotations

import pytest
import torch

from anyformer.parts.recurrence.ttt import InnerModel, train_at_test_time

B, H, T, E, N = 2, 3, 11, 4, 4
POSITIONS = {
    "in order": None,
    "behind others": [list(range(1, T + 1)), list(range(7, T + 7))],
    "padding on both sides": [[-1] * 3 + list(range(T - 3)), [*range(T - 2), -1, -1]],
    "padding in between": [[0, -1, 1, 2, -1, -1, 3, 4, 5, -1, 6], [-1] * 10 + [0]],
    "nothing but padding": [[-1] * T, list(range(T))],
    "documents": [[0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 3], [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0]],
}


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def arguments(length: int, *, sums: bool) -> tuple[list[torch.Tensor], InnerModel]:
    """Queries, keys, values and rates, and a learner; `sums`: with the sum of a mini-batch that has begun."""
    tokens = [*(drawn(B, H, length, E, seed=seed) for seed in range(3)), drawn(B, H, length, 1, seed=3)]
    total = drawn(B, H, E + 1, E, seed=8) if sums else torch.zeros(B, H, E + 1, E, dtype=torch.float64)
    norm = (drawn(H, 1, E, seed=5), drawn(H, 1, E, seed=6))
    return tokens, InnerModel(drawn(N, seed=4), *norm, drawn(B, H, E + 1, E, seed=7), total, 0.1)


def loop(q, k, v, rate, learner, positions):
    """One row and token after the other."""
    share, gain, bias, weight, total, eps = learner
    rows, ones = [], torch.ones(H, 1, dtype=torch.float64)
    for row in range(B):
        now, steps, out = weight[row], total[row], []
        for t in range(q.shape[2]):
            p = t if positions is None else positions[row][t]
            if p < 0:
                out.append(torch.zeros(H, E, dtype=torch.float64))
                continue
            if p == 0:
                now, steps = weight[row], total[row]
            key, query = (torch.cat([x[row, :, t], ones], 1) for x in (k, q))
            z = torch.einsum("hi,hij->hj", key, now)
            centred = z - z.mean(1, keepdim=True)
            guess = gain[:, 0] * centred / torch.sqrt((centred**2).mean(1, keepdim=True) + eps) + bias[:, 0]
            loss = ((guess - (v[row, :, t] - k[row, :, t])) ** 2).sum() / 2
            (slope,) = torch.autograd.grad(loss, z, create_graph=True)
            steps = steps + rate[row, :, t, :, None] * key[:, :, None] * slope[:, None]
            moved = now - share[p % N] * steps
            out.append(torch.einsum("hi,hij->hj", query, moved))
            if p % N == N - 1:
                now, steps = moved, torch.zeros_like(steps)
        rows.append((torch.stack(out, 1), now, steps))
    return [torch.stack(each) for each in zip(*rows, strict=True)]


def compared(length, positions, *, sums):
    """Outputs, the learner after them, and all gradients."""
    tokens, learner = arguments(length, sums=sums)
    given = None if positions is None else torch.tensor(positions)
    ours, theirs = train_at_test_time(*tokens, learner, given), loop(*tokens, learner, positions)
    valid = torch.ones(B, length, dtype=torch.bool) if given is None else given >= 0
    ours, theirs = ([x[0] * valid[:, None, :, None], *x[1:]] for x in (ours, theirs))
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y)
    leaves = [x for x in (*tokens, *learner[:-1]) if x.requires_grad]
    directions = [drawn(*x.shape, seed=9).detach() for x in ours]
    found, wanted = (
        torch.autograd.grad(
            sum((x * direction).sum() for x, direction in zip(each, directions, strict=True)),
            leaves, allow_unused=True, materialize_grads=True,
        )
        for each in (ours, theirs)
    )  # fmt: skip
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("where", POSITIONS)
def test_mini_batches_are_the_loop_forward_and_backward(where):
    compared(T, POSITIONS[where], sums=where in ("behind others", "nothing but padding"))


@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_rows_of_any_length_are_the_loop(length):
    compared(length, None, sums=False)


@pytest.mark.parametrize("positions", [[[3], [5]], [[0], [-1]]])
def test_a_token_alone_is_the_loop(positions):
    compared(1, positions, sums=positions[0] != [0])


@pytest.mark.parametrize("where", ["in order", "documents"])
def test_operators_are_what_torch_takes_them_for(where):
    tokens, learner = arguments(T, sums=False)
    given = None if POSITIONS[where] is None else torch.tensor(POSITIONS[where])
    # As a part gives them: heads in front of positions, in the memory of heads behind them.
    tokens = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in tokens]
    learner = learner._replace(weight=drawn(H, E, E + 1, seed=7).mT.expand(B, -1, -1, -1))
    inputs = (*tokens, *learner[:-1], given, learner.eps)
    torch.library.opcheck(torch.ops.anyformer.train_at_test_time, inputs)


def test_positions_of_one_row_are_those_of_every_row():
    inputs, learner = arguments(9, sums=False)
    one, each = (
        train_at_test_time(*inputs, learner, x) for x in (torch.arange(9)[None], torch.arange(9).expand(len(inputs[0]), -1))
    )
    for a, b in zip(one, each, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
