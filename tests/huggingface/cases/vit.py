"""ViT, DeiT and DINOv2 on images of 12 x 12 pixels."""

from __future__ import annotations

from typing import Any

from huggingface.case import Case

BASE = {
    "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 12, "patch_size": 4, "num_channels": 3,
    "layer_norm_eps": 1e-3,
}  # fmt: skip
VIT = BASE | {"intermediate_size": 40}
OTHER = VIT | {
    "num_labels": 5, "qkv_bias": False, "num_channels": 1, "hidden_act": "relu", "patch_size": 3, "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.2,
}  # fmt: skip
DINO = BASE | {"use_mask_token": True, "layerscale_value": 0.5}
GATED = DINO | {"use_swiglu_ffn": True, "mlp_ratio": 2, "qkv_bias": False, "drop_path_rate": 0.1}


def of(model_type: str, name: str, task: str, config: dict[str, Any]) -> Case:
    return Case(model_type, config, task, name)


CASES = [
    of("vit", "plain", "ImageClassification", VIT),
    of("vit", "other", "ImageClassification", OTHER),
    of("vit", "features", "Model", VIT),
    of("deit", "plain", "ImageClassification", OTHER | {"architectures": ["DeiTForImageClassification"]}),
    of("deit", "features", "Model", VIT),
    of("dinov2", "plain", "Model", DINO),
    of("dinov2", "gated", "Model", GATED),
]
