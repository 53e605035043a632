"""Kimi Linear: Kimi delta attention, latent attention without positions in every few layers, DeepSeek-V3's experts."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Names, Shaped, Table, To
from anyformer.huggingface.words import DELTA
from anyformer.huggingface.words.names import NORMS, decoder_names, gated_names, one_by_one, shared_names
from anyformer.model import Architecture
from anyformer.parts import ChannelDecay, DeltaAttention, Gate, RMSNorm, ShortConvolution, pre_norm

_MLP = "block_sparse_moe"
"""Transformers' name of the network of every layer, with experts or without."""
_TABLE: Table = {
    f"{DELTA}.norm_before": "input_layernorm",
    f"{DELTA}.decay.down": "self_attn.f_a_proj",
    f"{DELTA}.decay.projection": "self_attn.f_b_proj",
    f"{DELTA}.decay.A_log": To("self_attn.A_log", Shaped((1, 1, -1, 1))),
    f"{DELTA}.gate.down": "self_attn.g_a_proj",
    f"{DELTA}.gate.projection": "self_attn.g_b_proj",
    "experts.router": f"{_MLP}.gate",
    "experts.router.correction": f"{_MLP}.gate.e_score_correction_bias",
    **one_by_one(f"{_MLP}.experts", "w1", "w3", "w2"),
    **shared_names(f"{_MLP}.shared_experts"),
    **gated_names(_MLP),
}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=163_840, hidden_size=2304, num_hidden_layers=27, num_attention_heads=32)
    config.put(bos_token_id=None, eos_token_id=None)  # the class's own ids may lie outside a small vocabulary
    config.expect_all(moe_router_activation_func="sigmoid", moe_layer_freq=1, mla_use_nope=True)
    norm = words.rms_norm(config, 1e-5)
    parts: dict[str, Any] = {
        "linear": _delta(config, norm.eps),
        "full": words.latent_attention(config, q_rank=None, rotates=False),
        "dense": words.feedforward(config, width=9216),
        "experts": words.moonshot_experts(config, count=256, width=1024, scale=2.446),
    }
    mixers = words.mixers(config, _absent(config), {DELTA: "linear_attention", "latent_attention": FULL})
    mlps = words.mlp_types(config, config("first_k_dense_replace", 1))
    layers = words.layered(lambda mixer, mlp: pre_norm(norm, parts[mixer], parts[mlp]), mixers, mlps)
    return words.decoder(config, layers, norm)


def _absent(config: Config) -> Any:
    """The default type of layer i; the table of published files numbers layers from 1."""
    table = config("linear_attn_config", None) or {}
    if "full_attn_layers" in table:
        return lambda i: FULL if i + 1 in table["full_attn_layers"] else "linear_attention"
    return lambda i: FULL if i and i % 4 == 0 else "linear_attention"


def _delta(config: Config, eps: float) -> DeltaAttention:
    """Kimi delta attention, by keys of the configuration or of the published files' table."""
    table = config("linear_attn_config", None) or {}
    width = table.get("head_dim", config("linear_head_dim", 128, f"{DELTA}.key_width"))
    kernel = table.get("short_conv_kernel_size", config("linear_conv_kernel_dim", 4, f"{DELTA}.convolution.kernel"))
    return DeltaAttention(
        heads=table.get("num_heads", config("linear_num_heads", 32, f"{DELTA}.heads")),
        key_width=width,
        convolution=ShortConvolution(kernel=kernel, activation=words.activation(config)),
        decay=ChannelDecay(rank=width),
        norm=RMSNorm(eps=eps, cast="after_gain"),
        gate=Gate(rank=width),
    )


def names(architecture: Architecture) -> Names:
    return decoder_names(words.delta_names(architecture, "self_attn"), _TABLE, words.latent_names(architecture), NORMS)


FAMILIES = (
    Family(
        "kimi_linear",
        read,
        names,
        "KimiLinearForCausalLM",
        older_names={r"\.mlp\.": f".{_MLP}."},
        # There are no rotary positions, and predictors of later tokens are not read.
        inert=("head_dim", "rope_theta", "rope_scaling", "num_nextn_predict_layers", "use_grouped_topk"),
    ),
)
