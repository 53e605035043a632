"""Pairs of an encoder and a decoder of other types, of other depths, heads and vocabularies."""

from __future__ import annotations

from typing import Any

from huggingface.case import VOCAB, Case

ENCODER: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 17, "layer_norm_eps": 1e-3, "hidden_act": "relu", "attention_probs_dropout_prob": 0.2,
}  # fmt: skip
DECODER = ENCODER | {
    "vocab_size": 57, "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 19,
    "layer_norm_eps": 1e-2, "hidden_act": "gelu", "hidden_dropout_prob": 0.3, "is_decoder": True, "add_cross_attention": True,
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "vocab_size": 57, "n_embd": 24, "n_layer": 3, "n_head": 3, "n_positions": 18, "n_inner": 28,
    "layer_norm_epsilon": 1e-2, "activation_function": "relu", "add_cross_attention": True, "bos_token_id": 1,
}  # fmt: skip


def pair(name: str, encoder: str, decoder: str | dict[str, Any], **changes: Any) -> Case:
    """A pair of two types; `changes`: of the decoder."""
    second = {"model_type": decoder, **DECODER} if isinstance(decoder, str) else decoder
    config = {"encoder": {"model_type": encoder, **ENCODER}, "decoder": second | changes}
    return Case("encoder-decoder", config, "Seq2SeqLM", name)


CASES = [
    pair("bert2bert", "bert", "bert", type_vocab_size=3),
    pair("bert2bert-untied", "bert", "bert", tie_word_embeddings=False),
    pair("generation", "bert-generation", "bert-generation"),
    pair("roberta2roberta", "roberta", "roberta", pad_token_id=3),
    pair("roberta2roberta-untied", "roberta", "roberta", tie_word_embeddings=False, is_encoder_decoder=False),
    pair("xlm-roberta", "xlm-roberta", "xlm-roberta"),
    pair("camembert", "camembert", "camembert"),
    pair("ernie2generation", "ernie", "bert-generation", tie_word_embeddings=False),
    pair("data2vec2bert", "data2vec-text", "bert"),
    pair("bert2gpt2", "bert", GPT2),
    pair("roberta2gpt2", "roberta", GPT2, scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False, n_inner=None),
    pair("generation2gpt2", "bert-generation", GPT2, scale_attn_weights=False, is_decoder=True),
]
