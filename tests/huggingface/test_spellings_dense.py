"""The dense decoders beside Llama's closest kin: keys left out and older spellings, against what transformers makes of them."""

from __future__ import annotations

import pytest

from huggingface.test_spellings import LLAMA3, OLD, SIZES, differences

NEEDED = {
    "phi3": {"pad_token_id": 0}, "glm": {"pad_token_id": 0}, "glm4": {"pad_token_id": 0}, "helium": {"num_key_value_heads": 2},
    "nemotron": {"num_key_value_heads": 2}, "hunyuan_v1_dense": {"head_dim": 8}, "bitnet": {"num_key_value_heads": 2},
}  # fmt: skip
"""Keys without which the class is no model of these sizes."""
LEFT_OUT = (
    "starcoder2", "stablelm", "phi", "phi3", "glm", "glm4", "helium", "ernie4_5", "seed_oss", "internlm3", "iquestcoder", "cwm",
    "nemotron", "jais2", "arcee", "persimmon", "apertus", "hunyuan_v1_dense", "nanochat", "bitnet", "diffllama", "mellum",
)  # fmt: skip

CASES = {
    "starcoder2": OLD | {"mlp_type": "default", "norm_type": "layer_norm", "use_bias": True},
    "stablelm": OLD | {"partial_rotary_factor": 0.5, "rope_scaling": None, "use_qkv_bias": True},
    "phi": OLD | {"partial_rotary_factor": 0.5, "rope_scaling": None, "qk_layernorm": False},
    "phi3": OLD | {"rope_scaling": None, "original_max_position_embeddings": 64, "sliding_window": 16, "pad_token_id": 0},
    "glm": OLD | {"partial_rotary_factor": 0.5, "head_dim": 8, "pad_token_id": 0},
    "helium": OLD | {"head_dim": 8, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "seed_oss": OLD | {"head_dim": 8, "rope_scaling": {"rope_type": "default"}},
    "internlm3": OLD | {"qkv_bias": True, "bias": True, "rope_scaling": {"factor": 6.0, "rope_type": "dynamic"}},
    "cwm": OLD | {"rope_scaling": LLAMA3, "sliding_window": 16},
    "nemotron": OLD | {"partial_rotary_factor": 0.75, "rope_scaling": None, "hidden_dropout": 0.0},
    "apertus": OLD | {"rope_scaling": LLAMA3, "qk_norm": True, "post_norm": False, "mlp_bias": False},
    "hunyuan_v1_dense": OLD | {
        "head_dim": 8, "use_qk_norm": True, "use_cla": False,
        "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "type": "dynamic"},
    },
    "bitnet": OLD | {"rope_scaling": None},
}  # fmt: skip


@pytest.mark.parametrize("model_type", CASES)
def test_an_older_spelling_is_read_as_transformers_reads_it(model_type):
    assert differences(model_type, SIZES | CASES[model_type]) == []


@pytest.mark.parametrize("model_type", LEFT_OUT)
def test_keys_left_out_are_those_of_the_configuration_class(model_type):
    sizes = {"hidden_size": 256, "intermediate_size": 40, "num_hidden_layers": 8, "num_attention_heads": 32, "vocab_size": 53}
    assert differences(model_type, sizes | NEEDED.get(model_type, {})) == []
