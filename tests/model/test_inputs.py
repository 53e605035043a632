"""What does not fit a model is refused before any work, in words."""

from __future__ import annotations

import pytest
import torch
from zoo import DECODERS, ENCODERS, PAIRS

from anyformer.describe import DescriptionError, InputError, change
from anyformer.model.inputs import count_positions
from anyformer.model.transformer import build

X = torch.ones(2, 5, dtype=torch.long)


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        (DECODERS["llama"], ((X, X), {}), "leave decoder_tokens out"),
        (PAIRS["original"], ((X,), {}), "reads two inputs"),
        (DECODERS["llama"], ((None,), {}), "tokens are missing"),
        (DECODERS["llama"], ((X[0],), {}), r"tokens should have shape \(B, T\), got \(5,\)"),
        (
            DECODERS["llama"],
            ((X,), {"padding": torch.zeros(2, 4, dtype=torch.bool)}),
            r"padding should have the shape .*\(2, 5\)",
        ),
        (
            DECODERS["gpt2"],
            ((torch.ones(1, 33, dtype=torch.long),), {}),
            "reach position 33, and the position table of the decoder ends at 32",
        ),
    ],
)
def test_refusals(model, arguments, words):
    positional, named = arguments
    with pytest.raises(InputError, match=words):
        build(model)(*positional, **named)


def test_a_cached_position_counts_towards_the_table():
    model = build(DECODERS["gpt2"])
    state = model.state(2, 40)
    model(torch.ones(2, 30, dtype=torch.long), state=state)
    with pytest.raises(InputError, match="reach position 35"):
        model(X, state=state)


@pytest.mark.parametrize("name", ["encoder", "encoder_linear"])
def test_what_looks_ahead_has_no_state_to_go_on_from(name):
    with pytest.raises(InputError, match="cannot go on from a state"):
        build(ENCODERS[name]).state(1, 8)


def test_positions_count_within_documents_and_past_padding():
    documents = torch.tensor([[0, 0, 1, 1, 1], [4, 5, 5, 5, 4]])
    assert count_positions(X, None, documents).tolist() == [[0, 1, 0, 1, 2], [0, 0, 1, 2, 0]]
    padding = torch.tensor([[True, True, False, False, False], [False, False, False, True, True]])
    assert count_positions(X, padding, None).tolist() == [[-1, -1, 0, 1, 2], [0, 1, 2, -1, -1]]


@pytest.mark.parametrize(
    ("base", "path", "value", "words"),
    [
        (DECODERS["llama"], "decoder", None, "an encoder, a decoder or both"),
        (PAIRS["original"], "encoder", None, "cross-attention needs an encoder"),
        (PAIRS["original"], "decoder", DECODERS["llama"].decoder, "no layer reads the source"),
        (PAIRS["original"], "encoder", PAIRS["original"].decoder, "belongs into a decoder"),
        (DECODERS["llama"], "decoder_embedding", {"kind": "tokens", "vocab": 3}, "no layer reads the source"),
        (ENCODERS["encoder_window"], "width", 25, "must be even|heads must divide"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(base, path, value, words):
    with pytest.raises(DescriptionError, match=words):
        change(base, path, value)
