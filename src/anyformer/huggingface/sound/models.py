"""The composites that are read with their sound: a tower of Whisper's kind, and how its features reach the text.

Towers are read as transformers computes them: their positions are a table in the files, which no training moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyformer.describe import did_you_mean
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.activations import activation
from anyformer.huggingface.words.fairseq import ATTENTION, NORMS, PLAIN
from anyformer.parts import (
    Attention,
    AudioFrames,
    AveragedProjector,
    Bidirectional,
    FeedForward,
    LayerNorm,
    LearnedPosition,
    Projection,
    SideBySideProjector,
    SoundEncoder,
    SoundTower,
    pre_norm,
    stack,
)

TOWER, PROJECTOR = "audio_tower.", "multi_modal_projector."
_NORM = LayerNorm()
Arguments = Callable[[Tensor, Tensor | None], dict[str, Tensor]]


@dataclass(frozen=True)
class Hearing:
    """The sound of a composite: its tower, and the names of its weights and the projector's."""

    read: Callable[[Config], SoundEncoder]
    projector: Table
    """Names within the module of the projector."""
    arguments: Arguments
    """What transformers' class is given: of frames (n, F, I) and their padding."""
    stored: Mapping[str, str]
    """Pattern of names in files, published or saved by transformers 5 -> the name here."""
    masked: bool = True
    """Whether its class is told which frames only fill a window, or hears the silence there."""

    def names(self, tower: SoundEncoder) -> Names:
        """The weights of tower and projector, ours to those here."""
        outside: Table = {
            "audio.embedding.first": f"{TOWER}conv1",
            "audio.embedding.second": f"{TOWER}conv2",
            "audio.stack.position.weight": f"{TOWER}embed_positions.weight",
            "audio.stack.final_norm": f"{TOWER}layer_norm",
            "audio.projector.norm": f"{TOWER}layer_norm",
            **{f"audio.projector.{ours}": f"{PROJECTOR}{theirs}" for ours, theirs in self.projector.items()},
        }
        return Names(outside, {"audio.stack": (f"{TOWER}layers.{{i}}.", {**ATTENTION, **PLAIN, **NORMS})})


def qwen2_audio(config: Config) -> SoundEncoder:
    """Chu et al. 2024 (arXiv 2407.10759): means of two positions, a norm, one layer to the text's width."""
    token = config.either("audio_token_index", "audio_token_id", default=151_646)
    return _tower(config, "qwen2_audio_encoder", token, AveragedProjector(norm=_NORM))


def audioflamingo3(config: Config) -> SoundEncoder:
    """Goel et al. 2025 (arXiv 2507.08128): as Qwen2-Audio, with two layers."""
    projector = AveragedProjector(
        norm=_NORM, activation=activation(config, "projector_hidden_act", "gelu"), bias=config("projector_bias", True)
    )
    return _tower(config, "audioflamingo3_encoder", config("audio_token_id", 151_669), projector)


def voxtral(config: Config) -> SoundEncoder:
    """Liu et al. 2025 (arXiv 2507.13264): positions side by side, as many as make the width of the tower's networks."""
    inner = _inner(config, "voxtral_encoder")
    width, wide = _width(inner), _network(inner)
    if wide % width:
        raise HuggingFaceError(f"{inner.where}: intermediate_size = {wide} should be a multiple of hidden_size = {width}")
    acts = activation(config, "projector_hidden_act", "gelu")
    projector = SideBySideProjector(count=wide // width, activation=acts, bias=False)
    return _tower(config, "voxtral_encoder", config("audio_token_id"), projector)


def _tower(config: Config, usual: str, token: int, projector: AveragedProjector | SideBySideProjector) -> SoundEncoder:
    inner = _inner(config, usual)
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        inner.expect(name, 0.0, 0, why="towers are computed without dropout")
    width, length = _width(inner), inner("max_source_positions", 1500)
    heads = inner.either("encoder_attention_heads", "num_attention_heads", default=20)
    acts = activation(inner, "activation_function", "gelu")
    block = pre_norm(
        _NORM,
        Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=("query", "value", "output"))),
        FeedForward(width=_network(inner), activation=acts, gated=False, bias=("up", "down")),
    )
    depth = inner.either("encoder_layers", "num_hidden_layers", default=32)
    around: dict[str, Any] = {} if isinstance(projector, AveragedProjector) else {"final_norm": _NORM}
    made = SoundTower(
        token=token,
        sound=2 * length,
        width=width,
        embedding=AudioFrames(features=inner("num_mel_bins", 128)),
        stack=stack([block] * depth, position=LearnedPosition(length=length), **around),
        projector=projector,
    )
    inner.finish(_INERT)
    return made


def _inner(config: Config, usual: str) -> Config:
    """The `audio_config` of a composite."""
    where = f"{config.where}: audio_config"
    inner = Config({"model_type": usual, **config("audio_config")}, where)
    if inner.model_type != usual:
        raise HuggingFaceError(
            f"{where}: a tower of type {inner.model_type!r} is not read, only {usual}: read it without sound"
        )
    return inner


def _width(inner: Config) -> int:
    return int(inner.either("d_model", "hidden_size", default=1280))


def _network(inner: Config) -> int:
    return int(inner.either("encoder_ffn_dim", "intermediate_size", default=5120))


_INERT = (
    "encoder_layerdrop", "head_dim", "init_std", "initializer_range", "layerdrop", "num_key_value_heads", "scale_embedding",
    "vocab_size",
)  # fmt: skip
"""Keys that change nothing: layers are never dropped here, and no class reads `scale_embedding`."""


def _masked(name: str) -> Arguments:
    """Frames with a mask of what is no padding, under this name."""

    def arguments(audio: Tensor, padding: Tensor | None) -> dict[str, Tensor]:
        own = torch.ones(audio.shape[:2], dtype=torch.long) if padding is None else (~padding).long()
        return {"input_features": audio.mT, name: own}

    return arguments


def _whole(audio: Tensor, padding: Tensor | None) -> dict[str, Tensor]:
    assert padding is None, "its class reads whole windows alone"
    return {"input_features": audio.mT}


_STORED: Mapping[str, str] = {
    r"(?:model\.)?audio_tower\.(.*)": rf"{TOWER}\1",
    r"(?:model\.)?multi_modal_projector\.(.*)": rf"{PROJECTOR}\1",
}
_TWO: Table = {"first": "linear_1", "second": "linear_2"}
HEARING: Mapping[str, Hearing] = {
    "audioflamingo3": Hearing(audioflamingo3, _TWO, _masked("input_features_mask"), _STORED),
    "qwen2_audio": Hearing(qwen2_audio, {"first": "linear"}, _masked("feature_attention_mask"), _STORED),
    "voxtral": Hearing(voxtral, _TWO, _whole, _STORED, masked=False),
}
"""Model type of a composite -> its sound."""


def hearing_of(config: Config) -> Hearing:
    """The sound of a composite; `HuggingFaceError` where it is not read."""
    if config.model_type not in HEARING:
        hint = did_you_mean(config.model_type, HEARING)
        raise HuggingFaceError(
            f"{config.where}: the sound of {config.model_type} is not read{hint}, only that of {', '.join(HEARING)}: "
            f"read its text model alone, without sound"
        )
    return HEARING[config.model_type]
