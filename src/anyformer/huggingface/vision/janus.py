"""Janus: SigLIP's kind of tower for images that are read, beside another one for those that are written, which is left aside.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.vision.encoders import WITH_FINAL_NORM, encoder_of, names
from anyformer.huggingface.vision.qwen import tower_table
from anyformer.huggingface.vocabulary import POSITIVE
from anyformer.huggingface.words.vit_line import side_of
from anyformer.parts import (
    Attention,
    Bidirectional,
    FeedForward,
    ImageEncoder,
    ImageTower,
    Patches,
    Projection,
    TwoLayerProjector,
    pre_norm,
)

_INERT = ("num_image_tokens", "projection_dim", "initializer_range")
_DROPPED = ("attention_dropout", "hidden_dropout_rate", "projection_dropout")


def janus(config: Config) -> ImageEncoder:
    """Wu et al. 2024 (arXiv 2410.13848), section 3.1; Chen et al. 2025, "Janus-Pro" (arXiv 2501.17811)."""
    inner = tower_table(config, "janus_vision_model")
    for name in _DROPPED:
        inner.expect(name, 0.0, 0, why="towers are computed without dropout")
    inner.expect("use_qk_norm", False)
    inner.expect("depth", 2, why="its projector has two layers")
    inner.assume(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, image_size=384)
    width, norm = inner("hidden_size"), words.layer_norm(inner, 1e-6)
    patches = Patches(size=side_of(inner, "patch_size", 16), channels=inner("num_channels", 3))
    activation = words.activation(inner, "hidden_act", "gelu")
    bias = words.ALL if inner("attention_bias", True) else ("output",)
    attention = Attention(heads=inner("num_attention_heads"), mask=Bidirectional(), project=Projection(bias=bias))
    wide = int(width * inner("mlp_ratio", 4.0, kind=POSITIVE))
    network = FeedForward(width=wide, activation=activation, gated=False, bias=("up", "down"))
    seen = encoder_of(inner, patches, pre_norm(norm, attention, network), norm, WITH_FINAL_NORM)
    _check_width(config, inner("projection_dim", 2048))
    inner.finish(_INERT)
    projector = TwoLayerProjector(activation=activation)
    return ImageTower(token=config("image_token_id", 100_581), **seen.fields, projector=projector)


def _check_width(config: Config, projected: int) -> None:
    """Refuse a projector to another width than the text's."""
    text = config.written.get("text_config") or {}
    width = text.get("hidden_size", 4096)
    if projected != width:
        raise HuggingFaceError(
            f"{config.where}: vision_config: projection_dim = {projected} should be hidden_size = {width} of the text_config, "
            f"which its features stand among"
        )


_PROJECTOR: Table = {"images.projector.first": "fc1", "images.projector.second": "hidden_layers.0"}


def janus_names(tower: ImageEncoder) -> Names:
    """SigLIP's names of the weights, but for the output of attention."""
    of_clip = names(_PROJECTOR, tower)
    prefix, layer = of_clip.layers["images.stack"]
    return Names(of_clip.outside, {"images.stack": (prefix, {**layer, "attention.output": "self_attn.projection_layer"})})
