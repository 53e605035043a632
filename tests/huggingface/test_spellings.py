"""Configurations as the Hub has them, in older spellings and with keys left out, against what transformers makes of them."""

from __future__ import annotations

import pytest
import transformers

from anyformer import huggingface
from anyformer.describe import diff
from anyformer.operations import Shape

SIZES = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 53}
OLD = {"max_position_embeddings": 64, "rope_theta": 300.0, "torch_dtype": "bfloat16", "num_key_value_heads": 2}
LLAMA3 = {
    "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 16,
    "rope_type": "llama3",
}  # fmt: skip
YARN = {"attention_factor": 1.2, "beta_fast": 32, "beta_slow": 1, "factor": 8.0, "original_max_position_embeddings": 16}

CASES = {
    "mistral": OLD | {"sliding_window": None, "head_dim": 6},
    "ministral3": {"head_dim": 8, "num_key_value_heads": 2},
    "qwen2": OLD | {"use_sliding_window": False, "sliding_window": 16, "max_window_layers": 3, "rope_scaling": None},
    "qwen3": OLD | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}, "head_dim": 8},
    "smollm3": OLD | {"no_rope_layers": [1, 1, 1, 0] * 2, "layer_types": ["full_attention"] * 8, "rope_scaling": None,
                      "pad_token_id": 0, "max_window_layers": 28, "sliding_window": None, "use_sliding_window": False},
    "olmo": OLD | {"clip_qkv": None, "rope_scaling": {"type": "linear", "factor": 2.0}, "pad_token_id": 1},
    "olmo2": OLD | {"rms_norm_eps": 1e-6, "rope_scaling": None, "pad_token_id": 1},
    "olmo3": OLD | {"rope_theta": 500000.0, "rope_scaling": {**YARN, "rope_type": "yarn"}, "sliding_window": 16},
    "gemma": OLD | {"hidden_act": "gelu", "hidden_activation": None, "head_dim": 8, "rope_scaling": None},
    "gemma2": OLD | {"hidden_act": "gelu_pytorch_tanh", "cache_implementation": "hybrid", "sliding_window_size": 16,
                     "head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 9},
    "gemma3_text": OLD | {"rope_local_base_freq": 50.0, "sliding_window_pattern": 3, "attn_logit_softcapping": None,
                          "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "cache_implementation": "hybrid"},
    "gemma4_text": {"hidden_size_per_layer_input": 0, "head_dim": 6, "global_head_dim": 8, "attention_k_eq_v": True,
                    "num_global_key_value_heads": 1, "sliding_window": 16, "num_key_value_heads": 2,
                    "use_bidirectional_attention": "vision"},
    "cohere": OLD | {"logit_scale": 0.8, "use_qk_norm": True, "model_max_length": 64},
    "cohere2": OLD | {"sliding_window_pattern": 4, "layer_switch": 4, "order_of_interleaved_layers": "local_attn_first",
                      "position_embedding_type": "rope_gptj", "rotary_pct": 1.0, "use_embedding_sharing": True,
                      "use_gated_activation": True, "use_parallel_block": True, "use_parallel_embedding": True,
                      "cache_implementation": "hybrid", "head_dim": 8, "rope_scaling": None},
    "granite": OLD | {"attention_multiplier": 0.0078125, "embedding_multiplier": 12, "logits_scaling": 16, "rope_scaling": None,
                      "residual_multiplier": 0.22},
    "hyperclovax": OLD | {"attention_multiplier": 0.0078125, "logits_scaling": 0.125, "rope_scaling": None, "head_dim": 8},
    "exaone4": OLD | {"sliding_window": 16, "sliding_window_pattern": "LLLG", "rope_scaling": LLAMA3, "head_dim": 8,
                      "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 2},
}  # fmt: skip
"""Keys as in published files; the values are small."""
WRITTEN_OUT = ("kv_heads", "head_width", "scale")


def read(model_type: str, keys: dict):
    return huggingface.read_architecture(huggingface.Config({"model_type": model_type, **keys}))[0]


def differences(model_type: str, keys: dict) -> list:
    """Between what stands here and what transformers makes of it; it writes heads and their width out where we leave them."""
    ours, theirs = (
        read(model_type, table) for table in (keys, transformers.AutoConfig.for_model(model_type, **keys).to_dict())
    )
    out = [each for each in diff(ours, theirs) if each[1] is not None or each[0].split(".")[-1] not in WRITTEN_OUT]
    return out or [name for name, weight in ours.cost(Shape()).weights.items() if weight != theirs.cost(Shape()).weights[name]]


@pytest.mark.parametrize("model_type", CASES)
def test_an_older_spelling_is_read_as_transformers_reads_it(model_type):
    keys = SIZES | CASES[model_type]
    assert differences(model_type, keys) == []


@pytest.mark.parametrize("model_type", [*CASES, "llama", "granite_swa", "vaultgemma", "ministral"])
def test_keys_left_out_are_those_of_the_configuration_class(model_type):
    keys = {"hidden_size": 256, "intermediate_size": 40, "num_hidden_layers": 8, "num_attention_heads": 32, "vocab_size": 53}
    assert differences(model_type, keys) == []
