"""SmolLM 3: Llama without rotary positions on some layers, and windows if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyformer.huggingface.config import Config, HuggingFaceError
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, block, each, feedforward, kind, masked, model
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.spelling import FULL, SLIDING, read_rotary, rope_parameters
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import RMSNorm


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=4, sliding_window=None, tie_word_embeddings=True)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    rotary = read_rotary(rope_parameters(config, theta=2_000_000.0))
    network = feedforward(config, bias=config("mlp_bias", False))
    layers = [
        (
            kind(window) + ("" if turns else "_nope"),
            block(attention(config, rotary=rotary if turns else None, mask=masked(window)), network, before=norm),
        )
        for window, turns in zip(windows(config), rotated(config), strict=True)
    ]
    return model(config, layers, norm)


def rotated(config: Config) -> list[bool]:
    """Whether a layer rotates: a 1 in `no_rope_layers`, else all but every `no_rope_layer_interval`-th."""
    depth, interval = config("num_hidden_layers"), config("no_rope_layer_interval", 4, kind=SIZE)
    turns: Sequence[int] | None = config("no_rope_layers", None)
    turns = [(layer + 1) % interval for layer in range(depth)] if turns is None else turns
    if len(turns) < depth:
        raise HuggingFaceError(f"{config.where}: no_rope_layers has {len(turns)} entries for {depth} layers")
    return [bool(turn) for turn in turns[:depth]]


def windows(config: Config) -> list[int | None]:
    """The window of every layer: where they are used, on those that do not rotate, unless `layer_types` says another."""
    used = config("use_sliding_window", False) and config("sliding_window") is not None
    usual = [FULL if turns or not used else SLIDING for turns in rotated(config)]
    return decoder.windows(config, usual)


def write(architecture: Architecture) -> dict[str, Any]:
    windows = decoder.write_windows(architecture)
    return {
        **decoder.write(architecture),
        **windows,
        "use_sliding_window": windows["sliding_window"] is not None,
        "no_rope_layers": [int(rotary is not None) for rotary in each(architecture, "attention.rotary")],
        "attention_bias": decoder.biased(architecture),
        "mlp_bias": decoder.biased(architecture, "feedforward"),
    }


FAMILIES = (
    Family(
        "smollm3",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FEEDFORWARD, NORMS),
        "SmolLM3ForCausalLM",
        inert=("max_window_layers",),
        ignored=BUFFERS,
    ),
)
