"""T5, mT5 and UMT5: tied and scaled, and apart; heads wider than their share, buckets that end before the text does."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "d_model": 24, "d_kv": 10, "d_ff": 28, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 3,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9, "dropout_rate": 0.15,
    "layer_norm_epsilon": 1e-2, "feed_forward_proj": "relu", "initializer_factor": 0.5, "decoder_start_token_id": 0,
}  # fmt: skip
APART = {
    "d_kv": 8, "num_heads": 4, "feed_forward_proj": "gated-gelu", "num_decoder_layers": None, "num_layers": 2,
    "relative_attention_num_buckets": 12, "relative_attention_max_distance": 20, "tie_word_embeddings": False,
}  # fmt: skip
SCALED = {"umt5": {"scale_decoder_outputs": True}}
"""UMT5's class scales the logits of untied files too, and ours only if they say so: test_t5."""

CASES = [
    case
    for model_type in ("t5", "mt5", "umt5")
    for case in (
        Case(model_type, BASE, "Seq2SeqLM", "tied"),
        Case(model_type, BASE | APART | SCALED.get(model_type, {}), "Seq2SeqLM", "apart", untied=True),
    )
] + [
    Case("t5", BASE, "TextEncoding", "encoder"),
    Case("umt5", BASE | APART, "TextEncoding", "encoder"),
    Case("t5", BASE | {"feed_forward_proj": "gated-silu", "scale_decoder_outputs": False}, "Seq2SeqLM", "unscaled"),
]
