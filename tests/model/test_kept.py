"""Positions that are left out of a stack: as a stack of those alone, in their places."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.describe import InputError
from anyformer.model.transformer import build

ENTRIES = ("vit-base-16", "dinov2-registers-base", "dinov3-small-16", "bert-base-uncased")


def model_and_rows(name: str):
    made = architecture(name, tiny=True)
    model = build(made.but(head=None), seed=1).eval()
    with torch.no_grad():  # layer scales and learned vectors that begin as nothing would hide a mistake
        for number, weight in enumerate(model.parameters()):
            weight.add_(0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)))
    return model, made.embedding.published(2, 21, seed=3) if made.embedding.rank == 4 else made.embedding.example(2, 14)


def front_of(model) -> int:
    cells = model.architecture.embedding.cells
    return 0 if cells is None else cells.front


@pytest.mark.parametrize("name", ENTRIES)
def test_all_kept_in_any_order_are_the_row_itself(name):
    model, rows = model_and_rows(name)
    whole = model(rows)
    front = front_of(model)
    draws = [torch.randperm(whole.shape[1] - front, generator=torch.Generator().manual_seed(n)) for n in (0, 1)]
    order = torch.cat([torch.arange(front).expand(2, -1), torch.stack(draws) + front], 1)
    found = model(rows, kept=order)
    torch.testing.assert_close(found, whole.gather(1, order[:, :, None].expand_as(whole)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_left_out_has_no_influence(name):
    """An image whose left-out squares are others, or a text whose tokens are, has the same features and no gradient there."""
    model, rows = model_and_rows(name)
    front = front_of(model)
    kept = torch.tensor([[*range(front), 6, 9], [*range(front), 7, 13]])
    found = model(rows, kept=kept)
    assert found.shape[:2] == (2, front + 2)
    if rows.dim() == 2:
        other = torch.randint(0, 50, rows.shape, generator=torch.Generator().manual_seed(1)).scatter(
            1, kept, rows.gather(1, kept)
        )
        assert not torch.equal(other, rows)
        torch.testing.assert_close(model(other, kept=kept), found)
        return
    pixels = rows.clone().requires_grad_()
    model(pixels, kept=kept).square().sum().backward()
    cells = model.architecture.embedding.cells
    squares = pixels.grad.unfold(2, cells.size, cells.size).unfold(3, cells.size, cells.size).abs().sum((1, 4, 5)).flatten(1)
    for row, numbers in enumerate(kept.tolist()):
        read = {number - cells.front for number in numbers if number >= cells.front}
        assert set(squares[row].nonzero()[:, 0].tolist()) == read


@pytest.mark.parametrize(
    ("kept", "options", "words"),
    [
        ([[0, 99]] * 2, {}, "numbers from 0 to 13, got 0 to 99"),
        ([[0, 1]], {}, r"shape \(2, positions\), got \(1, 2\)"),
        ([[0.0, 1.0]] * 2, {}, "kept should be whole numbers"),
        ([[0, 1]] * 2, {"positions": torch.arange(14)[None]}, "positions would not fit them"),
    ],
)
def test_numbers_that_no_position_has_are_refused(kept, options, words):
    model, rows = model_and_rows("bert-base-uncased")
    with pytest.raises(InputError, match=words):
        model(rows, kept=torch.tensor(kept), **options)


def test_learned_vectors_in_front_stay():
    model, rows = model_and_rows("dinov2-registers-base")
    for kept in ([[1, 0, 2, 3, 4, 7]] * 2, [[0, 1]] * 2):
        with pytest.raises(InputError, match="begin with the 5 learned vectors in front of the patches, 0 to 4"):
            model(rows, kept=torch.tensor(kept))


def test_a_model_of_two_inputs_keeps_whole_rows():
    model = build(architecture("t5-small", tiny=True))
    with pytest.raises(InputError, match="leave kept out"):
        model(
            torch.zeros(1, 4, dtype=torch.int64),
            torch.zeros(1, 4, dtype=torch.int64),
            kept=torch.zeros(1, 1, dtype=torch.int64),
        )
