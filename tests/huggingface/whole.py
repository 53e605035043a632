"""Tiny composites with images: made by transformers, and read whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn.functional import pad
from transformers.image_processing_utils import select_best_resolution
from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import PaddleOCRVLImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from anyformer import huggingface
from anyformer.model.transformer import Transformer
from anyformer.parts import GridTower, TiledTower, Tiles
from anyformer.parts.images.encoder_module import Images
from huggingface.parity import SCRATCH, randomise

TOKEN, VOCAB = 59, 60
_TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
_CLIP = {**_TOWER, "model_type": "clip_vision_model", "num_hidden_layers": 3, "image_size": 28, "patch_size": 14}
_SIGLIP = {**_TOWER, "model_type": "siglip_vision_model", "num_hidden_layers": 2, "image_size": 28, "patch_size": 7}
_TEXT = {"hidden_size": 40, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB}
_LLAMA = {**_TEXT, "model_type": "llama", "num_hidden_layers": 2}
_GEMMA = {
    **_TEXT, "model_type": "gemma3_text", "num_hidden_layers": 3, "head_dim": 8, "sliding_window": 5,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "query_pre_attn_scalar": 12,
}  # fmt: skip


def _llava(vision: dict[str, Any] = _CLIP, **more: Any) -> dict[str, Any]:
    return {"vision_config": vision, "text_config": _LLAMA, "image_token_index": TOKEN, **more}


def _gemma(tokens: int, **vision: Any) -> dict[str, Any]:
    sizes = {"image_token_index": TOKEN, "mm_tokens_per_image": tokens}
    return {"vision_config": {**_SIGLIP, **vision}, "text_config": _GEMMA, **sizes}


def _qwen(model_type: str, text: dict[str, Any] | None = None, **vision: Any) -> tuple[str, dict[str, Any]]:
    rope = {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "mrope_section": [1, 2, 2]}}
    config = {
        "vision_config": {"depth": 2, "num_heads": 2, "patch_size": 4, "hidden_size": 40, **vision},
        "text_config": {**_LLAMA, **rope, **(text or {}), "model_type": f"{model_type}_text"},
    }
    if "num_experts" in config["text_config"]:
        del config["text_config"]["intermediate_size"]
    return model_type, {
        **config, "image_token_id": TOKEN, "video_token_id": 2, "vision_start_token_id": 3, "vision_end_token_id": 4,
    }  # fmt: skip


_WINDOWS = {
    "hidden_size": 32, "out_hidden_size": 40, "intermediate_size": 48, "window_size": 16, "fullatt_block_indexes": [1],
    "depth": 3,
}  # fmt: skip


def _qwen3(model_type: str, text: dict[str, Any], **vision: Any) -> tuple[str, dict[str, Any]]:
    rope = {"rope_type": "default", "rope_theta": 300.0, "mrope_section": [2, 2, 2], "mrope_interleaved": True}
    sizes = {"hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 40, "num_position_embeddings": 25, "depth": 3}
    table = {"rope_parameters": {**rope, **text.get("rope_parameters", {})}}
    return _qwen(model_type, {**text, **table}, **{**sizes, **vision})


_PIXTRAL = {**_TOWER, "model_type": "pixtral", "num_hidden_layers": 2, "image_size": 64, "patch_size": 4, "head_dim": 8}
_GEMMA_1 = {**_TEXT, "model_type": "gemma", "num_hidden_layers": 2, "head_dim": 8}
_COHERE = {
    **_TEXT,
    "model_type": "cohere2",
    "num_hidden_layers": 2,
    "sliding_window": 7,
    "layer_types": ["sliding_attention", "full_attention"],
}


def _condensed(text: str, **more: Any) -> dict[str, Any]:
    own = {**_LLAMA, "model_type": text, "rms_norm_eps": 1e-3, "head_dim": 10, "sliding_window": None}
    return {
        "vision_config": _PIXTRAL,
        "text_config": own,
        **({"image_token_index": TOKEN} if text == "mistral" else {}),
        **more,
    }


def _idefics(vision: str, **more: Any) -> dict[str, Any]:
    return {"vision_config": {**_SIGLIP, "model_type": vision}, "text_config": _LLAMA, "image_token_id": TOKEN, **more}


def _glm(model_type: str, **more: Any) -> tuple[str, dict[str, Any]]:
    vision_keys = ("hidden_act", "rms_norm_eps", "spatial_merge_size")
    text = {key: value for key, value in more.items() if key not in vision_keys}
    _, config = _qwen(
        model_type,
        {"partial_rotary_factor": 0.5, **text},
        hidden_size=32,
        out_hidden_size=40,
        intermediate_size=44,
        image_size=20,
        num_heads=4,
        **{key: value for key, value in more.items() if key in vision_keys},
    )
    table = {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}
    if "head_dim" not in text:
        config["text_config"] |= {"num_attention_heads": 2, "num_key_value_heads": 1}
        table |= {"mrope_section": [2, 1, 2]}
    config["text_config"] |= {"rope_parameters": table}
    if model_type == "glm46v":
        config["text_config"]["model_type"] = "glm4v_text"
    return model_type, config


def _intern(vision: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    tower = {**_TOWER, "num_hidden_layers": 2, "image_size": 16, "patch_size": 4, **(vision or {})}
    return {"vision_config": tower, "text_config": {**_LLAMA, "model_type": "qwen2"}, "image_token_id": TOKEN, **more}


_TILED = {**_CLIP, "image_size": 14, "patch_size": 7}
_GRIDS_OF_TILES = [[28, 28], [14, 28]]
_JANUS = {key: value for key, value in _SIGLIP.items() if key not in ("model_type", "intermediate_size")}
_CODES = {
    "embed_dim": 8, "num_embeddings": 8, "base_channels": 32, "channel_multiplier": [1], "num_res_blocks": 1, "num_patches": 4,
    "latent_channels": 32, "projection_dim": 16, "image_token_embed_dim": 40, "num_hidden_layers": 1,
}  # fmt: skip
"""The tower of Janus for images that it writes, which is left aside."""


def _janus(**vision: Any) -> dict[str, Any]:
    tower = {**_JANUS, "projection_dim": 40, "mlp_ratio": 1.5, **vision}
    return {"vision_config": tower, "text_config": _LLAMA, "vq_config": _CODES, "image_token_id": TOKEN}


def _lfm(**vision: Any) -> dict[str, Any]:
    tower = {**_TOWER, "num_hidden_layers": 2, "num_patches": 49, "patch_size": 4, **vision}
    text = {
        **_TEXT, "model_type": "lfm2", "num_hidden_layers": 2, "layer_types": ["conv", "full_attention"],
        "block_auto_adjust_ff_dim": False,
    }  # fmt: skip
    return {"vision_config": tower, "text_config": text, "image_token_id": TOKEN, "projector_hidden_size": 44}


_EXAONE = {
    **_LLAMA, "model_type": "exaone4", "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6,
}  # fmt: skip
_DELTA = {
    "head_dim": 16, "partial_rotary_factor": 0.25, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"],
    "rope_parameters": {"partial_rotary_factor": 0.75},
}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llava": ("llava", _llava()),
    "llava_full": ("llava", _llava(vision_feature_select_strategy="full", vision_feature_layer=-1)),
    "llava_first_layer": ("llava", _llava({**_CLIP, "hidden_act": "gelu", "layer_norm_eps": 1e-3}, vision_feature_layer=1)),
    "llava_plain_projector": ("llava", _llava(projector_hidden_act="relu", multimodal_projector_bias=False)),
    "llava_siglip": ("llava", _llava(_SIGLIP, vision_feature_select_strategy="full")),
    "gemma3": ("gemma3", _gemma(4)),
    "gemma3_every_patch": ("gemma3", _gemma(16, vision_use_head=False)),
    "qwen2_vl": _qwen("qwen2_vl", embed_dim=32, mlp_ratio=2),
    "qwen2_vl_other_keys": _qwen(
        "qwen2_vl",
        {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
        embed_dim=48,
        hidden_act="gelu",
        spatial_merge_size=1,
        temporal_patch_size=1,
        in_channels=1,
        rope_parameters={"rope_type": "axial", "rope_theta": 50.0},
    ),
    "qwen2_5_vl": _qwen("qwen2_5_vl", **_WINDOWS),
    "qwen3_vl": _qwen3("qwen3_vl", {"head_dim": 12}, deepstack_visual_indexes=[0, 2]),
    "qwen3_vl_shallow": _qwen3(
        "qwen3_vl", {"head_dim": 12}, deepstack_visual_indexes=[], hidden_act="gelu", spatial_merge_size=1, in_channels=1
    ),
    "qwen3_vl_moe": _qwen3(
        "qwen3_vl_moe",
        {"head_dim": 12, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
        deepstack_visual_indexes=[1],
    ),
    "qwen3_5": _qwen3("qwen3_5", _DELTA),
    "qwen3_5_moe": _qwen3(
        "qwen3_5_moe",
        {
            **_DELTA,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 16,
        },
    ),
    "mistral3": ("mistral3", _condensed("mistral", multimodal_projector_bias=True, projector_hidden_act="silu")),
    "mistral3_inner_layer": ("mistral3", _condensed("mistral", vision_feature_layer=-2, spatial_merge_size=1)),
    "lighton_ocr": ("lighton_ocr", {**_condensed("qwen3"), "image_token_id": TOKEN}),
    "llava_pixtral": (
        "llava",
        _llava(_PIXTRAL, vision_feature_layer=-1, vision_feature_select_strategy="full", tie_word_embeddings=False),
    ),
    "paligemma": (
        "paligemma",
        {
            "vision_config": {**_SIGLIP, "projection_dim": 40},
            "text_config": _GEMMA_1,
            "image_token_index": TOKEN,
            "projection_dim": 40,
            "hidden_size": 40,
        },
    ),
    "idefics3": ("idefics3", _idefics("idefics3_vision", scale_factor=2)),
    "smolvlm": ("smolvlm", _idefics("smolvlm_vision", scale_factor=4)),
    "aya_vision": (
        "aya_vision",
        {
            "vision_config": _SIGLIP,
            "text_config": _COHERE,
            "image_token_index": TOKEN,
            "alignment_intermediate_size": 44,
        },
    ),
    "aya_vision_inner_layer": (
        "aya_vision",
        {
            "vision_config": _SIGLIP,
            "text_config": _COHERE,
            "image_token_index": TOKEN,
            "vision_feature_layer": 1,
            "downsample_factor": 4,
            "adapter_layer_norm_eps": 1e-3,
        },
    ),
    "cohere2_vision": (
        "cohere2_vision",
        {
            "vision_config": _SIGLIP,
            "text_config": _COHERE,
            "image_token_id": TOKEN,
            "alignment_intermediate_size": 44,
        },
    ),
    "glm4v": _glm("glm4v"),
    "glm46v": _glm("glm46v", hidden_act="gelu", rms_norm_eps=1e-3, spatial_merge_size=1),
    "glm4v_moe": _glm(
        "glm4v_moe",
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=12,
        n_shared_experts=1,
        first_k_dense_replace=1,
        n_group=2,
        topk_group=1,
        head_dim=16,
    ),
    "glm_ocr": _glm("glm_ocr", head_dim=16),
    "llava_layers": ("llava", _llava(vision_feature_layer=[-1, 1, -2], vision_feature_select_strategy="full")),
    "vipllava": ("vipllava", _llava(vision_feature_layer=[2, 1])),
    "deepseek_vl": ("deepseek_vl", {"vision_config": _SIGLIP, "text_config": _LLAMA, "image_token_id": TOKEN}),
    "internvl": ("internvl", _intern()),
    "internvl_other_keys": (
        "internvl",
        _intern(
            {
                "use_qk_norm": True,
                "attention_bias": True,
                "norm_type": "rms_norm",
                "use_mean_pooling": False,
                "hidden_act": "relu",
                "image_size": [16, 16],
                "patch_size": [4, 4],
            },
            downsample_ratio=0.25,
            projector_hidden_act="silu",
        ),
    ),
    "internvl_inner_layer": ("internvl", _intern(vision_feature_layer=-2)),
    "exaone4_5": (
        "exaone4_5",
        {
            "vision_config": {**_WINDOWS, "num_heads": 4, "num_key_value_heads": 2, "patch_size": 4},
            "text_config": _EXAONE,
            "image_token_id": TOKEN,
            "video_token_id": 2,
        },
    ),
    "janus": ("janus", _janus()),
    "janus_other_keys": ("janus", _janus(attention_bias=False, hidden_act="relu", layer_norm_eps=1e-3)),
    "qianfan_ocr": (
        "qianfan_ocr",
        {**_intern({"use_qk_norm": True}), "text_config": {**_LLAMA, "model_type": "qwen3", "head_dim": 10}},
    ),
    "qianfan_ocr_without_biases": (
        "qianfan_ocr",
        {
            **_intern({"attention_bias": False, "use_mean_pooling": False}),
            "text_config": {**_LLAMA, "model_type": "qwen3", "head_dim": 10},
        },
    ),
    "hyperclovax_vision_v2": (
        "hyperclovax_vision_v2",
        {
            "vision_config": {**_WINDOWS, "out_hidden_size": 36, "num_heads": 2, "patch_size": 4},
            "text_config": {**_LLAMA, "model_type": "hyperclovax", "logits_scaling": 0.5, "pad_token_id": 0},
            "image_token_id": TOKEN,
            "video_token_id": 2,
        },
    ),
    "lfm2_vl": ("lfm2_vl", _lfm()),
    "lfm2_vl_other_keys": (
        "lfm2_vl",
        _lfm(num_patches=4, hidden_act="gelu", layer_norm_eps=1e-3)
        | {
            "projector_use_layernorm": False,
            "projector_bias": False,
            "downsample_factor": 1,
            "projector_hidden_act": "relu",
        },
    ),
    "paddleocr_vl": (
        "paddleocr_vl",
        {
            "vision_config": {
                **_TOWER,
                "num_hidden_layers": 2,
                "image_size": 12,
                "patch_size": 4,
                "rope_parameters": {
                    "rope_type": "axial",
                    "rope_theta": 50.0,
                },
            },
            "text_config": {
                **_TEXT,
                "num_hidden_layers": 2,
                "head_dim": 10,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 300.0,
                    "mrope_section": [1, 2, 2],
                },
            },
            "image_token_id": TOKEN,
            "video_token_id": 2,
            "vision_start_token_id": 3,
            "vision_end_token_id": 4,
        },
    ),
    "llama4": (
        "llama4",
        {
            "vision_config": {
                **_TOWER,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "image_size": 16,
                "patch_size": 4,
                "projector_input_dim": 36,
                "projector_output_dim": 36,
                "vision_output_dim": 36,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 300.0,
                },
            },
            "text_config": {
                **_LLAMA,
                "model_type": "llama4_text",
                "intermediate_size_mlp": 44,
                "num_local_experts": 4,
                "head_dim": 10,
                "num_hidden_layers": 2,
                "attention_chunk_size": 64,
                "moe_layers": [1],
                "pad_token_id": 0,
            },
            "image_token_index": TOKEN,
        },
    ),
    "llava_next": ("llava_next", _llava(_TILED, image_grid_pinpoints=_GRIDS_OF_TILES)),
    "llava_next_layers": (
        "llava_next",
        _llava(
            _TILED,
            image_grid_pinpoints=_GRIDS_OF_TILES,
            vision_feature_layer=[-1, 1],
            projector_hidden_act="relu",
            multimodal_projector_bias=False,
        ),
    ),
    "llava_onevision": (
        "llava_onevision",
        {
            "vision_config": {**_SIGLIP, "image_size": 15, "vision_use_head": False},
            "text_config": {**_LLAMA, "model_type": "qwen2"},
            "image_token_index": TOKEN,
            "video_token_index": 2,
            "image_grid_pinpoints": [[30, 30], [15, 30]],
            "vision_aspect_ratio": "anyres_max_1",
        },
    ),
    "llava_next_video": (
        "llava_next_video",
        {**_llava(_TILED, image_grid_pinpoints=_GRIDS_OF_TILES), "video_token_index": 2},
    ),
    "video_llama_3": (
        "video_llama_3",
        {
            "vision_config": {**_TOWER, "num_hidden_layers": 2, "patch_size": 4, "layer_norm_eps": 1e-3},
            "text_config": {**_LLAMA, "model_type": "qwen2"},
            "image_token_id": TOKEN,
            "video_token_id": 2,
        },
    ),
    "shieldgemma2": ("shieldgemma2", _gemma(4)),
    "glmga": ("glmga", _glm("glm46v")[1]),
    "video_llava": ("video_llava", {**_llava(), "video_token_index": 2}),
    "cosmos3_omni": ("cosmos3_omni", _qwen3("qwen3_vl", {"head_dim": 12}, deepstack_visual_indexes=[0, 2])[1]),
    "gemma3_tokens_beyond_the_table": ("gemma3", {**_gemma(4, layer_norm_eps=1e-3), "image_token_index": VOCAB + 3}),
}
"""Name -> model type and configuration."""


@dataclass(frozen=True)
class Whole:
    """Their model and ours, of the same weights, and where theirs was saved."""

    theirs: Any
    ours: Transformer
    directory: Path

    @property
    def tower(self) -> Any:
        tower = self.ours.architecture.images
        assert tower is not None
        return tower


@cache
def whole(name: str) -> Whole:
    """The models of a case."""
    model_type, config = CASES[name]
    made = transformers.AutoConfig.for_model(model_type, **config)
    torch.manual_seed(0)
    theirs = transformers.AutoModelForImageTextToText.from_config(made, attn_implementation="eager").eval()
    randomise(theirs)
    directory = Path(mkdtemp(dir=SCRATCH.name))
    theirs.save_pretrained(directory)
    return Whole(theirs, huggingface.load(directory, images=True)[0], directory)


def text(both: Whole, images: Sequence[int], length: int = 40, seed: int = 0) -> Tensor:
    """A row for each number of images, at other places in each: (B, T)."""
    sizes, token = iter(both.tower.sizes(pixels(both, sum(images)))), both.tower.token
    tokens = torch.randint(5, TOKEN, (len(images), length), generator=torch.Generator().manual_seed(seed))
    for row, number in enumerate(images):
        first = 2 + row
        for _ in range(number):
            count = next(sizes)
            tokens[row, first : first + count] = token
            first += count + 2
    return tokens


def pixels(both: Whole, count: int, seed: int = 1) -> Images:
    """Images as transformers' processors give them; where they may have any size, of several."""
    channels, generator = both.tower.patches.channels, torch.Generator().manual_seed(seed)
    if tiled(both):
        return tuple(_tiles(both, _SIDES[k % len(_SIDES)], generator) for k in range(count))
    if any_size(both):
        unit = both.tower.unit
        shapes = [(channels, rows * unit, columns * unit) for rows, columns in _GRIDS]
        return tuple(torch.randn(shapes[k % len(shapes)], generator=generator) for k in range(count))
    return torch.randn(count, channels, both.tower.image, both.tower.image, generator=generator)


