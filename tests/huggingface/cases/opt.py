"""OPT, the narrow post-norm shape of 350M included."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 20, "max_position_embeddings": 16,
    "attention_dropout": 0.1, "dropout": 0.2,
}  # fmt: skip

CASES = cases(
    "opt",
    BASE,
    {"do_layer_norm_before": False, "word_embed_proj_dim": 16},
    {
        "enable_bias": False, "layer_norm_elementwise_affine": False, "_remove_final_layer_norm": True,
        "word_embed_proj_dim": 10, "activation_function": "gelu", "tie_word_embeddings": False,
    },
)  # fmt: skip
