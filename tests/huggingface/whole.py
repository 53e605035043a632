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

from anyformer import huggingface
from anyformer.model import Transformer
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


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llava": ("llava", _llava()),
    "llava_full": ("llava", _llava(vision_feature_select_strategy="full", vision_feature_layer=-1)),
    "llava_first_layer": ("llava", _llava({**_CLIP, "hidden_act": "gelu", "layer_norm_eps": 1e-3}, vision_feature_layer=1)),
    "llava_plain_projector": ("llava", _llava(projector_hidden_act="relu", multimodal_projector_bias=False)),
    "llava_siglip": ("llava", _llava(_SIGLIP, vision_feature_select_strategy="full")),
    "gemma3": ("gemma3", _gemma(4)),
    "gemma3_every_patch": ("gemma3", _gemma(16, vision_use_head=False)),
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
    count, token = both.tower.tokens, both.tower.token
    tokens = torch.randint(5, TOKEN, (len(images), length), generator=torch.Generator().manual_seed(seed))
    for row, number in enumerate(images):
        for k in range(number):
            first = 2 + row + k * (count + 2)
            tokens[row, first : first + count] = token
    return tokens


def pixels(both: Whole, count: int, seed: int = 1) -> Tensor:
    """Images as transformers' processors give them."""
    shape = count, both.tower.patches.channels, both.tower.image, both.tower.image
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def their_logits(both: Whole, tokens: Tensor, images: Tensor | None, padding: Tensor | None = None) -> Tensor:
    """What transformers computes; with padding on the left, positions count from the first token."""
    more: dict[str, Any] = {} if images is None else {"pixel_values": images}
    if both.theirs.config.model_type == "gemma3":
        more["token_type_ids"] = (tokens == both.tower.token).long()
    if padding is not None:
        more |= {"attention_mask": (~padding).long(), "position_ids": ((~padding).cumsum(1) - 1).clamp(min=0)}
    logits: Tensor = both.theirs(input_ids=tokens, **more).logits
    return logits
