"""Lines and changes of tensors that many architectures share."""

from __future__ import annotations

from collections.abc import Callable

from anyformer.huggingface.gguf.changes import Neighbours, Shifted
from anyformer.huggingface.gguf.lines import (
    Depth,
    ExpertWidth,
    GgufLine,
    HeadWidth,
    Key,
    Only,
    TiedHead,
    VocabularySize,
    Words,
    only,
)
from anyformer.huggingface.gguf.windows import AllFull
from anyformer.huggingface.rules import Op

RMS = Key("rms_norm_eps", "attention.layer_norm_rms_epsilon", float)
SIZES: tuple[GgufLine, ...] = (
    Key("hidden_size", "embedding_length"),
    Depth(),
    Key("max_position_embeddings", "context_length"),
    VocabularySize(),
    TiedHead(),
)
"""Width, depth, length and vocabulary of every decoder."""
WIDE = Key("intermediate_size", "feed_forward_length")
MAYBE_WIDE = Key("intermediate_size", "feed_forward_length", int, None)
"""Of models whose layers all have experts, which may say no width of a network."""
HEADS: tuple[GgufLine, ...] = (
    Key("num_attention_heads", "attention.head_count"),
    Key("num_key_value_heads", "attention.head_count_kv"),
)
SILU = only("hidden_act", "silu", "swish")
NO_WINDOW: tuple[GgufLine, ...] = (
    Only("use_sliding_window", (False,), said=False),
    Only("sliding_window", (None,), said=False),
    AllFull(),
)
"""Of graphs without windows."""
ROUTED: tuple[GgufLine, ...] = (Key("num_experts_per_tok", "expert_used_count"), ExpertWidth())
"""Experts of a width of their own."""


def decoder(*more: GgufLine, head_dim: bool = True, norm: GgufLine = RMS, wide: GgufLine = WIDE) -> tuple[GgufLine, ...]:
    """A decoder with one width of network; `head_dim`: whether its configuration says the width of a head."""
    return (*SIZES, wide, *HEADS, HeadWidth(head_dim), norm, *more)


def neighbours(heads: str) -> Callable[[Words], Op]:
    """Rows of as many heads as a word says, of which llama.cpp rotates neighbours."""
    return lambda table: Neighbours(table[heads])


def shifted(table: Words) -> Op:
    """Gains of 1 + w."""
    return Shifted()


NEIGHBOURS = {"attn_q": neighbours("num_attention_heads"), "attn_k": neighbours("num_key_value_heads")}
"""Queries and keys of graphs that rotate neighbours, where Hugging Face has halves."""
EXPERTS = {
    "block_sparse_moe.experts.{x}.w1": "ffn_gate_exps",
    "block_sparse_moe.experts.{x}.w2": "ffn_down_exps",
    "block_sparse_moe.experts.{x}.w3": "ffn_up_exps",
}
"""Mixtral's names of experts."""
