"""OLMo: norms without a gain; OLMo 2: norms of what a branch gives, and of whole queries and keys; OLMo 3: windows."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, block, feedforward, kind, masked, model
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, OUTSIDE, decoder_names
from anyformer.huggingface.families.qwen import QK_NORM
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import FULL, SLIDING, read_rotary, rope_parameters
from anyformer.model import Architecture
from anyformer.parts import LayerNorm, QKNorm, RMSNorm, Rotary

AFTER: Table = {
    "attention.norm_after": "post_attention_layernorm",
    "feedforward.norm_after": "post_feedforward_layernorm",
}


def read(config: Config) -> Architecture:
    norm = LayerNorm(eps=1e-5, gain="none", bias=False)
    heads = attention(config, rotary=_rotary(rope_parameters(config)), clip=config("clip_qkv", None))
    layer = block(heads, feedforward(config), before=norm)
    return model(config, [("layer", layer)] * config("num_hidden_layers"), norm)


def write(architecture: Architecture) -> dict[str, Any]:
    written = {name: value for name, value in decoder.write(architecture).items() if name != "rms_norm_eps"}
    return {
        **written,
        "attention_bias": decoder.biased(architecture),
        "clip_qkv": decoder.each(architecture, "attention.clip")[0],
    }


def read2(config: Config) -> Architecture:
    rotary = _rotary(rope_parameters(config))
    return _output_normed(config, [None] * config("num_hidden_layers"), {FULL: rotary})


def write2(architecture: Architecture) -> dict[str, Any]:
    return {**decoder.write(architecture), "attention_bias": decoder.biased(architecture)}


def read3(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    windows = decoder.windows(config, decoder.every(4, config("num_hidden_layers")))
    # In files that spell it so, transformers 5 gives sliding layers its own default whatever is said here.
    config.expect("rope_theta", 500_000.0, why="spell rope_parameters by layer type")
    tables = decoder.rope_by_type(config, {FULL: 500_000.0, SLIDING: 500_000.0})
    return _output_normed(config, windows, {name: _rotary(table, "truncate") for name, table in tables.items()})


def write3(architecture: Architecture) -> dict[str, Any]:
    windows = decoder.write_windows(architecture, 4096)
    return {**write2(architecture), **windows, **decoder.write_rope_by_type(architecture)}


def _rotary(table: dict[str, Any], *unread: str) -> Rotary:
    return read_rotary(table, unread=unread, rotate_in="fp32")


def _output_normed(config: Config, windows: list[int | None], rotary: dict[str, Rotary]) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5), cast="after_gain")
    network = feedforward(config)
    heads = [
        attention(
            config,
            rotary=rotary[SLIDING if window else FULL],
            mask=masked(window),
            qk_norm=QKNorm(norm=norm, over="projection"),
        )
        for window in windows
    ]
    layers = [(kind(window), block(each, network, after=norm)) for window, each in zip(windows, heads, strict=True)]
    return model(config, layers, norm)


def names(architecture: Architecture) -> Names:
    outside = {ours: theirs for ours, theirs in OUTSIDE.items() if ours != "decoder.final_norm"}
    return decoder_names(ATTENTION, FEEDFORWARD, outside=outside)


def names2(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, AFTER)


FAMILIES = (
    Family("olmo", read, write, names, "OlmoForCausalLM", ignored=BUFFERS),
    Family("olmo2", read2, write2, names2, "Olmo2ForCausalLM", ignored=BUFFERS),
    Family("olmo3", read3, write3, names2, "Olmo3ForCausalLM", ignored=BUFFERS),
)
