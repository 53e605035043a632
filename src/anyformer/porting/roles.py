"""What a name of a weight says in the field's usual words: `attn.wq`, `self_attn.q_proj` and `attention.query` are one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

_WORDS: Mapping[str, str] = {
    "attention": "attn attention self_attn self_attention selfattention attn_layer mha temporal_block mixer time_mix sa",
    "cross": "encoder_attn cross_attn encdecattention crossattention cross_attention",
    "network": "mlp ffn ff feed_forward feedforward fc densereludense intermediate mlp_layer",
    "experts": "experts moe block_sparse_moe sparse_moe mixture expert",
    "shared": "shared_expert shared_experts shared_mlp share_expert",
    "router": "router gate_router routing classifier",
    "correction": "e_score_correction_bias expert_bias correction correction_bias",
    "query": "q q_proj query wq q_lin to_q query_proj q_linear",
    "key": "k k_proj key wk k_lin to_k key_proj k_linear",
    "value": "v v_proj value wv v_lin to_v value_proj v_linear",
    "output": "o o_proj out_proj out_lin wo to_out o_linear attn_out att_proj",
    "fused": "qkv qkv_proj query_key_value c_attn wqkv w_pack in_proj",
    "gate": "gate gate_proj w1 wi_0 linear_fc1_gate",
    "up": "up up_proj w3 wi_1 wi fc1 c_fc fc_in lin1 dense_h_to_4h c_fc_1 linear_fc1 linear1",
    "down": "down down_proj w2 fc2 fc_out lin2 dense_4h_to_h linear_fc2 linear2 output_linear",
    "gate_up": "gate_up_proj gate_up w12 up_gate_proj input_linear",
    "query_norm": "q_norm query_norm q_layernorm query_layernorm norm_q",
    "key_norm": "k_norm key_norm k_layernorm key_layernorm norm_k",
    "embedding": "embed_tokens wte word_embeddings tok_embeddings embed_in token_embedding embeddings embedding shared "
    "tokens_embed embed emb",
    "positions": "wpe position_embeddings position_embedding embed_positions positions_embed pos_emb",
    "types": "token_type_embeddings token_type_embedding",
    "head": "lm_head embed_out output_projection head decoder_head",
    "norm": "norm layernorm layer_norm ln rmsnorm rms_norm",
    "before": "input_layernorm ln_1 norm1 norm_1 attention_norm ln_attn attn_norm self_attn_layer_norm pre_attention_layernorm "
    "norm_before input_norm pre_attn_norm pre_norm ln1 sa_layer_norm temporal_pre_norm pre_mixer_norm "
    "pre_self_attn_layernorm",
    "after": "post_attn_norm post_norm1 norm_after post_self_attn_layernorm post_mixer_norm",
    "before_network": "ln_2 norm2 norm_2 ffn_norm ln_mlp mlp_norm pre_feedforward_layernorm ln2 pre_mlp_layernorm "
    "pre_mlp_norm pre_ff_layernorm channel_pre_norm",
    "after_network": "post_feedforward_layernorm post_norm2 post_mlp_layernorm post_mlp_norm post_ffn_norm post_ff_layernorm",
    "second": "post_attention_layernorm post_attention_norm",
    "final": "ln_f norm_f final_layernorm final_layer_norm final_norm embedding_norm norm_out",
    "sink": "sinks sink attention_sink",
}  # fmt: skip
_MEANING = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}
_CONTAINERS = frozenset(
    [
        "model",
        "transformer",
        "decoder",
        "encoder",
        "layers",
        "layer",
        "h",
        "blocks",
        "block",
        "backbone",
        "language_model",
        "text_model",
    ]
)
_PLAIN = {"dense": {"attention": "output", "network": "down"}, "c_proj": {"attention": "output", "network": "down"}}
"""Words that mean the last projection of what they stand in."""
_VAGUE = frozenset({"norm", "second", "after", "before_network", "final", "network", "attention"})
"""Meanings of last words that say too little, or that authors use for different things."""
_OF_NETWORK = {"output": "down"}


@cache
def meanings(name: str) -> tuple[str, ...]:
    """The words of a name in order, those of one meaning as one; without what holds the layers."""
    found: list[str] = []
    for word in name.lower().split("."):
        if word in ("{i}", "{x}", "weight", "bias", "") or (word in _CONTAINERS and not found):
            continue
        found.append(word)
    meant = [_MEANING.get(word, word) for word in found]
    where = "network" if {"network", "experts", "shared"} & set(meant[:-1]) else "attention"
    if meant:
        meant[-1] = _PLAIN.get(found[-1], {}).get(where, meant[-1])
        if where == "network" and len(meant) > 1:
            meant[-1] = _OF_NETWORK.get(meant[-1], meant[-1])
            meant[-1] = "router" if found[-1] == "gate" else meant[-1]
    return tuple(meant)


def role(name: str) -> frozenset[str]:
    """The meanings of a name's words."""
    return frozenset(meanings(name))


def likeness(left: str, right: str) -> float:
    """How alike two names are, from 0 to 1: equal, or the share of their words that mean the same.

    Two whose last words are known to mean different things are hardly alike.
    """
    if left == right:
        return 1.0
    ours, theirs = meanings(left), meanings(right)
    if not ours or not theirs:
        return 0.0
    words = 0.95 * len({*ours} & {*theirs}) / len({*ours} | {*theirs})
    ends = {ours[-1], theirs[-1]}
    if len(ends) == 2 and ends <= _WORDS.keys() and not ends & _VAGUE:
        words *= 0.1
    return words + 0.04 * _letters(left, right)


def _letters(left: str, right: str) -> float:
    """The share of pairs of letters that two names have in common."""
    ours, theirs = ({name[at : at + 2] for at in range(len(name) - 1)} for name in (left, right))
    return len(ours & theirs) / max(1, len(ours | theirs))
