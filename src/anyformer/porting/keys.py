"""What keys of a configuration are known to mean, and under which names one thing is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anyformer.huggingface.config import INERT, ONLY
from anyformer.huggingface.places import PLACES
from anyformer.huggingface.vocabulary import KINDS

_ALIKE = """
    hidden_size n_embd d_model dim emb_dim embed_dim n_embed model_dim
    num_hidden_layers layers n_layer n_layers num_layers
    num_attention_heads n_head n_heads num_heads attention_heads encoder_attention_heads decoder_attention_heads
    num_key_value_heads num_kv_heads n_kv_heads multi_query_group_num n_head_kv
    head_dim d_kv kv_channels attention_head_dim d_head attention_head_size
    intermediate_size ffn_dim n_inner d_inner d_ff dff hidden_dim ffn_hidden_size encoder_ffn_dim decoder_ffn_dim ffn_size
    hidden_act hidden_activation activation_function activation afn mlp_hidden_act dense_act_fn
    rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon layernorm_epsilon
    rope_theta rotary_emb_base rotary_base rope_base
    partial_rotary_factor rotary_pct rope_pct
    max_position_embeddings n_positions max_seq_len context_length seq_length n_ctx max_sequence_length
    attention_bias qkv_bias use_qkv_bias add_qkv_bias
    mlp_bias use_mlp_bias
    use_bias bias add_bias_linear
    num_experts num_local_experts n_routed_experts moe_num_experts
    num_experts_per_tok num_experts_per_token moe_k moe_top_k moe_topk
    n_shared_experts num_shared_experts moe_num_shared_experts
    first_k_dense_replace num_dense_layers
    norm_topk_prob moe_renormalize
    routed_scaling_factor moe_routed_scaling_factor route_scale router_scaling_factor
    attention_dropout attn_pdrop attention_probs_dropout_prob attn_dropout
    hidden_dropout_prob hidden_dropout dropout resid_pdrop residual_dropout resid_dropout
    embd_pdrop embed_dropout embedding_dropout emb_dropout_prob
    use_qk_norm qk_layernorm qk_norm
    embedding_multiplier scale_emb
    logit_scale lm_head_multiplier output_multiplier
    attn_logit_softcapping attention_logit_softcapping
    final_logit_softcapping output_logit_soft_cap
    mamba_d_state state_size ssm_state_size d_state
    mamba_d_conv conv_kernel conv_kernel_size d_conv
    mamba_expand expand
    mamba_dt_rank time_step_rank
    mamba_n_heads mamba_num_heads
    mamba_d_head mamba_head_dim mamba_headdim
    mamba_n_groups n_groups mamba_ngroups
    mamba_conv_bias use_conv_bias
"""
GROUPS = tuple(tuple(line.split()) for line in _ALIKE.strip().splitlines())
"""Names of one thing: a key of one family stands for that of another."""
LENGTHS = next(names for names in GROUPS if "max_position_embeddings" in names)
"""Keys that say how many positions there are."""
THETAS = next(names for names in GROUPS if "rope_theta" in names)
"""Keys that say the base of rotary positions."""
_GROUP = {name: at for at, names in enumerate(GROUPS) for name in names}


def known(key: str) -> bool:
    """Whether some family knows what a key means, or it changes nothing anywhere."""
    return key in KINDS or key in INERT or key in ONLY


def dropped(key: str) -> bool:
    """Whether a key is a rate of dropout, of which no logit depends once a model is trained."""
    return any(word in key for word in ("dropout", "pdrop", "dropout_prob", "drop_path", "layerdrop"))


def alike(left: str, right: str) -> bool:
    """Whether two keys are names of one thing: by the list above, or since their values have one place in a description."""
    if left in _GROUP and _GROUP.get(left) == _GROUP.get(right):
        return True
    place = PLACES.get(left)
    return place is not None and place == PLACES.get(right)


def respelt(asked: Iterable[str], unread: Iterable[str], table: Mapping[str, Any]) -> dict[str, str]:
    """Key that a family asks for and the files lack -> the key of the files that nobody asked for and that means the same."""
    lacking = [name for name in sorted(asked) if table.get(name) is None]
    free = [name for name in sorted(unread) if table[name] is not None]
    found: dict[str, str] = {}
    for wanted in lacking:
        match = next((name for name in free if alike(wanted, name) and name not in found.values()), None)
        if match is not None:
            found[wanted] = match
    return found


def numbers(table: Mapping[str, Any], *words: str) -> list[float]:
    """The numbers of keys whose names have one of these words."""
    numbers = {
        float(value)
        for name, value in table.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e4
        and any(word in name for word in words)
    }  # fmt: skip
    return sorted(numbers)
