"""Where in an architecture the value of a key stands, for every key that means the same in all families.

A family reads a key of this list with no more than `config(key, default)`. Keys with another place in some family, or from
which something is computed, are read by the functions of `words/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.target import Place, Target

FULL, SLIDING = "full_attention", "sliding_attention"
"""Types of layers by their mask, in `layer_types`."""
UNLIMITED = 131_072
"""`max_position_embeddings` written for a model whose positions are computed and whose training length is unknown."""


def depth(target: Target) -> int:
    """L."""
    return target.depth()


def norm_eps(target: Target) -> float:
    """The epsilon of the last norm, else of the first: most models have one for all."""
    for path in ("stack.final_norm.eps", "stack.input_norm.eps", "steps.0.norm_after.eps"):
        eps: float | None = target.get(path)
        if eps is not None:
            return eps
    raise MismatchError("the architecture has no norm after its layers")


def longest(target: Target) -> int:
    """The most positions of the stack, or `UNLIMITED`."""
    return target.stack.max_length or UNLIMITED


def biased(branch: str) -> Callable[[Target], bool]:
    """Whether the projections of a branch add biases."""
    return lambda target: bool(target(f"{branch}.bias"))


def has_part(path: str) -> Callable[[Target], bool]:
    """Whether there is a part at the path."""
    return lambda target: target.get(path) is not None


def window(target: Target) -> int:
    """The window of the layers that have one."""
    for mask in target.each("attention.mask"):
        if mask.window:
            return int(mask.window)
    raise MismatchError("no layer has a window")


def window_of_all(target: Target) -> int | None:
    """The window of a model whose layers are alike; None where there is none."""
    size: int | None = target("attention.mask").window
    return size


def slides(target: Target) -> bool:
    """Whether any layer has a window."""
    return any(mask.window for mask in target.each("attention.mask"))


def layer_types(target: Target) -> list[str]:
    """The type of each layer, by whether its mask has a window."""
    return [SLIDING if mask.window else FULL for mask in target.each("attention.mask")]


def rotary_layers(target: Target) -> list[int]:
    """1 per layer with rotary positions, 0 per layer without."""
    return [int(rotary is not None) for rotary in target.each("attention.rotary")]


def encodes(target: Target) -> bool:
    """Whether the architecture has an encoder."""
    return target.architecture.encoder is not None


def has_experts(target: Target) -> list[bool]:
    """Whether each layer has experts."""
    return ["experts" in block.branches for block in target.blocks]


def mlp_layer_types(target: Target) -> list[str]:
    return ["sparse" if sparse else "dense" for sparse in has_experts(target)]


def indexer_types(target: Target) -> list[str]:
    """Whether each layer has an indexer of its own, or the keys that an earlier one chose."""
    choices = target.each("latent_attention.choice")
    if None in choices:
        raise MismatchError("the architecture has layers that choose no keys")
    return ["full" if choice.leaves else "shared" for choice in choices]


def dense_first(target: Target) -> int:
    """The number of layers before the first with experts."""
    sparse = has_experts(target)
    return sparse.index(True) if True in sparse else len(sparse)


def dense_layers(target: Target) -> list[int]:
    """The numbers of the layers without experts."""
    return [i for i, sparse in enumerate(has_experts(target)) if not sparse]


def shared_experts(target: Target) -> int:
    """The width of the shared expert in widths of the others."""
    shared: int = target.get("experts.shared.feedforward.width", 0)
    return shared // int(target("experts.width"))


def groups(field: str) -> Callable[[Target], int]:
    """A field of the router's groups; 1 where there are none."""
    return lambda target: int(target.get(f"experts.router.choice.groups.{field}", 1))


def key_value_heads(target: Target) -> int:
    """K, also where it is only implied."""
    return int(target("attention.kv_heads") or target("attention.heads"))


def score_scale(target: Target) -> float:
    """The factor of the scores."""
    given: float | None = target("attention.scale")
    return target("attention.sublayer").scale_of(target.architecture.width) if given is None else given


