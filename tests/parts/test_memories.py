"""Slots and least squares over time: any chunk is token after token, across documents, and as the authors' code has it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from anyformer.parts import GatedDelta2
from anyformer.parts.call.context import Context
from anyformer.parts.recurrence.gated_slot_attention_module import decayed_sums, slot_recurrence
from anyformer.parts.recurrence.mesa import conjugate_gradients, mesa_recurrence, solved
from anyformer.parts.recurrence.recurrence import delta_recurrence
from anyformer.plan import Plan

B, H, M, E, SLOTS = 2, 2, 3, 4, 5


def waves(*shape: int, step: float) -> torch.Tensor:
    """sin(step), sin(2 step) ...: numbers that anyone can write down again."""
    return torch.sin(torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64) * step).view(shape)


def heads(x: torch.Tensor) -> torch.Tensor:
    """(B, T, H, W) -> (B, H, 1, T, W), a leaf."""
    return x.transpose(1, 2)[:, :, None].clone().requires_grad_()


def slots(length: int) -> list[torch.Tensor]:
    """q, k, v, log-decay."""
    q, k, v = (waves(B, length, H, n, step=step) for n, step in ((M, 0.7), (M, 1.1), (E, 1.9)))
    return [heads(x) for x in (q, k, v, -waves(B, length, H, SLOTS, step=0.3).abs())]


def mesa(length: int) -> list[torch.Tensor]:
    """q, k, v, beta, log-decay, ridge."""
    q, k = (F.normalize(waves(B, length, H, M, step=step), dim=-1) for step in (0.7, 1.1))
    beta, log_decay = (waves(B, length, H, 1, step=step).abs() for step in (0.5, -0.3))
    ridge = 0.5 + waves(H, 1, 1, M, step=0.9).abs()
    return [*(heads(x) for x in (q, k, waves(B, length, H, M, step=1.9), beta, -log_decay)), ridge.requires_grad_()]


def over_slots(given, state=None, *, chunk=4, segments=None):
    return slot_recurrence(*given, state, chunk=chunk, segments=segments)


def least_squares(given, state=None, *, chunk=4, segments=None):
    return mesa_recurrence(*given, state, iterations=12, chunk=chunk, segments=segments)


def taken(given, start: int, stop: int) -> list[torch.Tensor]:
    """These tokens of each input; what has none is for all."""
    return [x[..., start:stop, :] if x.dim() == 5 else x for x in given]


both = pytest.mark.parametrize(("compute", "inputs"), [(over_slots, slots), (least_squares, mesa)], ids=["slots", "mesa"])


def one_by_one(compute, given, length: int, starts: tuple[int, ...] = (0,)):
    """One token after the other, from an empty state at each start."""
    out, state = [], None
    for t in range(length):
        y, state = compute(taken(given, t, t + 1), None if t in starts else state)
        out.append(y)
    return torch.cat(out, -2), state


@both
@pytest.mark.parametrize("length", [2, 7, 9, 16])
@pytest.mark.parametrize("chunk", [1, 4, 5, 64])
def test_any_chunk_is_token_after_token_forward_and_backward(compute, inputs, length, chunk):
    given = inputs(length)
    ours, theirs = compute(given, chunk=chunk), one_by_one(compute, given, length)
    torch.testing.assert_close(ours, theirs)
    losses = ((y * torch.cos(y.detach())).sum() + (state**2).sum() for y, state in (ours, theirs))
    found, wanted = (torch.autograd.grad(loss, given) for loss in losses)
    torch.testing.assert_close(found, wanted)


@both
def test_a_state_goes_on_where_it_was_left(compute, inputs):
    given = inputs(11)
    whole, last = compute(given)
    first, state = compute(taken(given, 0, 6))
    second, state = compute(taken(given, 6, 11), state)
    torch.testing.assert_close((torch.cat([first, second], -2), state), (whole, last))


@both
@pytest.mark.parametrize("chunk", [2, 4, 64])
def test_documents_know_nothing_of_each_other(compute, inputs, chunk):
    given = inputs(10)
    segments = torch.tensor([[0] * 3 + [1] * 2 + [2] * 5]).expand(B, -1)
    ours = compute(given, chunk=chunk, segments=segments)
    torch.testing.assert_close(ours, one_by_one(compute, given, 10, (0, 3, 5)))


def test_decayed_sums_are_every_pair_however_strong_the_decay():
    pairs, x = waves(2, 8, 8, step=0.7), waves(2, 8, 3, step=1.3)
    log_decay = -waves(2, 8, 3, step=0.4).abs() * torch.tensor([0.1, 5.0, 400.0])
    wanted = torch.zeros_like(x)
    for i in range(8):
        for j in range(i + 1):
            wanted[:, i] += pairs[:, i, j, None] * x[:, j] * log_decay[:, j + 1 : i + 1].sum(1).exp()
    torch.testing.assert_close(decayed_sums(pairs.tril(), x, log_decay), wanted)


def operands(x: torch.Tensor, matrix: torch.Tensor, ridge: torch.Tensor | None = None):
    """Those of a solver for one matrix alone."""
    none, ridge = x[..., :0, :], torch.zeros_like(x[..., :1, :]) if ridge is None else ridge
    return (ridge, none, none, x[..., :0], torch.ones_like(x[..., :1]), matrix)


def test_gradients_of_a_solution_are_those_of_the_inverse():
    root = waves(4, 4, step=1.7)
    matrix = (root @ root.mT + 0.3 * torch.eye(4, dtype=torch.float64)).requires_grad_()
    q, ridge = waves(3, 4, step=0.6).requires_grad_(), waves(1, 4, step=0.2).abs().requires_grad_()
    ours, theirs = solved(8, q, operands(q, matrix, ridge)), q @ torch.linalg.inv(matrix + torch.diag(ridge[0]))
    torch.testing.assert_close(ours, theirs)
    found, wanted = (torch.autograd.grad((y**3).sum(), (q, matrix, ridge)) for y in (ours, theirs))
    torch.testing.assert_close(found[::2], wanted[::2])
    # The matrix is taken to be symmetric: its gradient is one as well.
    torch.testing.assert_close(found[1] + found[1].mT, wanted[1] + wanted[1].mT)


def test_fewer_iterations_are_further_off_and_an_exact_solution_stays():
    root, q = waves(4, 4, step=1.7) ** 3, waves(3, 4, step=0.6)
    matrix = root @ root.mT + 0.3 * torch.eye(4, dtype=torch.float64)
    exact = q @ torch.linalg.inv(matrix)
    errors = [(conjugate_gradients(n, q, operands(q, matrix)) - exact).norm() for n in (1, 2, 3, 4, 200)]
    assert errors[0] > errors[1] > errors[2] > 10 * errors[3]
    assert errors[4] < 1e-12
    assert not conjugate_gradients(3, torch.zeros_like(q), operands(q, matrix)).any()


RECORDED = {
    over_slots: (
        [[-0.1179718, -0.0912914, 0.1769989, -0.0231524], [-0.3456727, 0.3215530, 0.1377632, -0.4106278]],
        8.3625874,
    ),
    least_squares: ([[-0.1409608, 0.2138128, 0.0027139], [0.2539240, -0.1764346, -0.1398451]], 3.5995109),
}
"""What flash-linear-attention 0.6.0 gives of these inputs, 9 tokens: its naive recurrent GSA at a scale of 1, and its exact
MesaNet, both in fp32. The last token of the first row, and the sum of all squares."""


@both
def test_it_is_what_the_authors_code_gives(compute, inputs):
    last, squares = RECORDED[compute]
    ours = compute(inputs(9))[0].detach()
    torch.testing.assert_close(ours[0, :, 0, -1], torch.tensor(last, dtype=torch.float64), rtol=1e-5, atol=1e-6)
    assert ours.square().sum().item() == pytest.approx(squares, rel=1e-6)


def erasing(length: int, erase: torch.Tensor, write: torch.Tensor) -> torch.Tensor:
    """The mixed heads of a `GatedDelta2` whose gates are these, 0 to 1."""
    part = GatedDelta2(heads=H, key_width=M, value_width=E)
    q, k = (F.normalize(waves(B, length, H, M, step=step), dim=-1) for step in (0.7, 1.1))
    plan = Plan(chunk=4)
    inputs = (x.flatten(2) for x in (q, k, waves(B, length, H, E, step=1.9), erase.logit(), write.logit()))
    context = Context(positions=torch.arange(length)[None], plan=plan, padded=False)
    log_decay = -waves(B, length, H, M, step=0.3).abs()
    return part.build(8, plan, "mixer").double().recur(*inputs, log_decay, context=context).detach()


def test_erasing_and_writing_by_feature_is_what_the_authors_code_gives():
    """flash-linear-attention 0.6.0's naive recurrent GDN-2 in fp32."""
    ours = erasing(9, waves(B, 9, H, M, step=0.5).abs(), waves(B, 9, H, E, step=0.9).abs())
    last = [[-0.0387412, -0.0025071, 0.1824529, -0.0313556], [0.2587603, -0.0758331, -0.0773391, 0.4682728]]
    torch.testing.assert_close(ours[0, -1], torch.tensor(last, dtype=torch.float64), rtol=1e-4, atol=1e-6)
    assert ours.square().sum().item() == pytest.approx(4.5705075, rel=1e-5)


def test_with_one_gate_for_both_it_is_kimis_delta_rule():
    beta = waves(B, 9, H, 1, step=0.5).abs()
    q, k = (F.normalize(waves(B, 9, H, M, step=step), dim=-1) for step in (0.7, 1.1))
    v, log_decay = waves(B, 9, H, E, step=1.9), -waves(B, 9, H, M, step=0.3).abs()
    kimis = delta_recurrence(*(heads(x) for x in (q * M**-0.5, k, v, beta, log_decay)), None, chunk=4, segments=None)[0]
    ours = erasing(9, beta.expand(-1, -1, -1, M), beta.expand(-1, -1, -1, E))
    torch.testing.assert_close(heads(ours), kimis, rtol=1e-5, atol=1e-6)
