"""Plain networks of squared ReLU: Nemotron-3 and 4 (LayerNorm of 1 + w, half of each head turned), Jais 2, Arcee."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, UP_DOWN, attention, model, needs, plain, renamed, repeated
from anyformer.huggingface.families.llama import ATTENTION, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.spelling import read_rope
from anyformer.model import Architecture
from anyformer.parts import LayerNorm, RMSNorm, Rotary, pre_norm
from anyformer.parts.norms.norm import Norm


def read_nemotron(config: Config) -> Architecture:
    config.assume(initializer_range=0.0134)
    needs(config, "num_key_value_heads")
    norm = LayerNorm(eps=config("norm_eps", 1e-5), gain="one_plus_weight")
    return _read(config, norm, read_rope(config, fraction=0.5))


def write_nemotron(architecture: Architecture) -> dict[str, Any]:
    written = renamed(write_arcee(architecture), rms_norm_eps="norm_eps")
    written["rope_parameters"].setdefault("partial_rotary_factor", 1.0)
    return written


def read_jais(config: Config) -> Architecture:
    config.assume(attention_bias=True, mlp_bias=True)
    return _read(config, LayerNorm(eps=config("layer_norm_eps", 1e-5)), read_rope(config))


def write_jais(architecture: Architecture) -> dict[str, Any]:
    return renamed(write_arcee(architecture), rms_norm_eps="layer_norm_eps")


def read_arcee(config: Config) -> Architecture:
    return _read(config, RMSNorm(eps=config("rms_norm_eps", 1e-5)), read_rope(config))


def write_arcee(architecture: Architecture) -> dict[str, Any]:
    return {
        **decoder.write(architecture),
        "attention_bias": decoder.biased(architecture),
        "mlp_bias": decoder.biased(architecture, "feedforward"),
    }


def _read(config: Config, norm: Norm, rotary: Rotary) -> Architecture:
    network = plain(config, "relu2", bias=config("mlp_bias", False))
    return model(config, repeated(config, pre_norm(norm, attention(config, rotary=rotary), network)), norm)


def names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, UP_DOWN, NORMS)


FAMILIES = (
    Family(
        "nemotron",
        read_nemotron,
        write_nemotron,
        names,
        "NemotronForCausalLM",
        inert=("hidden_dropout", "kv_channels"),
        ignored=BUFFERS,
    ),
    Family("jais2", read_jais, write_jais, names, "Jais2ForCausalLM", ignored=BUFFERS),
    Family("arcee", read_arcee, write_arcee, names, "ArceeForCausalLM", ignored=BUFFERS),
)
