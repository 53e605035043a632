"""What does not fit a model is refused in words; models and architectures print in short."""

from __future__ import annotations

import pytest
import torch
from zoo import DECODERS

from anyformer.catalogue import architecture as catalogue
from anyformer.describe import InputError, from_toml
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build

TOKENS = torch.tensor([[1, 2, 3], [4, 5, 6]])
YES = torch.ones(2, 3, dtype=torch.bool)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return build(DECODERS["gpt2"]).eval()


@pytest.mark.parametrize(
    ("given", "facts", "words"),
    [
        (TOKENS[:, :0], {}, r"at least one row and one position, got shape \(2, 0\)"),
        (TOKENS[:0], {}, r"got shape \(0, 3\)"),
        (TOKENS + 9000, {}, r"tokens run from 9001 to 9006, and the table has rows 0 to 36: is this the model's tokenizer"),
        (TOKENS - 50, {}, "tokens run from -49 to -44"),
        (TOKENS.float(), {}, "whole numbers below 37 .*got torch.float32"),
        (TOKENS.bool(), {}, "got torch.bool"),
        (TOKENS[0], {}, r"shape \(B, T\), got \(3,\)"),
        ([[1, 2]], {}, "should be a tensor, got list"),
        (TOKENS, {"padding": YES[:, :2]}, r"padding should have the shape of its tokens \(2, 3\), got \(2, 2\)"),
        (TOKENS, {"padding": YES.float()}, "padding should be true or false"),
        (TOKENS, {"positions": TOKENS[:, :2]}, r"positions should have shape \(2, 3\), got \(2, 2\)"),
        (TOKENS, {"positions": TOKENS.float()}, "positions should be whole numbers"),
        (TOKENS, {"positions": TOKENS + 500}, "positions run from 501 to 506, and the table has rows 0 to 31"),
        (TOKENS, {"documents": TOKENS.float()}, "documents should be whole numbers"),
        (TOKENS, {"prefix": torch.tensor([1])}, r"a length per row, of shape \(2,\), got \(1,\)"),
        (
            torch.zeros(1, 40, dtype=torch.int64),
            {},
            "tokens reach position 40, and the position table .* ends at 32",
        ),
    ],
)
def test_what_does_not_fit_is_refused(model, given, facts, words):
    with pytest.raises(InputError, match=words):
        model(given, **facts)


def test_a_source_for_every_target():
    pair = build(catalogue("t5-small", tiny=True)).eval()
    with pytest.raises(InputError, match="got 2 sources and 1 targets"):
        pair(TOKENS, TOKENS[:1])


def test_a_compiler_still_sees_one_graph(model):
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(TOKENS), model(TOKENS))


def test_a_model_prints_what_it_computes(model):
    assert "Identity" not in repr(model)
    assert "rate=0.0" not in repr(model)
    assert "(query): Linear" in repr(model)


def test_an_architecture_prints_in_a_line_and_whole_as_toml():
    gpt2 = catalogue("gpt2")
    assert repr(gpt2) == (
        "Architecture(decoder-only, parameters 124,439,808, width 768, vocabulary 50,257, "
        "decoder 12 x (attention + feedforward))"
    )
    assert from_toml(Architecture, str(gpt2)) == gpt2
    assert "<td style='text-align:left'>124,439,808</td>" in gpt2._repr_html_()
    assert "local" not in repr(gpt2)
    assert len(repr(catalogue("deepseek-v3"))) < 250
