"""OLMo hybrid: norms before and after in one stack, rotary positions and none.

Keys and values are as wide as each other throughout, for transformers saves their one convolution in three equal parts.
"""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 3,
    "linear_conv_kernel_dim": 3, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip

CASES = cases(
    "olmo_hybrid",
    BASE,
    {"layer_types": ["full_attention", "linear_attention", "full_attention"], "linear_allow_neg_eigval": False,
     "attention_bias": True, "hidden_act": "gelu", "num_key_value_heads": None, "tie_word_embeddings": True,
     "rope_parameters": {"rope_type": "default", "rope_theta": None}},
)  # fmt: skip
