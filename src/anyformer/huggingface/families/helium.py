"""Helium and ERNIE 4.5: Llama that turns neighbouring features."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, feedforward, model, needs, repeated
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.spelling import read_rope
from anyformer.model import Architecture
from anyformer.parts import RMSNorm, pre_norm
from anyformer.parts.attention.heads import PROJECTIONS


def read_helium(config: Config) -> Architecture:
    config.assume(num_key_value_heads=20, head_dim=128)
    needs(config, "num_key_value_heads", "head_dim")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-8), cast="after_gain")
    heads = attention(
        config,
        rotary=read_rope(config, theta=100_000.0, pairing="adjacent"),
        bias=("query", "key", "value") if config("attention_bias", False) else (),
    )
    network = feedforward(config, bias=config("mlp_bias", False))
    return model(config, repeated(config, pre_norm(norm, heads, network)), norm)


def write_helium(architecture: Architecture) -> dict[str, Any]:
    return {
        **decoder.write(architecture),
        "attention_bias": decoder.biased(architecture),
        "mlp_bias": decoder.biased(architecture, "feedforward"),
    }


def read_ernie(config: Config) -> Architecture:
    config.assume(num_key_value_heads=2, head_dim=128, tie_word_embeddings=True)
    config.expect("attention_dropout", 0.0, why="the model type drops no attention weights")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    bias = config("use_bias", False)
    rotary = read_rope(config, theta=500_000.0, pairing="adjacent", rotate_in="fp32")
    heads = attention(config, rotary=rotary, bias=PROJECTIONS if bias else ())
    return model(config, repeated(config, pre_norm(norm, heads, feedforward(config, bias=bias))), norm)


def write_ernie(architecture: Architecture) -> dict[str, Any]:
    return {"head_dim": None, **decoder.write(architecture), "use_bias": decoder.biased(architecture)}


def names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, FEEDFORWARD, NORMS)


FAMILIES = (
    Family("helium", read_helium, write_helium, names, "HeliumForCausalLM", ignored=BUFFERS),
    Family("ernie4_5", read_ernie, write_ernie, names, "Ernie4_5ForCausalLM", ignored=BUFFERS),
)
