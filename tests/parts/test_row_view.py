"""The first rows of a decode state, in the same memory."""

from __future__ import annotations

import pytest
import torch
from zoo import DECODERS

from anyformer.generation.decode import decode, prefill
from anyformer.model.transformer import build
from anyformer.parts.call.row_view import row_view
from anyformer.serving.states import side_by_side

KINDS = ("llama", "window", "latent", "delta_gated", "latent_indexed")


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_a_step_of_the_first_rows_is_that_of_all_and_leaves_the_others_alone(kind):
    model = build(DECODERS[kind]).eval()
    assert side_by_side(model) is None
    state = model.state(4, 12)
    prefill(model, torch.tensor([[3, 1, 4], [1, 5, 9], [2, 6, 5], [3, 5, 8]]), None, state)
    whole, tokens = state.fork(torch.arange(4)), torch.tensor([7, 2, 1, 4])
    first, last = row_view(state, 2), state.fork(torch.tensor([2, 3]))
    for each in (whole, first):
        each.slots.reserve(1)
    expected = decode(model, tokens, whole)
    assert torch.allclose(decode(model, tokens[:2], first), expected[:2], atol=1e-5)
    assert _rows(state, [0, 1]) == _rows(first, [0, 1]) != _rows(last, [0, 1])
    assert _rows(state, [2, 3]) == _rows(last, [0, 1])


def _rows(state, rows):
    """The bytes of some rows of every tensor."""
    forked = state.fork(torch.tensor(rows))
    found = [forked.slots.positions]
    for layer in forked.layers:
        for each in layer.values():
            found += [value for value in vars(each).values() if isinstance(value, torch.Tensor)]
    return [value.tolist() for value in found]
