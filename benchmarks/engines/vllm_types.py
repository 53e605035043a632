"""Model types that vLLM's native classes are asked about, at sizes that its kernels for processors hold.

Its attention there knows heads of 32, 64, 80, 96, 112, 128, 192 and 256 elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.engines.models import VOCABULARY, sized

PLAIN = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 128,
}  # fmt: skip
GROUPED = sized(PLAIN, num_attention_heads=4, num_key_value_heads=2, hidden_size=128)
HEADS = sized(PLAIN, num_attention_heads=4, num_key_value_heads=2, head_dim=32)
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 128}


@dataclass(frozen=True)
class Asked:
    """`sizes`: of a tiny model; `model_type`: where the row has another name."""

    sizes: Mapping[str, Any]
    model_type: str = ""


TYPES: Mapping[str, Asked] = {
    name: Asked(sizes)
    for name, sizes in {
        "llama": HEADS,
        "mistral": sized(HEADS, sliding_window=16),
        "mixtral": sized(HEADS, num_local_experts=4, num_experts_per_tok=2),
        "qwen2": GROUPED,
        "qwen2_moe": sized(GROUPED, **EXPERTS, shared_expert_intermediate_size=48),
        "qwen3": HEADS,
        "qwen3_moe": sized(HEADS, **EXPERTS),
        "gemma": HEADS,
        "gemma2": sized(HEADS, sliding_window=16, query_pre_attn_scalar=24),
        "gemma3_text": sized(HEADS, sliding_window=16, query_pre_attn_scalar=24),
        "phi": PLAIN,
        "phi3": GROUPED,
        "gpt2": GPT2,
        "gpt_bigcode": GPT2,
        "gptj": sized(GPT2, rotary_dim=16),
        "gpt_neox": PLAIN,
        "olmo2": GROUPED,
        "olmoe": sized(GROUPED, num_experts=4, num_experts_per_tok=2),
        "granite": sized(GROUPED, attention_multiplier=0.3, logits_scaling=2.0, embedding_multiplier=3.0),
        "falcon": {
            "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "ffn_hidden_size": 96, "max_position_embeddings": 128,
        },
        "starcoder2": sized(GROUPED, sliding_window=16),
        "stablelm": GROUPED,
        "cohere": GROUPED,
        "cohere2": sized(HEADS, sliding_window=16),
        "opt": {
            "vocab_size": VOCABULARY, "hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
            "max_position_embeddings": 128, "word_embed_proj_dim": 64,
        },
        "bloom": {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 2, "n_head": 2},
        "mpt": {"vocab_size": VOCABULARY, "d_model": 64, "n_layers": 2, "n_heads": 2, "max_seq_len": 128},
        "deepseek_v2": sized(
            PLAIN, num_key_value_heads=2, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=16,
            v_head_dim=32, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=32,
            first_k_dense_replace=1,
        ),
    }.items()
}  # fmt: skip
