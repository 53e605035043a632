"""NLLB-MoE, held against a class whose experts are those that its router chose (`huggingface.parity`)."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 4, "encoder_attention_heads": 3, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 20, "decoder_ffn_dim": 28, "max_position_embeddings": 32, "num_experts": 5, "encoder_sparse_step": 2,
    "decoder_sparse_step": 2, "pad_token_id": 1,
}  # fmt: skip
OTHER = {
    "encoder_sparse_step": 1, "decoder_sparse_step": 0, "router_bias": True, "moe_token_dropout": 0.5, "init_std": 0.1,
    "scale_embedding": False, "activation_function": "gelu", "dropout": 0.2, "attention_dropout": 0.3,
    "activation_dropout": 0.15,
}  # fmt: skip
CASES = cases(
    "nllb-moe",
    BASE,
    OTHER,
    {"encoder_sparse_step": 0, "tie_word_embeddings": False, "pad_token_id": 3, "num_experts": 3},
    task="Seq2SeqLM",
    kernel="eager",
    why="transformers' class sends every token to experts 0 and 1, and is held to what its router chooses",
)