_PLACES: tuple[tuple[Place, str], ...] = (
    ("width", "hidden_size n_embd d_model dim emb_dim embed_dim n_embed"),
    (depth, "num_hidden_layers layers n_layer n_layers num_layers"),
    ("embedding.vocab", "vocab_size"),
    ("embedding.types", "type_vocab_size"),
    ("head.tied", "tie_word_embeddings"),
    (longest, "max_position_embeddings"),
    ("stack.position.length", "n_positions"),
    (norm_eps, "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon"),
    # Attention.
    ("attention.heads", "num_attention_heads n_head n_heads num_heads attention_heads"),
    (key_value_heads, "num_key_value_heads"),
    ("attention.head_width", "head_dim"),
    ("attention.value_width", "v_head_dim"),
    ("attention.sublayer.dropout", "attention_dropout attn_pdrop attention_probs_dropout_prob"),
    (biased("attention"), "attention_bias qkv_bias use_qkv_bias use_bias enable_bias"),
    (has_part("attention.qk_norm"), "use_qk_norm qk_layernorm"),
    ("attention.softcap", "attn_logit_softcapping"),
    (lambda target: target.get("attention.clip.bound"), "clip_qkv"),
    (score_scale, "attention_multiplier"),
    (lambda target: round(score_scale(target) ** -2), "query_pre_attn_scalar"),
    (window, "sliding_window window_size"),
    (slides, "use_sliding_window"),
    (layer_types, "layer_types"),
    (rotary_layers, "no_rope_layers"),
    # Dropout around branches, and of the input.
    ("attention.dropout", "resid_pdrop residual_dropout resid_dropout"),
    ("stack.dropout", "embd_pdrop embed_dropout embedding_dropout hidden_dropout_prob dropout"),
    # Feed-forward networks.
    ("feedforward.width", "intermediate_size ffn_dim n_inner d_inner d_ff dff hidden_dim ffn_hidden_size"),
    ("feedforward.sublayer.dropout", "activation_dropout mlp_dropout"),
    (biased("feedforward"), "mlp_bias"),
    # Experts.
    ("experts.experts", "num_experts num_local_experts n_routed_experts moe_num_experts"),
    ("experts.chosen", "num_experts_per_tok num_experts_per_token moe_k moe_top_k moe_topk"),
    ("experts.width", "moe_intermediate_size"),
    ("experts.shared.feedforward.width", "shared_expert_intermediate_size shared_intermediate_size share_expert_dim"),
    (shared_experts, "n_shared_experts num_shared_experts moe_num_shared_experts"),
    (has_part("experts.router.renormalise"), "norm_topk_prob moe_renormalize"),
    ("experts.router.scale", "routed_scaling_factor moe_routed_scaling_factor route_scale router_scaling_factor"),
    (groups("count"), "n_group num_expert_group"),
    (groups("keep"), "topk_group"),
    (mlp_layer_types, "mlp_layer_types"),
    (dense_first, "first_k_dense_replace num_dense_layers"),
    (dense_layers, "mlp_only_layers"),
    # Latent attention.
    ("latent_attention.kv_rank", "kv_lora_rank"),
    ("latent_attention.q_rank", "q_lora_rank"),
    ("latent_attention.nope_width", "qk_nope_head_dim"),
    ("latent_attention.rope_width", "qk_rope_head_dim"),
    ("latent_attention.choice.keep", "index_topk"),
    ("latent_attention.choice.heads", "index_n_heads"),
    ("latent_attention.choice.head_width", "index_head_dim"),
    (indexer_types, "indexer_types"),
    # Numbers that multiply.
    ("embedding.scale", "embedding_multiplier scale_emb"),
    ("attention.multiplier", "residual_multiplier"),
    ("head.scale", "logit_scale"),
    ("head.softcap", "final_logit_softcapping"),
    ("head.bias", "lm_head_bias decoder_bias"),
)

PLACES: Mapping[str, Place] = {name: place for place, names in _PLACES for name in names.split()}
"""Key -> the place of its value."""


def inverse(number: Any) -> float:
    """1 / number, rounded to the fewest digits of which the inverse is the number."""
    rounded = (float(f"{1 / number:.{digits}g}") for digits in range(1, 18))
    return next((candidate for candidate in rounded if candidate and 1 / candidate == number), 1 / number)
