"""CTC's loss beside the sum over all paths, forward and backward, and as one graph."""

from __future__ import annotations

import itertools

import pytest
import torch

from anyformer.model.ctc_loss import ctc_losses

T, V = 5, 4
SYMBOLS = torch.tensor([[1, 2, -100], [2, 2, -100], [3, -100, -100], [1, 0, 1], [-100, -100, -100]])
POSITIONS = torch.tensor([5, 4, 3, 5, 4])
BLANK = torch.tensor([[0], [0], [1], [3], [0]])
"""Rows of several lengths, with blanks of several numbers."""


def joined(path: tuple[int, ...], blank: int) -> list[int]:
    return [symbol for symbol, _ in itertools.groupby(path) if symbol != blank]


def summed_over_paths(logits: torch.Tensor) -> torch.Tensor:
    """-log of the sum of the probabilities of every path that spells the symbols."""
    losses = []
    for row, symbols, positions, blank in zip(logits, SYMBOLS, POSITIONS.tolist(), BLANK[:, 0].tolist(), strict=True):
        wanted = symbols[symbols >= 0].tolist()
        p = row.softmax(-1)
        paths = (path for path in itertools.product(range(V), repeat=positions) if joined(path, blank) == wanted)
        total = sum(torch.stack([p[t, symbol] for t, symbol in enumerate(path)]).prod() for path in paths)
        losses.append(-total.log() if wanted else logits.new_zeros(()))
    return torch.stack(losses)


def drawn() -> torch.Tensor:
    return torch.randn(len(SYMBOLS), T, V, generator=torch.Generator().manual_seed(1)).requires_grad_()


def test_losses_and_gradients_are_those_of_all_paths():
    logits, factors = drawn(), torch.tensor([1.0, 0.5, 2.0, 3.0, 4.0])
    ours = ctc_losses(logits, SYMBOLS, POSITIONS, BLANK)
    theirs = summed_over_paths(logits.double())
    torch.testing.assert_close(ours.double(), theirs)
    (one,), (other,) = (torch.autograd.grad((losses * factors).sum(), logits) for losses in (ours, theirs))
    torch.testing.assert_close(one, other)
    assert not one[0, :5].eq(0).all()
    assert one[2, 3:].eq(0).all()


def test_it_is_one_graph_with_the_same_numbers():
    logits = drawn()
    whole = torch.compile(lambda z: ctc_losses(z, SYMBOLS, POSITIONS, BLANK).sum(), fullgraph=True, backend="aot_eager")
    (one,), (other,) = (
        torch.autograd.grad(loss, logits) for loss in (whole(logits), ctc_losses(logits, SYMBOLS, POSITIONS, BLANK).sum())
    )
    assert torch.equal(one, other)


def test_a_gradient_has_the_type_of_its_logits():
    logits = drawn().detach().bfloat16().requires_grad_()
    ctc_losses(logits, SYMBOLS, POSITIONS, BLANK).sum().backward()
    assert logits.grad.dtype == torch.bfloat16


def test_too_few_positions_are_an_infinite_loss():
    """`aab` takes four: a blank stands between equal symbols."""
    loss = ctc_losses(drawn(), SYMBOLS[1:2].expand(5, -1), torch.full((5,), 2), BLANK[:1].expand(5, -1))
    assert loss.isinf().all()
    with pytest.raises(RuntimeError):
        ctc_losses(drawn(), SYMBOLS, POSITIONS + T, BLANK)
