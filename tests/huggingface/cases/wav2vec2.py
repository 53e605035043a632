"""wav2vec 2.0, HuBERT, UniSpeech and data2vec for sound: norms over rows and over channels, before and after sublayers."""

from __future__ import annotations

from huggingface.case import Case

SHARED = {
    "vocab_size": 19, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 36,
    "conv_dim": [6, 10, 8], "conv_kernel": [5, 3, 2], "conv_stride": [3, 2, 1], "num_conv_pos_embedding_groups": 4,
    "hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "layer_norm_eps": 1e-4,
    "initializer_range": 0.03,
}  # fmt: skip
FLAT = {"num_conv_pos_embeddings": 5}
STABLE = {
    "feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True, "num_conv_pos_embeddings": 4,
    "conv_dim": [6, 10, 24], "feat_extract_activation": "silu", "hidden_act": "relu",
}  # fmt: skip
CLASSES = {"classifier_proj_size": 11, "num_labels": 3}

ROWS = "the first norm is over rows, in transformers with their padding"
AROUND = "a later convolution for positions reads what an earlier one made of padding, in transformers"

CASES = [
    Case("wav2vec2", SHARED | FLAT, "CTC", "over_rows", unpadded=ROWS),
    Case("wav2vec2", SHARED | STABLE, "CTC", "stable"),
    Case("wav2vec2", SHARED | STABLE | CLASSES, "AudioClassification", "classes"),
    Case("wav2vec2", SHARED | FLAT, "Model", "features", unpadded=ROWS),
    Case("hubert", SHARED | FLAT | {"feat_proj_layer_norm": False}, "CTC", "bare", unpadded=ROWS),
    Case("hubert", SHARED | STABLE, "CTC", "stable"),
    Case("unispeech", SHARED | FLAT, "CTC", "over_rows", unpadded=ROWS),
    Case("unispeech", SHARED | STABLE | CLASSES, "AudioClassification", "classes"),
    Case("unispeech-sat", SHARED | STABLE, "CTC", "stable"),
    Case("data2vec-audio", SHARED | {"conv_pos_kernel_size": 3, "num_conv_pos_embeddings": 2}, "CTC", "plain", unpadded=AROUND),
    Case("data2vec-audio", SHARED | CLASSES, "AudioClassification", "classes", unpadded=AROUND),
]
