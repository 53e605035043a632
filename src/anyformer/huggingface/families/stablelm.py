"""StableLM: LayerNorm, a partly rotated head, gated feed-forward; parallel with one norm (12B), or serial."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Concatenated, Names, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, SHARED_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, parallel, pre_norm


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=32)
    words.needs(config, "num_key_value_heads")
    norm, bias = words.layer_norm(config), words.biases(config, "use_qkv_bias", False, words.QKV)
    normed: dict[str, Any] = (
        {"qk_norm": QKNorm(norm=norm.but(bias=False), over="each_head")} if config("qk_layernorm", False) else {}
    )
    heads = words.attention(config, rotary=words.rotary(config, fraction=0.25), bias=bias, **normed)
    config.expect("head_dim", None, config("hidden_size") // heads.heads)
    wired = parallel if config("use_parallel_residual", False, words.in_parallel) else pre_norm
    dropout = config("hidden_dropout", 0.0, "feedforward.dropout")
    block = change(wired(norm, heads, words.feedforward(config)), "feedforward.dropout", dropout)
    return words.decoder(config, words.repeated(config, block), norm)


def names(architecture: Architecture) -> Names:
    """Names of the weights; the norms of heads are stored one by one and stand in one vector here."""
    heads = Target(architecture)("attention.sublayer")
    norms = {
        f"attention.{ours}_norm.weight": To(
            f"self_attn.{ours[0]}_layernorm.norms.{{x}}.weight", Concatenated(count), tuple(str(head) for head in range(count))
        )
        for ours, count in (("query", heads.heads), ("key", heads.groups))
    }
    return decoder_names(ATTENTION, norms, FEEDFORWARD, NORMS, SHARED_NORM)


FAMILIES = (Family("stablelm", read, names, "StableLmForCausalLM"),)
