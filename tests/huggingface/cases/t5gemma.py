"""T5Gemma: windows shorter than text and source, two vocabularies, caps on and off, a rope of its own on each side."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

ENCODER = {
    "vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 10, "rms_norm_eps": 1e-3, "query_pre_attn_scalar": 7, "sliding_window": 3,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}, "attn_logit_softcapping": 4.0,
}  # fmt: skip
DECODER = ENCODER | {
    "vocab_size": 57, "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "head_dim": 8, "attention_bias": True, "query_pre_attn_scalar": 9, "sliding_window": 5, "final_logit_softcapping": 3.0,
    "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}, "attn_logit_softcapping": None,
    "hidden_activation": "silu", "layer_types": ["full_attention", "sliding_attention"],
}  # fmt: skip

CASES = [
    Case(
        "t5gemma",
        {"encoder": ENCODER, "decoder": DECODER, "dropout_rate": 0.15, "attention_dropout": 0.05, "vocab_size": 53},
        "Seq2SeqLM",
        "tied",
    ),
    Case(
        "t5gemma",
        {
            "encoder": ENCODER | {"layer_types": ["full_attention"] * 3, "attention_bias": True},
            "decoder": DECODER | {"final_logit_softcapping": None, "attn_logit_softcapping": 5.0, "layer_types": None},
            "tie_word_embeddings": False,
            "vocab_size": 53,
        },
        "Seq2SeqLM",
        "apart",
    ),
]
