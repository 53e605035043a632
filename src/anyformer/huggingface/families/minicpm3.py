"""MiniCPM 3 and Youtu-LLM: latent attention and one feed-forward network; MiniCPM with factors around everything."""

from __future__ import annotations

from math import sqrt
from typing import Any

from anyformer.describe import change_all, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import blocks_of, first
from anyformer.huggingface.families.latent import (
    interleaved,
    latent_names,
    read_latent,
    read_rope,
    write_latent,
    write_stretched,
)
from anyformer.huggingface.families.mixers import in_order
from anyformer.huggingface.families.old_llama import FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture
from anyformer.parts import Block, FeedForward, Initialisation, LatentAttention, Normal, RMSNorm, pre_norm

BRANCHES = ("latent_attention", "feedforward")


def read_youtu(config: Config) -> Architecture:
    config.assume(vocab_size=128_256, hidden_size=2048, num_hidden_layers=32, num_attention_heads=16, intermediate_size=6144)
    attention = read_latent(config, q_rank=1536, **read_rope(config, interleave=True))
    deviation = config("initializer_range", None) or 2 / sqrt(5 * config("hidden_size"))
    table = config("embedding_initializer_range", None) or 2 * deviation
    starts = Initialisation(matrix=Normal(std=deviation), embedding=Normal(std=table))
    return _decoder(config, attention, _feedforward(config), eps=1e-6, starts=starts)


def read_minicpm(config: Config) -> Architecture:
    config.assume(vocab_size=73_448, hidden_size=2560, num_hidden_layers=62, num_attention_heads=40, intermediate_size=6400)
    width, depth = config("hidden_size"), config("num_hidden_layers")
    attention = read_latent(
        config, q_rank=768, kv_rank=256, nope=64, rope=32, value=width // config("num_attention_heads"),
        **read_rope(config, nope=64, rope=32, pairing="halves"),
    )  # fmt: skip
    feedforward = _feedforward(config, bias=config("mlp_bias", False))
    deep, base = config("scale_depth", 1.4), config("dim_model_base", 256)
    return _decoder(
        config,
        attention,
        feedforward,
        eps=1e-5,
        multiplier=1.0 if deep is None else deep / sqrt(depth),
        scale=config("scale_emb", 12),
        head_scale=1.0 if base is None else base / width,
        starts=initialisation(config, 0.1),
    )


def _feedforward(config: Config, *, bias: bool = False) -> FeedForward:
    return FeedForward(
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", "silu")),
        bias=("gate", "up", "down") if bias else (),
    )


def _decoder(
    config: Config, attention: LatentAttention, feedforward: FeedForward, *, eps: float, multiplier: float = 1.0, **more: Any
) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", eps))
    block = scaled(pre_norm(norm, attention, feedforward), multiplier)
    return in_order(config, [["layer"] * config("num_hidden_layers")], lambda _: block, norm, tied=True, **more)


def scaled(block: Block, multiplier: float) -> Block:
    """What both branches add, times a number."""
    return change_all(block, {f"{branch}.multiplier": multiplier for branch in BRANCHES})


def write_youtu(architecture: Architecture) -> dict[str, Any]:
    return _written(architecture) | interleaved(first(architecture, "latent_attention"))


def write_minicpm(architecture: Architecture) -> dict[str, Any]:
    multiplier = blocks_of(architecture)[0].branches["latent_attention"].multiplier
    depth = architecture.output_stack.depth
    return _written(architecture) | {
        "mlp_bias": bool(first(architecture, "feedforward").bias),
        "scale_emb": get(architecture, "embedding.scale"),
        "scale_depth": None if multiplier == 1.0 else round(multiplier * sqrt(depth), 9),
        "dim_model_base": round(get(architecture, "head.scale") * architecture.width),
    }


def _written(architecture: Architecture) -> dict[str, Any]:
    """What both write alike."""
    attention: LatentAttention = first(architecture, "latent_attention")
    feedforward: FeedForward = first(architecture, "feedforward")
    return {
        **common(architecture),
        **write_latent(attention),
        **write_stretched(attention),
        "intermediate_size": feedforward.width,
        "hidden_act": write_activation(feedforward.activation),
    }


FAMILIES = tuple(
    Family(
        model_type,
        read,
        write,
        lambda architecture: decoder_names(latent_names(architecture), FEEDFORWARD, NORMS),
        default_class,
        inert=("head_dim",),
        ignored=(r".*rotary_emb\.inv_freq",),
    )
    for model_type, read, write, default_class in (
        ("youtu", read_youtu, write_youtu, "YoutuForCausalLM"),
        ("minicpm3", read_minicpm, write_minicpm, "MiniCPM3ForCausalLM"),
    )
)
