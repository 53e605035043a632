"""Pairs of an encoder of images and a decoder of text, of one width and of two."""

from __future__ import annotations

from typing import Any

from huggingface.case import VOCAB, Case

ENCODER: dict[str, Any] = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 12,
    "patch_size": 4, "num_channels": 3, "layer_norm_eps": 1e-3, "qkv_bias": False,
}  # fmt: skip
TROCR: dict[str, Any] = {
    "model_type": "trocr", "vocab_size": VOCAB, "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4,
    "decoder_ffn_dim": 28, "max_position_embeddings": 18, "activation_function": "relu", "add_cross_attention": True,
    "is_decoder": True, "cross_attention_hidden_size": 24, "scale_embedding": True, "use_cache": False,
}  # fmt: skip
GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": VOCAB, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 18, "n_inner": 28,
    "layer_norm_epsilon": 1e-2, "add_cross_attention": True, "bos_token_id": 1, "is_decoder": True,
}  # fmt: skip
BERT: dict[str, Any] = {
    "model_type": "bert", "vocab_size": VOCAB, "hidden_size": 36, "intermediate_size": 28, "num_hidden_layers": 2,
    "num_attention_heads": 3, "max_position_embeddings": 19, "is_decoder": True, "add_cross_attention": True,
}  # fmt: skip


def pair(name: str, encoder: str, decoder: dict[str, Any], of_encoder: dict[str, Any] | None = None, **changes: Any) -> Case:
    """A pair of two types; `changes`: of the decoder."""
    own = {key: value for key, value in ENCODER.items() if "dino" not in encoder or key != "intermediate_size"}
    config = {"encoder": {"model_type": encoder, **own, **(of_encoder or {})}, "decoder": decoder | changes}
    return Case("vision-encoder-decoder", config, "ImageTextToText", name)


CASES = [
    pair("trocr", "vit", TROCR),
    pair("trocr-small", "deit", TROCR, layernorm_embedding=False, scale_embedding=False),
    pair("trocr-of-one-width", "vit", TROCR, d_model=24, cross_attention_hidden_size=24, tie_word_embeddings=False),
    pair("trocr-projected", "dinov2", TROCR, {"layerscale_value": 0.5},
         cross_attention_hidden_size=None),
    pair("captions", "vit", GPT2),
    pair("registers2gpt2", "dinov2_with_registers", GPT2, {"num_register_tokens": 2}, n_embd=36),
    pair("vit2bert", "vit_msn", BERT),
]  # fmt: skip