_SIDES = (60, 16), (20, 67), (25, 40)
"""Heights and widths of images in tiles: with borders at their sides, without, and above and below."""


def tiled(both: Whole) -> bool:
    """Whether its images come in tiles."""
    return isinstance(both.tower, TiledTower)


def _tiles(both: Whole, sides: tuple[int, int], generator: torch.Generator) -> Tiles:
    size = both.tower.image
    high, wide = select_best_resolution(sides, both.theirs.config.image_grid_pinpoints)
    rows, columns = high // size, wide // size
    shape = 1 + rows * columns, both.tower.patches.channels, size, size
    return Tiles(torch.randn(shape, generator=generator), rows, columns, *sides)


def leaves(images: Images) -> list[Tensor]:
    """The numbers of images, as tensors that gradients may reach."""
    if isinstance(images, Tensor):
        return [images]
    return [image.pixels if isinstance(image, Tiles) else image for image in images]


_GRIDS = (2, 3), (1, 4), (3, 1)
"""Rows and columns of the tokens of images of several sizes."""


def any_size(both: Whole) -> bool:
    """Whether its images have any size."""
    return isinstance(both.tower, GridTower)


def arguments(both: Whole, tokens: Tensor, images: Images | None) -> dict[str, Any]:
    """What transformers' class is given beside the tokens: what its processors make of images."""
    if both.theirs.config.model_type in ("gemma3", "shieldgemma2"):
        return {**({} if images is None else {"pixel_values": images}), "token_type_ids": (tokens == both.tower.token).long()}
    if images is not None and both.theirs.config.model_type in ("idefics3", "smolvlm"):
        counts = ((tokens == both.tower.token).sum(1) // both.tower.tokens).tolist()
        rows = [pad(row, (0, 0) * 3 + (0, max(counts) - len(row))) for row in images.split(counts)]
        return {"pixel_values": torch.stack(rows)}
    if images is not None and tiled(both):
        most = max(len(image.pixels) for image in images)
        rows = [pad(image.pixels, (0, 0) * 3 + (0, most - len(image.pixels))) for image in images]
        sizes = torch.tensor([(image.height, image.width) for image in images])
        return {"pixel_values": torch.stack(rows), "image_sizes": sizes}
    if images is None or not any_size(both):
        return {} if images is None else {"pixel_values": images}
    if both.theirs.config.vision_config.model_type == "pixtral":
        sizes = [tuple(image.shape[1:]) for image in images]
        high, wide = (max(side) for side in zip(*sizes, strict=True))
        padded = [pad(image, (0, wide - image.shape[2], 0, high - image.shape[1])) for image in images]
        return {"pixel_values": torch.stack(padded), "image_sizes": torch.tensor(sizes)}
    kind = both.theirs.config.model_type
    if kind == "lfm2_vl":
        return _of_lfm(images, both.tower.patches.size)
    vision, cut = both.theirs.config.vision_config, Qwen2VLImageProcessorPil().patchify
    if kind == "video_llama_3":
        sides = [vision.patch_size, 1, 1]
    elif kind == "paddleocr_vl":
        cut, sides = PaddleOCRVLImageProcessorPil().patchify, [vision.patch_size, vision.spatial_merge_size, 1]
    else:
        sides = [vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size]
    patches = [cut(image.detach().numpy(), *sides) for image in images]
    marks = {"mm_token_type_ids": (tokens == both.tower.token).int()} if moves(both) else {}
    if kind == "video_llama_3":
        marks = {"image_merge_sizes": torch.ones(len(images), dtype=torch.int64)}
    return {
        "pixel_values": torch.cat([torch.tensor(each) for each, _, _ in patches]),
        "image_grid_thw": torch.tensor([(1, rows, columns) for _, rows, columns in patches]),
        **marks,
    }


def _of_lfm(images: Sequence[Tensor], size: int) -> dict[str, Tensor]:
    """Patches row by row, with channels innermost, padded to as many."""
    flat = [image.unfold(1, size, size).unfold(2, size, size).permute(1, 2, 3, 4, 0).flatten(2) for image in images]
    shapes = torch.tensor([own.shape[:2] for own in flat])
    flat = [own.flatten(0, 1) for own in flat]
    most = max(map(len, flat))
    return {
        "pixel_values": torch.stack([pad(own, (0, 0, 0, most - len(own))) for own in flat]),
        "spatial_shapes": shapes,
        "pixel_attention_mask": torch.stack([torch.arange(most) < len(own) for own in flat]).int(),
    }


def moves(both: Whole) -> bool:
    """Whether images have several axes of positions in the text."""
    return any_size(both) and both.tower.counted == "axes"


def their_logits(both: Whole, tokens: Tensor, images: Images | None, padding: Tensor | None = None) -> Tensor:
    """What transformers computes; with padding on the left, positions count from the first token."""
    more = arguments(both, tokens, images)
    if padding is not None:
        more["attention_mask"] = (~padding).long()
    if padding is not None and not moves(both):
        more["position_ids"] = ((~padding).cumsum(1) - 1).clamp(min=0)
    logits: Tensor = both.theirs(input_ids=tokens, **more).logits
    return logits
