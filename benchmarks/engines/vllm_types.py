"""Model types that vLLM's native classes are asked about, at sizes that its kernels for processors hold.

Its attention there knows heads of 32, 64, 80, 96, 112, 128, 192 and 256 elements, and of latents 512 and 64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from benchmarks.engines.models import VOCABULARY, sized
from torch import Tensor
from torch.nn import functional

WINDOW = 16
PLAIN = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 128,
}  # fmt: skip
GROUPED = sized(PLAIN, num_attention_heads=4, num_key_value_heads=2, hidden_size=128)
HEADS = sized(PLAIN, num_attention_heads=4, num_key_value_heads=2, head_dim=32)
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 128}


LATENT = {
    "num_key_value_heads": 2, "q_lora_rank": 24, "kv_lora_rank": 512, "qk_nope_head_dim": 32, "qk_rope_head_dim": 64,
    "v_head_dim": 32, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "first_k_dense_replace": 1, "max_position_embeddings": 16384,
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
    },
}  # fmt: skip
NATIVE: Mapping[str, Mapping[str, Any]] = {
    "llama": HEADS,
    "mistral": sized(HEADS, sliding_window=WINDOW),
    "mixtral": sized(HEADS, num_local_experts=4, num_experts_per_tok=2),
    "qwen2": GROUPED,
    "qwen2_moe": sized(GROUPED, **EXPERTS, shared_expert_intermediate_size=48),
    "qwen3": HEADS,
    "qwen3_moe": sized(HEADS, **EXPERTS),
    "qwen3_next": sized(
        HEADS, **EXPERTS, shared_expert_intermediate_size=48, num_hidden_layers=4, linear_num_value_heads=4,
        linear_num_key_heads=2, linear_key_head_dim=32, linear_value_head_dim=32,
    ),
    "gemma": HEADS,
    "gemma2": sized(HEADS, sliding_window=WINDOW, query_pre_attn_scalar=24),
    "gemma3_text": sized(HEADS, sliding_window=WINDOW, query_pre_attn_scalar=24),
    "phi3": GROUPED,
    "gpt2": GPT2,
    "gptj": sized(GPT2, rotary_dim=16),
    "gpt_oss": sized(HEADS, sliding_window=WINDOW, num_local_experts=4, num_experts_per_tok=2),
    "olmoe": sized(GROUPED, num_experts=4, num_experts_per_tok=2),
    "granite": sized(GROUPED, attention_multiplier=0.3, logits_scaling=2.0, embedding_multiplier=3.0),
    "granitemoe": sized(GROUPED, attention_multiplier=0.3, logits_scaling=2.0, num_local_experts=4, num_experts_per_tok=2),
    "falcon": {
        "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "max_position_embeddings": 128,
    },
    "falcon:narrow": {
        "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "ffn_hidden_size": 96, "max_position_embeddings": 128,
    },
    "stablelm": GROUPED,
    "cohere": GROUPED,
    "cohere2": sized(HEADS, sliding_window=WINDOW, num_hidden_layers=4),
    "opt": {
        "vocab_size": VOCABULARY, "hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
        "max_position_embeddings": 128, "word_embed_proj_dim": 64,
    },
    "bloom": {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 2, "n_head": 2},
    "deepseek_v2": PLAIN | LATENT,
    "deepseek_v3": PLAIN | LATENT | {"n_group": 1, "topk_group": 1},
    "deepseek_v2:plain-rotary": PLAIN | LATENT | {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}},
    "apertus": GROUPED,
    "ernie4_5": HEADS,
    "exaone4": sized(HEADS, sliding_window=WINDOW, num_hidden_layers=4),
    "glm4": HEADS,
    "glm4_moe": sized(
        HEADS, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=32,
        first_k_dense_replace=1, n_group=1, topk_group=1,
    ),
    "nemotron": HEADS,
    "phimoe": sized(GROUPED, num_local_experts=4, num_experts_per_tok=2),
    "lfm2": sized(GROUPED, num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"]),
    "mamba": {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16},
    "mamba2": {
        "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16, "num_heads": 4, "head_dim": 32,
        "expand": 2, "n_groups": 1,
    },
    "jamba": sized(GROUPED, num_hidden_layers=8, num_experts=2, num_experts_per_tok=1, mamba_d_state=16, mamba_dt_rank=8),
}  # fmt: skip
"""Types of which vLLM has a class of its own; behind a colon what is special about a model."""
BACKEND: Mapping[str, Mapping[str, Any]] = {
    "phi": PLAIN,
    "gpt_bigcode": GPT2,
    "gpt_neox": PLAIN,
    "olmo": GROUPED,
    "olmo2": GROUPED,
    "olmo3": sized(GROUPED, sliding_window=WINDOW, num_hidden_layers=4),
    "starcoder2": sized(GROUPED, sliding_window=WINDOW),
    "glm": HEADS,
    "smollm3": sized(GROUPED, num_hidden_layers=4),
    "arcee": HEADS,
    "seed_oss": HEADS,
    "mpt": {"vocab_size": VOCABULARY, "d_model": 64, "n_layers": 2, "n_heads": 2, "max_seq_len": 128},
}  # fmt: skip
"""Types that it opens by transformers' class, with its own attention and cache in it."""


@dataclass(frozen=True)
class Departure:
    """With which values of a description, and with which weights, vLLM's numbers are computed here too."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    weight: Callable[[str, Tensor], Tensor] = lambda name, value: value


def in_16_bits(name: str, value: Tensor) -> Tensor:
    """The numbers of xIELU, softplus(p) and 1/2 + softplus(n), as they are when p, n and they are rounded to bf16."""
    below = {"positive": 0.0, "negative": 0.5}.get(name.rpartition(".")[2])
    if below is None:
        return value
    rounded = (below + functional.softplus(value.bfloat16())).float() - below
    return rounded + torch.log(-torch.expm1(-rounded))  # the inverse of softplus


DEPARTURES: Mapping[str, Departure] = {
    "apertus": Departure(weight=in_16_bits),
    "bloom": Departure({"decoder.layer.feedforward.activation": "gelu"}),
    "cohere2": Departure({"decoder.local.attention.mask.size": WINDOW + 1}),
}
"""Types that vLLM computes otherwise than transformers, in the words of `READ_OTHERWISE`."""
