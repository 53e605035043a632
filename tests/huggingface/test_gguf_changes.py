"""What llama.cpp's layout does to tensors, entry by entry, and back."""

from __future__ import annotations

import torch

from anyformer.huggingface.gguf.changes import (
    Absorbed,
    AlternatingExperts,
    Halved,
    NegativeExponential,
    Neighbours,
    ShapedAs,
    Shifted,
    TurnedExperts,
    Ungrouped,
)
from anyformer.huggingface.gguf.rotary import LLAMA3, factors


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def there_and_back(op, *theirs):
    """The tensors of the file, after a look at the way back."""
    file = op.write(list(theirs))
    back = op.read(file, [x.shape for x in theirs])
    assert len(back) == len(theirs)
    for was, now in zip(theirs, back, strict=True):
        torch.testing.assert_close(now, was, rtol=0, atol=1e-6)
    return file


def test_halves_become_neighbours_head_by_head():
    heads, width, x = 3, 8, numbers(24, 5)
    (found,) = there_and_back(Neighbours(heads), x)
    for head in range(heads):
        for pair in range(width // 2):
            assert torch.equal(found[head * width + 2 * pair], x[head * width + pair])
            assert torch.equal(found[head * width + 2 * pair + 1], x[head * width + pair + width // 2])
    bias = there_and_back(Neighbours(heads), x[:, 0])[0]
    assert torch.equal(bias, found[:, 0])


def test_groups_of_queries_keys_and_values_are_sorted():
    groups, queries, width = 2, 3, 4
    x = numbers(groups * (queries + 2) * width, 5)
    (found,) = there_and_back(Ungrouped(groups, queries), x)
    rows = []
    for part in (range(queries), [queries], [queries + 1]):
        for group in range(groups):
            rows += [x[((group * (queries + 2)) + head) * width + i] for head in part for i in range(width)]
    assert torch.equal(found, torch.stack(rows))


def test_gate_and_up_of_experts():
    both = numbers(4, 6, 10)
    gate, up = there_and_back(Halved(1), both)
    assert torch.equal(gate, both[:, :3])
    assert torch.equal(up, both[:, 3:])
    stacked = numbers(2, 5, 8)  # (X, D, 2F)
    gate, up = there_and_back(AlternatingExperts(), stacked)
    for expert in range(2):
        for i in range(4):
            assert torch.equal(gate[expert, i], stacked[expert, :, 2 * i])
            assert torch.equal(up[expert, i], stacked[expert, :, 2 * i + 1])
    gate, up = there_and_back(AlternatingExperts(), stacked[:, 0])
    assert torch.equal(gate, stacked[:, 0, ::2])
    assert torch.equal(up, stacked[:, 0, 1::2])
    assert torch.equal(there_and_back(TurnedExperts(), stacked)[0], stacked.transpose(1, 2))
    assert torch.equal(there_and_back(TurnedExperts(), stacked[0])[0], stacked[0])


def test_keys_and_values_of_a_latent():
    heads, keys, values, latent = 3, 4, 2, 5
    x = numbers(heads * (keys + values), latent)
    key, value = there_and_back(Absorbed(heads, keys), x)
    assert key.shape == (heads, latent, keys)
    assert value.shape == (heads, values, latent)
    for head in range(heads):
        assert torch.equal(key[head], x[head * 6 : head * 6 + keys].mT)
        assert torch.equal(value[head], x[head * 6 + keys : head * 6 + 6])


def test_numbers_and_shapes():
    x = numbers(6, 1, 4)
    assert torch.equal(there_and_back(Shifted(), x)[0], x + 1)
    assert torch.equal(there_and_back(NegativeExponential(), x)[0], -x.exp())
    assert torch.equal(there_and_back(ShapedAs((-1, 4), (-1, 1, 4)), x)[0], x[:, 0])


def test_factors_of_a_long_context_are_those_of_transformers():
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    table = {**LLAMA3[0], "rope_theta": 500_000.0}
    config = LlamaConfig(head_dim=64, hidden_size=64, num_attention_heads=1, rope_parameters=table)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 500_000.0 ** (-torch.arange(0, 64, 2) / 64)
    torch.testing.assert_close(plain / scaled, torch.tensor(factors(table, 64, 500_000.0)), rtol=1e-5, atol=0)
