"""Bamba: Mamba-2 in most layers, attention with half-rotated heads in some, a network after each."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import ATTENTION, OUTSIDE, decoder_names, gated_names
from anyformer.huggingface.words.rope import SHARE, rope_table_with_share
from anyformer.huggingface.words.state_space import KERNELS, LINEAR, MAMBA2, mamba2, mamba2_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm


def read(config: Config) -> Architecture:
    config.assume(vocab_size=128_000, hidden_size=4096, num_hidden_layers=32)
    config.expect(SHARE, 0.5)
    norm = words.rms_norm(config, 1e-5)
    rotary = words.with_share(words.rope_parameters(config, at=rope_table_with_share), 0.5)
    parts: dict[str, Any] = {
        "linear": mamba2(config, eps=norm.eps),
        "full": words.attention(config, heads=32, kv_heads=8, rotary=rotary),
    }
    network = words.feedforward(config, width=14336, bias=config("mlp_bias", False))
    attends = config("attn_layer_indices", None, attention_layers) or ()
    mixers = ["full" if i in attends else "linear" for i in range(config("num_hidden_layers"))]
    layers = words.layered(lambda mixer: pre_norm(norm, parts[mixer], network), mixers)
    return words.decoder(config, layers, norm)


def attention_layers(target: Target) -> list[int]:
    """The numbers of the layers with attention."""
    return [i for i, word in enumerate(target.branches({MAMBA2: LINEAR, "attention": FULL})) if word == FULL]


_OWN = {
    "attention.norm_before": "input_layernorm",
    f"{MAMBA2}.norm_before": "input_layernorm",
    "feedforward.norm_before": "pre_ff_layernorm",
}
_OUTSIDE = {**OUTSIDE, "decoder.final_norm": "model.final_layernorm"}


def names(architecture: Architecture) -> Names:
    mixer = mamba2_names(architecture, "mamba")
    return decoder_names(ATTENTION, mixer, gated_names("feed_forward"), _OWN, outside=_OUTSIDE)


_INERT = (*KERNELS, "layer_types", "layers_block_type", "num_logits_to_keep", "z_loss_coefficient")
FAMILIES = (Family("bamba", read, names, "BambaForCausalLM", inert=_INERT),)
