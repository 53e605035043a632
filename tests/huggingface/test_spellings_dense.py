"""Dense decoders further from Llama: keys left out and older spellings, against what transformers makes of them; refusals."""

from __future__ import annotations

import pytest

from anyformer import huggingface
from huggingface.test_spellings import LLAMA3, OLD, SIZES, differences, read

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
    "starcoder2": OLD | {"mlp_type": "default", "norm_type": "layer_norm", "use_bias": True, "activation_function": "gelu"},
    "stablelm": OLD | {"partial_rotary_factor": 0.5, "rope_scaling": None, "use_qkv_bias": True},
    "phi": OLD | {"partial_rotary_factor": 0.5, "rope_scaling": None, "qk_layernorm": False},
    "phi3": OLD | {"rope_scaling": None, "original_max_position_embeddings": 64, "sliding_window": 16, "pad_token_id": 0},
    "phi3-mini": OLD | {
        "model_type": "phi3", "attention_bias": False, "mlp_bias": False, "lm_head_bias": False, "full_attn_mod": 1,
        "interpolate_factor": 1, "original_max_position_embeddings": 16, "partial_rotary_factor": 0.75, "pad_token_id": 0,
        "rope_scaling": {"type": "longrope", "long_factor": [1, 2, 4], "short_factor": [1, 1, 2]}, "sliding_window": None,
    },
    "glm": OLD | {"partial_rotary_factor": 0.5, "head_dim": 8, "pad_token_id": 0},
    "helium": OLD | {"head_dim": 8, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "seed_oss": OLD | {"head_dim": 8, "rope_scaling": {"rope_type": "default"}},
    "internlm3": OLD | {"qkv_bias": True, "bias": True, "rope_scaling": {"factor": 6.0, "rope_type": "dynamic"}},
    "cwm": OLD | {"rope_scaling": LLAMA3, "sliding_window": 16},
    "nemotron": OLD | {"partial_rotary_factor": 0.75, "rope_scaling": None, "hidden_dropout": 0.0, "kv_channels": 8},
    "apertus": OLD | {"rope_scaling": LLAMA3, "qk_norm": True, "post_norm": False, "mlp_bias": False, "hidden_dropout": 0.0},
    "hunyuan_v1_dense": OLD | {
        "head_dim": 8, "use_qk_norm": True, "use_cla": False,
        "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "type": "dynamic"},
    },
    "bitnet": OLD | {"rope_scaling": None},
}  # fmt: skip


@pytest.mark.parametrize("model_type", CASES)
def test_an_older_spelling_is_read_as_transformers_reads_it(model_type):
    keys = SIZES | CASES[model_type]
    assert differences(keys.pop("model_type", model_type), keys) == []


@pytest.mark.parametrize("model_type", LEFT_OUT)
def test_keys_left_out_are_those_of_the_configuration_class(model_type):
    sizes = {"hidden_size": 256, "intermediate_size": 40, "num_hidden_layers": 8, "num_attention_heads": 32, "vocab_size": 53}
    assert differences(model_type, sizes | NEEDED.get(model_type, {})) == []


REFUSED = {
    "glm": {"head_dim": None},
    "glm4": {"num_key_value_heads": None},
    "helium": {"num_key_value_heads": None},
    "nemotron": {"num_key_value_heads": None},
    "hunyuan_v1_dense": {"head_dim": None},
    "cwm": {"head_dim": None},
    "stablelm": {"num_key_value_heads": None},
    "starcoder2": {"mlp_type": "gated"},
    "phi3": {"lm_head_bias": True},
    "internlm3": {"qkv_bias": True, "bias": False},
    "iquestcoder": {"clip_qkv": 8.0},
    "apertus": {"post_norm": True},
    "ernie4_5": {"attention_dropout": 0.1},
    "diffllama": {"attention_dropout": 0.1},
    "mellum": {"rope_parameters": {"chunked_attention": {"rope_type": "default", "rope_theta": 10.0}}},
}


@pytest.mark.parametrize("model_type", REFUSED)
def test_what_the_class_cannot_compute_is_refused_by_key(model_type):
    changed = REFUSED[model_type]
    keys = SIZES | {"num_key_value_heads": 2} | NEEDED.get(model_type, {})
    read(model_type, keys)
    with pytest.raises(huggingface.HuggingFaceError, match="|".join(changed).replace("qkv_bias", "biases")):
        read(model_type, keys | changed)
