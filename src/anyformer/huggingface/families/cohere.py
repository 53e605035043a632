"""Cohere's Command R: one LayerNorm before attention and network in parallel; R7B: rotary positions in windows only; Compass: a
table of them, or none, per type of layer."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Names, Shaped, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.layers import Layers
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, SHARED_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Block, LayerNorm, QKNorm, Rotary, parallel


def read(config: Config) -> Architecture:
    norm = words.layer_norm(config, bias=False)
    normed: dict[str, Any] = {"qk_norm": QKNorm(norm=norm, over="each_head")} if config("use_qk_norm", False) else {}
    heads = words.attention(config, rotary=_rotary(config, 500_000.0), **normed)
    return _scaled(config, words.repeated(config, parallel(norm, heads, words.feedforward(config))), norm)


def read2(config: Config) -> Architecture:
    period = config("sliding_window_pattern", 4)
    config.assume(sliding_window=4096, layer_switch=period)
    # Keys of the first files; transformers reads none of them.
    config.expect_all(layer_switch=period, order_of_interleaved_layers="local_attn_first", position_embedding_type="rope_gptj")
    config.expect_all(rotary_pct=1.0, use_parallel_block=True, use_gated_activation=True, use_embedding_sharing=True)
    norm, network = words.layer_norm(config, bias=False), words.feedforward(config)
    heads, rotary = words.attention(config), {"local": _rotary(config, 10_000.0), "full": None}

    def block(kind: str) -> Block:
        return parallel(norm, heads.but(mask=words.mask(config, kind), rotary=rotary[kind]), network)

    return _scaled(config, words.layered(block, words.windows(config, words.every(period))), norm)


def read_compass(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    norm, network, heads = words.layer_norm(config, bias=False), words.feedforward(config), words.attention(config)
    kinds = words.windows(config, lambda _: FULL)
    rotary = words.some_rotary_by_type(config, dict.fromkeys(kinds))

    def block(kind: str) -> Block:
        return parallel(norm, heads.but(mask=words.mask(config, kind), rotary=rotary[kind]), network)

    scale = config("logit_scale", None)
    return words.decoder(config, words.layered(block, kinds), norm, tied=True, scale=1.0 if scale is None else scale)


def _rotary(config: Config, theta: float) -> Rotary:
    return words.rotary(config, theta=theta, pairing="adjacent", rotate_in="fp32")


def _scaled(config: Config, layers: Layers, norm: LayerNorm) -> Architecture:
    return words.decoder(config, layers, norm, tied=True, scale=config("logit_scale", 0.0625))


def names(architecture: Architecture) -> Names:
    """Names of the weights; stored gains of the norms of heads have the shape (H, E), here (H E)."""
    by_head = Shaped((-1, Target(architecture)("attention.sublayer").width_of_head(architecture.width)))
    qk_norm = {f"attention.{side}_norm": To(f"self_attn.{side[0]}_norm", by_head) for side in ("query", "key")}
    return decoder_names(ATTENTION, qk_norm, FEEDFORWARD, SHARED_NORM)


FAMILIES = (
    Family("cohere", read, names, "CohereForCausalLM"),
    Family("cohere_compass_text", read_compass, names, "CohereCompassForCausalLM", inert=("pooling",)),
    Family("cohere2", read2, names, "Cohere2ForCausalLM", inert=("cache_implementation", "use_parallel_embedding")),
)
