"""BART, mBART, PLBart, MVP, Blenderbot: with one table for both sides and the head, and with three."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "d_model": 24, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 28, "max_position_embeddings": 17,
    "dropout": 0.15, "attention_dropout": 0.05, "activation_dropout": 0.25, "activation_function": "relu",
    "scale_embedding": True, "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}  # fmt: skip
APART = {
    "tie_word_embeddings": False, "scale_embedding": False, "activation_function": "gelu_pytorch_tanh", "decoder_layers": 1,
    "decoder_ffn_dim": 36, "encoder_attention_heads": 2,
}  # fmt: skip


def both(model_type: str, **more: object) -> list[Case]:
    """Tied and apart."""
    configs = {"tied": BASE | more, "apart": BASE | APART | more}
    return [Case(model_type, config, "Seq2SeqLM", name) for name, config in configs.items()]


LINE = ("bart", "mbart", "plbart", "mvp", "blenderbot", "blenderbot-small")
CASES = [case for model_type in LINE for case in both(model_type)]
