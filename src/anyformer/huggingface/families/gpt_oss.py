"""gpt-oss: sinks, alternating windows, experts with biases (arXiv 2508.10925); and its encoder for classes of tokens."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import window
from anyformer.huggingface.rules import Alternating, Names, Rows, Table, Then, To, Transposed
from anyformer.huggingface.words.activations import ALPHA
from anyformer.huggingface.words.encoder_heads import classes, head_of
from anyformer.huggingface.words.names import ATTENTION, NORMS, SINKS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, RMSNorm, Router, Window, pre_norm

_YARN = {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096}
_EXPERTS: Table = {
    "experts.router": "mlp.router",
    ("experts.gate", "experts.up"): To("mlp.experts.gate_up_proj", Then(Transposed(), Alternating(dim=1))),
    ("experts.gate_bias", "experts.up_bias"): To("mlp.experts.gate_up_proj_bias", Alternating(dim=1)),
    "experts.down": To("mlp.experts.down_proj", Transposed()),
    "experts.down_bias": "mlp.experts.down_proj_bias",
}
_SIDE_BY_SIDE: Table = {
    ("experts.gate", "experts.up"): To("mlp.experts.gate_up_proj", Then(Transposed(), Rows(1))),
    ("experts.gate_bias", "experts.up_bias"): To("mlp.experts.gate_up_proj_bias", Rows(1)),
}
"""Gate and up columns that do not alternate."""
_LABELS = 33
"""Classes of the privacy filter where nothing says their number."""


def read(config: Config) -> Architecture:
    config.assume(sliding_window=128, attention_bias=True)
    norm, heads, experts = _parts(config, kv_heads=8)
    kinds = words.windows(config, words.every(2))
    return words.decoder(config, words.masked_layers(config, norm, heads, experts, kinds), norm)


def read_filter(config: Config) -> Architecture:
    """The layers of gpt-oss with windows to both sides, adjacent pairs of rotated features, and classes of tokens."""
    config.assume(vocab_size=200_064, hidden_size=640, intermediate_size=640, num_hidden_layers=8, num_attention_heads=14)
    config.assume(attention_bias=True, num_labels=_LABELS)
    norm, heads, experts = _parts(config, kv_heads=2, pairing="adjacent")
    size = config("sliding_window", 128, lambda target: window(target) - 1)
    block = pre_norm(norm, heads.but(mask=Window(size=size + 1, after=size)), experts)
    made = words.decoder(config, words.repeated(config, block), norm, side="encoder")
    head = head_of(config, "OpenAIPrivacyFilter", {"ForTokenClassification": classes(config)})
    return made.but(head=head)


def _parts(config: Config, kv_heads: int, **rotary: Any) -> tuple[RMSNorm, Attention, Experts]:
    """The norm, the heads and the experts; `kv_heads`: where the key is absent; `rotary`: fields of the rotary positions."""
    config.expect("swiglu_alpha", ALPHA)
    norm, table = words.rms_norm(config, 1e-5, cast="after_gain"), words.rope_parameters(config, theta=150_000.0)
    if all(config(name, None) is None for name in ("rope_parameters", "rope_scaling")):
        table = {**_YARN, "rope_theta": table["rope_theta"]}
    heads = words.attention(config, kv_heads=kv_heads, head_width=64, sink="head", rotary=words.from_table(table, **rotary))
    experts = words.experts(
        config,
        Router(over="chosen", bias=True),
        count=128,
        chosen=4,
        counted=("num_local_experts",),
        chosen_key=("num_experts_per_tok", "experts_per_token"),
        size="intermediate_size",
        activation="quick_gelu",
        bias=("gate", "up", "down"),
        clamp=float(config("swiglu_limit", 7.0, "experts.clamp")),
        up_offset=1.0,
    )
    return norm, heads, experts


def filter_names(architecture: Architecture) -> Names:
    base = "model." if architecture.head else ""
    outside: Table = {"embedding": f"{base}embed_tokens", "encoder.final_norm": f"{base}norm", "head": "score"}
    return Names(outside, {"encoder": (base + "layers.{i}.", {**ATTENTION, **SINKS, **_EXPERTS, **_SIDE_BY_SIDE, **NORMS})})


_NAMES = decoder_names(ATTENTION, SINKS, _EXPERTS, NORMS)
FAMILIES = (
    Family("gpt_oss", read, _NAMES, "GptOssForCausalLM", inert=("hidden_act", "initial_context_length")),
    Family(
        "openai_privacy_filter",
        read_filter,
        filter_names,
        "OpenAIPrivacyFilterForTokenClassification",
        inert=("classifier_dropout", "hidden_act", "initial_context_length"),
    ),
)
