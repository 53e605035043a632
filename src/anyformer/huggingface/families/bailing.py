"""Ling 3.0: Kimi delta attention with a bounded decay, gated latent attention in every few layers, DeepSeek-V3's experts."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.target import nowhere
from anyformer.huggingface.words import DELTA
from anyformer.huggingface.words.names import FEEDFORWARD, NORMS, OUTSIDE, ROUTED, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import ChannelDecay, DeltaAttention, Gate, RMSNorm, ShortConvolution, pre_norm

_TABLE: Table = {
    f"{DELTA}.norm_before": "input_layernorm",
    f"{DELTA}.decay.projection": "attention.f_proj",
    f"{DELTA}.output": "attention.dense",
    "latent_attention.gate.projection": "attention.g_proj",
    "latent_attention.output": "attention.dense",
    "experts.router.correction": "mlp.gate.expert_bias",
}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=157_184, hidden_size=2560, num_hidden_layers=42, num_attention_heads=32)
    config.put(bos_token_id=None, eos_token_id=None)  # the class's own ids may lie outside a small vocabulary
    config.expect("q_lora_rank", None)
    config.assume(max_position_embeddings=config("model_max_length", None, nowhere) or 262_144)  # another name of it
    norm = words.rms_norm(config)
    latent = words.latent_attention(config, q_rank=None, theta=6e6, pairing="adjacent")
    parts: dict[str, Any] = {
        "linear": _delta(config, norm.eps),
        "full": latent.but(gate=Gate(per="head")),
        "dense": words.feedforward(config, width=6144),
        "experts": words.moonshot_experts(config, count=512, width=768, groups=8, keep=4, scale=2.5),
    }
    size = config("layer_group_size", 6)
    branches = {DELTA: "linear_attention", "latent_attention": FULL}
    mixers = words.mixers(config, lambda i: "linear_attention" if (i + 1) % size else FULL, branches)
    mlps = words.mlp_types(config, config("first_k_dense_replace", 2))
    layers = words.layered(lambda mixer, mlp: pre_norm(norm, parts[mixer], parts[mlp]), mixers, mlps)
    return words.decoder(config, layers, norm)


def _delta(config: Config, eps: float) -> DeltaAttention:
    """Kimi delta attention; published files call its head width `head_dim`, by which transformers means latent attention's."""
    width, kernel = f"{DELTA}.key_width", f"{DELTA}.convolution.kernel"
    heads = config("num_attention_heads", 32)
    wide, short = config("head_dim", 128, width), config("short_conv_kernel_size", 4, kernel)
    bound = -config("kda_lower_bound", -5.0, lambda target: -(target(f"{DELTA}.decay.bound") or 5.0))
    bounded = config("kda_safe_gate", True, lambda target: target(f"{DELTA}.decay.bound") is not None)
    return DeltaAttention(
        heads=config("linear_num_heads", None, f"{DELTA}.heads") or heads,
        key_width=config("linear_head_dim", None, width) or wide,
        convolution=ShortConvolution(
            kernel=config("linear_conv_kernel_dim", None, kernel) or short, activation=words.activation(config)
        ),
        decay=ChannelDecay(bound=bound if bounded else None),
        norm=RMSNorm(eps=eps, cast="after_gain"),
        gate=Gate(),
    )


def names(architecture: Architecture) -> Names:
    delta, latent = words.delta_names(architecture, "attention"), words.latent_names(architecture, "attention")
    outside = {**OUTSIDE, "embedding": "model.word_embeddings"}
    return decoder_names(latent, delta, ROUTED, SHARED, _TABLE, FEEDFORWARD, NORMS, outside=outside)


FAMILIES = (
    Family(
        "bailing_hybrid",
        read,
        names,
        "BailingHybridForCausalLM",
        inert=("mtp_loss_scaling_factor", "num_nextn_predict_layers"),
        ignored=(r"model\.layers\.42\..*",),
        older_names={r"\bembed_tokens\.": "word_embeddings."},
    ),
)
