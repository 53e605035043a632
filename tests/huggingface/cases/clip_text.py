"""Text towers beside images."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 16,
    "layer_norm_eps": 1e-3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 3,
}  # fmt: skip
SLOTS = "transformers counts positions from the first slot, padding included"

CASES = [
    *cases("clip_text_model", BASE, {"hidden_act": "gelu", "attention_dropout": 0.1}, task="TextEncoding", unpadded=SLOTS),
    *cases("tipsv2_text_model", BASE, {"hidden_act": "gelu", "scale_sqrt_depth": False}, task="TextEncoding"),
]
