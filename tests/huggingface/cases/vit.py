"""ViT, DeiT, ViT-MSN, I-JEPA, the three DINOs and the encoders of CLIP and SigLIP on images of 12 x 12 pixels."""

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
REGISTERS = BASE | {"num_register_tokens": 3, "layerscale_value": 0.5}
THIRD = VIT | {"num_attention_heads": 3, "num_register_tokens": 2, "layerscale_value": 0.5}
THIRD_OTHER = THIRD | {
    "use_gated_mlp": True, "key_bias": True, "query_bias": False, "value_bias": False, "proj_bias": False, "mlp_bias": False,
    "hidden_act": "silu", "rope_theta": 50.0, "num_channels": 1, "patch_size": 3, "attention_dropout": 0.1,
    "drop_path_rate": 0.1, "num_register_tokens": 1,
}  # fmt: skip
BESIDE = VIT | {"num_channels": 1, "patch_size": 3, "hidden_act": "relu", "attention_dropout": 0.1}
IMAGES = "ImageClassification"


def of(model_type: str, name: str, task: str, config: dict[str, Any]) -> Case:
    return Case(model_type, config, task, name)


CASES = [
    of("vit", "plain", IMAGES, VIT),
    of("vit", "other", IMAGES, OTHER),
    of("vit", "features", "Model", VIT),
    of("deit", "plain", IMAGES, OTHER | {"architectures": ["DeiTForImageClassification"]}),
    of("deit", "features", "Model", VIT),
    of("ijepa", "plain", IMAGES, OTHER),
    of("ijepa", "features", "Model", VIT),
    of("vit_msn", "plain", IMAGES, OTHER),
    of("vit_msn", "features", "Model", VIT),
    of("dinov2", "plain", "Model", DINO),
    of("dinov2", "gated", "Model", GATED),
    of("dinov2", "classes", IMAGES, DINO | {"num_labels": 5}),
    of("dinov2_with_registers", "plain", "Model", REGISTERS),
    of("dinov2_with_registers", "gated", IMAGES, REGISTERS | {"use_swiglu_ffn": True, "mlp_ratio": 2, "num_labels": 5}),
    of("dinov3_vit", "plain", "Model", THIRD),
    of("dinov3_vit", "other", "Model", THIRD_OTHER),
    of("clip_vision_model", "plain", "Model", VIT),
    of("clip_vision_model", "projected", "CLIPVisionModelWithProjection", BESIDE | {"projection_dim": 7}),
    of("siglip_vision_model", "plain", "Model", VIT),
    of("siglip_vision_model", "patches", "Model", BESIDE | {"vision_use_head": False}),
    of("siglip_vision_model", "other", "Model", BESIDE),
]
