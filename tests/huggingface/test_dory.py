"""Dory of transformers 5.24, which the tests' own version does not have: logits that its class gave for weights of a formula.

Held against the class itself, with padding, decoding and gradients too, all variants differ by 1e-06 at most.
"""

from __future__ import annotations

import json
import re

import pytest
import torch
from safetensors.torch import save_file

from anyformer import huggingface
from anyformer.catalogue import architecture
from anyformer.huggingface import Config, HuggingFaceError, read_architecture
from anyformer.huggingface.convert import tensors_of
from anyformer.huggingface.rules import rules
from huggingface.recorded import by_formula, stored_shapes

SIZES = {
    "model_type": "dory", "vocab_size": 53, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 5,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10, "sliding_window": 4, "n_input_layers": 1,
    "n_recurrent_layers": 3, "n_output_layers": 1, "n_recurrent_loops": 3, "initializer_range": 0.3, "ngpt_alpha_init": 0.2,
}  # fmt: skip
TOKENS = torch.arange(13)[None] * 7 % 53
COUNTED = ("num_hidden_layers", "n_input_layers", "n_recurrent_layers", "n_output_layers")
IN_BLOCKS = {
    **SIZES,
    **{name: 2 * SIZES[name] for name in COUNTED},
    "layer_types": ["sliding_attention", "mlp"] * 3 + ["full_attention", "mlp", "sliding_attention", "mlp"],
}
"""The same as published files say it: a block for each attention and each network."""


def of(**keys: object):
    return read_architecture(Config(keys))[0]


PUBLISHED = {
    "model.embed_tokens.": "backbone.embeddings.", "self_attn.gate_proj": "mixer.g_proj", "self_attn.": "mixer.",
    "mlp.": "mixer.", "lambda_1": "attn_alpha", "lambda_2": "mlp_alpha", "model.": "backbone.",
}  # fmt: skip


def as_published(name: str) -> str:
    """The name in published files, where attention and network of layer i are the blocks 2 i and 2 i + 1."""
    of_network = "mlp" in name or "lambda_2" in name
    name = re.sub(r"layers\.(\d+)", lambda found: f"layers.{2 * int(found[1]) + of_network}", name)
    for now, published in PUBLISHED.items():
        name = name.replace(now, published)
    return name


@pytest.fixture(scope="module")
def stored() -> dict[str, torch.Tensor]:
    """All weights by transformers' names."""
    return by_formula(stored_shapes(of(**SIZES), "dory"))


LAST = [0.0, -0.110102, 0.093147, -0.000709, 0.072484, -0.12663, 0.022177, -0.017598]
FIFTH = [
    0.014844, -0.340815, 0.893219, -0.436093, -0.52703, 0.743711, -0.320736, 0.355952, 0.388885, -0.013983, -0.630473, 0.958543,
    -0.12663,
]  # fmt: skip
"""Logits of the last position, and of token 5 at every position: DoryForCausalLM of transformers 5.24.0 in fp64."""


@pytest.mark.parametrize("spelling", ["published", "transformers"])
def test_logits_are_those_of_transformers(stored, spelling, tmp_path):
    published = spelling == "published"
    save_file({as_published(n) if published else n: each for n, each in stored.items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(IN_BLOCKS if published else SIZES))
    model = huggingface.load(tmp_path)[0].double()
    with torch.no_grad():
        logits = model(TOKENS)[0]
    torch.testing.assert_close(logits[-1, :8], torch.tensor(LAST, dtype=torch.float64), atol=2e-6, rtol=0)
    torch.testing.assert_close(logits[:, 5], torch.tensor(FIFTH, dtype=torch.float64), atol=2e-6, rtol=0)


def test_weights_and_keys_are_written_as_they_were_read(stored, tmp_path):
    save_file(stored, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    model, family = huggingface.load(tmp_path)[0], huggingface.family("dory")
    parameters = dict(model.named_parameters())
    of_weights = rules(family.names_of(model.architecture), {name: tuple(each.shape) for name, each in parameters.items()})
    written = dict(tensors_of(of_weights, parameters))
    assert written.keys() == stored.keys()
    assert all(torch.equal(written[name], each) for name, each in stored.items())
    keys = family.write(model.architecture)
    assert {name: keys[name] for name in IN_BLOCKS} == IN_BLOCKS
    assert of(**keys) == model.architecture


def test_defaults_are_the_published_model():
    assert of(model_type="dory") == architecture("dory-4b")


def test_blocks_and_layers_are_one_thing():
    assert of(**IN_BLOCKS) == of(**SIZES)
    assert of(**{**SIZES, "n_recurrent_layers": None}) == of(**SIZES)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"n_output_layers": 2}, "add up"),
        ({"n_input_layers": 3, "n_output_layers": 2, "n_recurrent_layers": None}, "one or more in the loop"),
        ({"recurrent_kv_cache_mode": "last_loop"}, "where its chunks begin"),
        ({"layer_types": ["sliding_attention"] * 4}, "5 words"),
        ({"layer_types": ["sliding_attention", "mlp"] * 2 + ["mlp"]}, "in turn"),
        ({**IN_BLOCKS, "n_input_layers": 3}, "even"),
        ({"initializer_range": 0.0}, "above 0"),
    ],
)
def test_what_would_be_computed_otherwise_is_refused(keys, why):
    with pytest.raises(HuggingFaceError, match=why):
        of(**{**SIZES, **keys})
