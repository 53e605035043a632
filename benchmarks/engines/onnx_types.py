"""What ONNX Runtime is asked about: model types of transformers, and architectures that none of them expresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.engines.models import SHARP, VOCABULARY, made, sized, table_of

import anyformer as af
from anyformer.resizing.tiny import tiny

PLAIN = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = sized(PLAIN, num_key_value_heads=2, head_dim=8)
TWO = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "decoder_start_token_id": 2,
}  # fmt: skip
LATENT = {
    "q_lora_rank": 12, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1, "n_group": 2,
    "topk_group": 1, "num_key_value_heads": 4,
}  # fmt: skip
TYPES: Mapping[str, Mapping[str, Any]] = {
    "bert": PLAIN,
    "roberta": sized(PLAIN, type_vocab_size=1, pad_token_id=0),
    "distilbert": {"vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
    "modernbert": sized(PLAIN, local_attention=8, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2),
    "vit": {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 24,
        "patch_size": 8,
    },
    "t5": {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    "bart": sized(TWO, max_position_embeddings=64),
    "whisper": sized(TWO, num_mel_bins=12, max_source_positions=40, max_target_positions=40),
    "gpt2": {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neox": PLAIN,
    "bloom": {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "llama": GROUPED,
    "qwen3": GROUPED,
    "gemma2": sized(GROUPED, sliding_window=6, query_pre_attn_scalar=8),
    "gemma3_text": sized(GROUPED, sliding_window=6, sliding_window_pattern=2, query_pre_attn_scalar=8),
    "mixtral": sized(GROUPED, num_local_experts=4, num_experts_per_tok=2),
    "gpt_oss": sized(GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=6),
    "deepseek_v3": sized(PLAIN, **LATENT),
    "mamba": {"vocab_size": VOCABULARY, "hidden_size": 32, "state_size": 4, "num_hidden_layers": 2},
}  # fmt: skip
OWN = ("transformer-base", "palm-8b", "lamda-137b")
"""Entries of the catalogue, made tiny, in this package's own layout."""


SOFTER = {"t5": 2.0}
"""Factor of the matrices where scores have no scale: with more, fp32 itself would be 1e-2 away from fp64."""


def model_of(name: str) -> af.Transformer:
    """The random model of a row."""
    what = tiny(af.architecture(name)) if name in OWN else table_of(name, **TYPES[name])
    return made(what, sharp=SOFTER.get(name, SHARP))
