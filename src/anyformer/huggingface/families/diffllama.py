"""DiffLlama: Llama with differential attention, whose initial lambda depends on the layer."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import biased
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Differential,
    Projection,
    RMSNorm,
    pre_norm,
)

_LAMBDAS = {f"attention.lambda_{ours}_{i}": f"self_attn.lambda_{ours[0]}{i}" for ours in ("query", "key") for i in (1, 2)}
_LAYER: Table = {
    **{f"differential_{ours}": theirs for ours, theirs in {**ATTENTION, **_LAMBDAS}.items()},
    "differential_attention.norm_before": NORMS["attention.norm_before"],
}


def read(config: Config) -> Architecture:
    config.expect("attention_dropout", 0.0, why="the paper does not say which of the two maps drops what")
    norm, network = words.rms_norm(config, 1e-5), words.feedforward(config)
    heads = Attention(
        heads=config("num_attention_heads", at="differential_attention.heads"),
        kv_heads=words.key_value_heads(config, at="differential_attention.kv_heads"),
        head_width=config("head_dim", None, "differential_attention.head_width"),
        project=Projection(bias=words.ALL if config("attention_bias", False, biased("differential_attention")) else ()),
        place=words.rotary(config),
        weigh=Differential(lambda_init="by_layer", head_norm=RMSNorm(eps=norm.eps, gain="none")),
    )
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, network)), norm)


_NAMES = decoder_names(_LAYER, FEEDFORWARD, NORMS)
# The initialisation of the lambdas.
FAMILIES = (Family("diffllama", read, _NAMES, "DiffLlamaForCausalLM", inert=("lambda_std_dev",)),)
