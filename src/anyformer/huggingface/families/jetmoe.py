"""JetMoE (arXiv 2404.07413): a mixture of attention heads, and a mixture of networks with one bias beside all of them."""

from __future__ import annotations

from anyformer.describe import change_all
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.words.names import decoder_names
from anyformer.model import Architecture
from anyformer.parts import AttentionExperts, RMSNorm, Router, TopK, pre_norm

NORM = RMSNorm(eps=1e-6)
"""The norm before a branch, whose eps is no key of the configuration."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=2048, num_hidden_layers=12, initializer_range=0.01)
    config.expect("attention_dropout", 0.0, why="a mixture of attention heads has no dropout of its weights")
    router = Router(over="chosen", choice=TopK(by="logits"))
    activation = words.activation(config, "activation_function", "silu")
    experts = words.experts(
        config, router, count=8, chosen=2, width=5632, counted=("num_local_experts",), size="intermediate_size",
        activation=activation,
    )  # fmt: skip
    heads = config("num_key_value_heads", 16, "attention_experts.kv_heads")
    attention = AttentionExperts(
        experts=experts.experts,
        chosen=experts.chosen,
        kv_heads=heads,
        head_width=config("kv_channels", 128, "attention_experts.head_width"),
        router=router,
        rotary=words.rotary(config),
    )
    config.expect(
        "num_attention_heads", heads * experts.chosen, None, why="every expert has a head for each of keys and values"
    )
    block = change_all(pre_norm(NORM, attention, experts), {"attention_experts.output_bias": True, "experts.output_bias": True})
    return words.decoder(config, words.repeated(config, block), words.rms_norm(config, 1e-6), tied=True)


NAMES: Table = {
    "attention_experts.norm_before": "input_layernorm",
    "attention_experts.router": "self_attention.experts.router.layer",
    "attention_experts.experts.query": "self_attention.experts.input_linear.weight",
    "attention_experts.experts.output": "self_attention.experts.output_linear.weight",
    "attention_experts.output_bias": "self_attention.experts.bias",
    ("attention_experts.key", "attention_experts.value"): To("self_attention.kv_proj", Rows()),
    "experts.norm_before": "post_attention_layernorm",
    "experts.router": "mlp.router.layer",
    ("experts.gate", "experts.up"): To("mlp.input_linear.weight", Rows(1)),
    "experts.down": "mlp.output_linear.weight",
    "experts.output_bias": "mlp.bias",
}
FAMILIES = (Family("jetmoe", read, decoder_names(NAMES), "JetMoeForCausalLM", inert=("aux_loss_coef",)),)
