"""OLMo hybrid: gated delta nets normed before, with betas up to 2; every few layers OLMo 3's attention normed after."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import QK_NORMS, first, heads
from anyformer.huggingface.families.mixers import convolved, in_order, kinds, words
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, common, decoder_names
from anyformer.huggingface.families.qwen_next import BRANCHES, read_delta, write_delta
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table, To
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_activation, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, DeltaAttention, FeedForward, RMSNorm, Rotary, output_norm, pre_norm
from anyformer.parts.heads import PROJECTIONS

SIDES = {"query": "q", "key": "k", "value": "v"}
TABLE: Table = {
    **ATTENTION,
    **QK_NORMS,
    **FEEDFORWARD,
    "attention.norm_after": "feedforward_layer_norm",
    "feedforward.norm_after": "post_feedforward_layernorm",
    "delta_attention.norm_before": "attention_layer_norm",
    "feedforward.norm_before": "feedforward_layer_norm",
    **{f"delta_attention.{ours}": f"linear_attn.{theirs}_proj" for ours, theirs in SIDES.items()},
    "delta_attention.gate.projection": "linear_attn.g_proj",
    "delta_attention.beta": "linear_attn.b_proj",
    "delta_attention.decay.projection": "linear_attn.a_proj",
    "delta_attention.decay.A_log": "linear_attn.A_log",
    "delta_attention.decay.dt_bias": "linear_attn.dt_bias",
    "delta_attention.norm": "linear_attn.o_norm",
    "delta_attention.output": "linear_attn.o_proj",
}


def names(architecture: Architecture) -> Names:
    delta: DeltaAttention = first(architecture, "delta_attention")
    kernel = delta.convolution.kernel if delta.convolution else 0
    convolutions: Table = {
        f"delta_attention.{ours}_convolution": To(f"linear_attn.{theirs}_conv1d", convolved(kernel))
        for ours, theirs in SIDES.items()
    }
    return decoder_names(TABLE, convolutions)


def read(config: Config) -> Architecture:
    config.assume(vocab_size=100_352, hidden_size=3840, num_hidden_layers=32, num_attention_heads=30)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6), cast="after_gain")
    feedforward = FeedForward(width=config("intermediate_size", 11008), activation=activation(config("hidden_act", "silu")))
    blocks = {"linear": pre_norm(norm, _delta(config), feedforward), "full": output_norm(norm, _attention(config), feedforward)}
    depth = config("num_hidden_layers")
    last = depth - 1 if depth < 4 else 3
    kind = words(config, "layer_types", lambda i: "full_attention" if i % 4 == 3 or i == last else "linear_attention")
    return in_order(config, [kind], lambda name: blocks[name], norm)


def _delta(config: Config) -> DeltaAttention:
    heads = config("num_attention_heads")
    keys = config("linear_num_key_heads", None) or heads
    width = config("linear_key_head_dim", None) or int(0.75 * config("hidden_size") / keys)
    delta = read_delta(
        config, eps=1e-5, num_key_heads=heads, num_value_heads=heads, key_head_dim=width, value_head_dim=2 * width
    )
    return delta.but(beta_scale=2.0 if config("linear_allow_neg_eigval", True) else 1.0)


def _attention(config: Config) -> Attention:
    """OLMo 3's without windows."""
    return Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", None) or config("num_attention_heads"),
        head_width=config("head_dim", None),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        qk_norm=RMSNorm(eps=config("rms_norm_eps", 1e-6), cast="after_gain"),
        qk_norm_over="projection",
        rotary=_rotary(config),
        dropout=config("attention_dropout", 0.0),
    )


def _rotary(config: Config) -> Rotary | None:
    """None where a table says that its base is none, as the published files do."""
    table = config("rope_parameters", None)
    if table is not None and table.get("rope_theta") is None:
        return None
    return read_rotary(rope_parameters(config), rotate_in="fp32")


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    feedforward: FeedForward = first(architecture, "feedforward")
    delta: DeltaAttention = first(architecture, "delta_attention")
    nowhere = {"rope_parameters": {"rope_type": "default", "rope_theta": None}}
    return {
        **common(architecture),
        **heads(attention),
        **(nowhere if attention.rotary is None else write_rope(attention.rotary)),
        **write_delta(delta),
        "num_key_value_heads": attention.kv_heads,
        "attention_bias": bool(attention.bias),
        "linear_allow_neg_eigval": delta.beta_scale == 2.0,
        "layer_types": kinds(architecture, BRANCHES),
        "hidden_act": write_activation(feedforward.activation),
        "intermediate_size": feedforward.width,
        # The class's own id would stand outside a small vocabulary.
        "pad_token_id": None,
    }


FAMILIES = (
    Family(
        "olmo_hybrid",
        read,
        write,
        names,
        "OlmoHybridForCausalLM",
        spelt={r"\.input_layernorm\.": ".attention_layer_norm.", r"\.post_attention_layernorm\.": ".feedforward_layer_norm."},
        inert=("linear_a_log_max", "linear_a_log_min", "linear_dt_init_floor", "linear_dt_max", "linear_dt_min"),
    ),
)
