"""Moonshine, whose waves become a position every 384 samples."""

from __future__ import annotations

from huggingface.case import Case

SHARED = {
    "vocab_size": 53, "hidden_size": 24, "intermediate_size": 20, "encoder_num_hidden_layers": 2,
    "decoder_num_hidden_layers": 1, "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.7}, "initializer_range": 0.03,
    "pad_token_id": 2,
}  # fmt: skip
APART = {
    "encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2,
    "encoder_hidden_act": "relu", "decoder_hidden_act": "gelu", "attention_bias": True, "tie_word_embeddings": False,
}  # fmt: skip
WHY = "its class counts padding among the samples of the first norm"

CASES = [
    Case("moonshine", SHARED, "SpeechSeq2Seq", "tied", unpadded=WHY),
    Case("moonshine", SHARED | APART, "SpeechSeq2Seq", "apart", unpadded=WHY),
]
