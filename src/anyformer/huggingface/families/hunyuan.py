"""Hunyuan: Llama with normed heads and a stretched base; A13B: one shared expert; 3: sigmoid routers with a correction."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, decoder_names, one_by_one, shared_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, Renormalise, Router, pre_norm


def read(config: Config) -> Architecture:
    words.needs(config, "head_dim")
    config.expect_all(use_qk_norm=True, use_cla=False)
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary_with_alpha(config, config("head_dim", kind=SIZE))
    heads = words.attention(config, rotary=rotary, qk_norm=QKNorm(norm=norm, at="after_rotary"))
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, words.feedforward(config))), norm)


def read_moe(config: Config) -> Architecture:
    # Keys of published files that transformers does not read.
    config.expect_all(
        add_classification_head=False, group_limited_greedy=False, mlp_bias=False, moe_layer_num_skipped=0, norm_type="rms",
        position_embedding_xdrope=False, use_cla=False, use_mla=False, use_mixed_mlp_moe=True, use_qk_norm=True,
        use_rotary_pos_emb=True,
    )  # fmt: skip
    norm, depth, narrow = words.rms_norm(config, 1e-5), config("num_hidden_layers"), config("attention_head_dim", None)
    heads = words.attention(config, qk_norm=QKNorm(norm=norm, at="after_rotary"))
    width = heads.head_width or narrow or config("hidden_size") // heads.heads
    heads = heads.but(head_width=width, rotary=words.rotary_with_alpha(config, width))
    router = Router(renormalise=words.EXACT)
    keys: dict[str, Any] = {"counted": ("num_experts",), "chosen_key": (), "size": "intermediate_size"}
    experts = words.experts(config, router, count=1, chosen=1, **keys)
    for key, one in (("moe_intermediate_size", experts.width), ("num_shared_expert", 1)):
        config.expect(key, one, [one] * depth)
    experts = experts.but(shared=words.shared_expert(experts.width, experts.activation))
    chosen = config("moe_topk", 1, lambda target: target.each("experts.chosen"))
    tops = chosen if isinstance(chosen, list) else [chosen] * depth
    if len(tops) != depth:
        raise HuggingFaceError(f"{config.where}: moe_topk has {len(tops)} entries for {depth} layers")
    layers = words.layered(
        lambda top: pre_norm(norm, heads, experts.but(chosen=int(top.removeprefix("top")))), [f"top{top}" for top in tops]
    )
    return words.decoder(config, layers, norm)


def read3(config: Config) -> Architecture:
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary(config, theta=11_158_840.0)
    heads = words.attention(config, kv_heads=8, head_width=128, qk_norm=QKNorm(norm=norm), rotary=rotary)
    biased = config("mlp_bias", False, lambda target: bool(target("experts.shared.feedforward.bias")))
    dense = words.feedforward(config, width=13312, bias=biased)
    router = words.sigmoid_router(config, renormalise=Renormalise(), scale=2.826, key="router_scaling_factor")
    experts = words.experts(config, router, count=192, chosen=8, width=1536)
    experts = words.shared_of(config, experts, 1, "num_shared_experts", bias=dense.bias)
    layers = words.expert_layers(config, norm, lambda _: heads, experts, dense, words.mlp_types(config, 1))
    return words.decoder(config, layers, norm)


_QK_LAYERNORM = {f"attention.{side}_norm": f"self_attn.{side}_layernorm" for side in ("query", "key")}
_EXPERTS = {**one_by_one("mlp.experts"), **shared_names("mlp.shared_mlp")}
_CORRECTED = {**_EXPERTS, "experts.router": "mlp.router.gate", "experts.router.correction": "mlp.expert_bias"}
FAMILIES = (
    Family(
        "hunyuan_v1_dense",
        read,
        decoder_names(ATTENTION, _QK_LAYERNORM, FEEDFORWARD, NORMS),
        "HunYuanDenseV1ForCausalLM",
        inert=("eod_token_id",),
    ),
    Family(
        "hunyuan_v1_moe",
        read_moe,
        decoder_names(ATTENTION, _QK_LAYERNORM, {"experts.router": "mlp.gate.wg"}, _EXPERTS, NORMS),
        "HunYuanMoEV1ForCausalLM",
        inert=("cla_share_factor", "class_num", "eod_token_id", "moe_drop_tokens"),
    ),
    Family(
        "hy_v3",
        read3,
        decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, _CORRECTED, NORMS),
        "HYV3ForCausalLM",
        # The type in which two sums of the network are added: the same numbers, but for their rounding.
        inert=("enable_moe_fp32_combine",),
        ignored=(r"model\.layers\.80\..*",),
    ),
)
