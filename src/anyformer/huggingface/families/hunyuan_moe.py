"""Hunyuan A13B: queries and keys normalised after their rotation, a shared expert as wide as the others."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, NORMS, decoder_names, one_by_one, shared_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, Router, pre_norm

_NAMES = {
    "attention.query_norm": "self_attn.query_layernorm",
    "attention.key_norm": "self_attn.key_layernorm",
    "experts.router": "mlp.gate.wg",
    **one_by_one("mlp.experts"),
    **shared_names("mlp.shared_mlp"),
}


def read(config: Config) -> Architecture:
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


FAMILIES = (
    Family(
        "hunyuan_v1_moe",
        read,
        decoder_names(ATTENTION, _NAMES, NORMS),
        "HunYuanMoEV1ForCausalLM",
        inert=("cla_share_factor", "class_num", "eod_token_id", "moe_drop_tokens"),
    ),
)
