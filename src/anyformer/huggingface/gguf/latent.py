"""The widths of latent attention (DeepSeek's MLA), which llama.cpp runs with one head of keys, the latent itself."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.huggingface.config import Config
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import Words


@dataclass(frozen=True)
class LatentWidths:
    """`key_length`: of the latent and the rotated part; `key_length_mla`: of a head of keys, rotated part included."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        rotated, latent = keys("rope.dimension_count"), keys("attention.kv_lora_rank")
        keys.expect("attention.key_length", latent + rotated)
        keys.expect("attention.value_length", latent)
        table |= {
            "qk_rope_head_dim": rotated,
            "kv_lora_rank": latent,
            "q_lora_rank": keys("attention.q_lora_rank", 0) or None,
            "qk_nope_head_dim": keys("attention.key_length_mla") - rotated,
            "v_head_dim": keys("attention.value_length_mla"),
        }

    def write(self, words: Config, keys: GgufKeys) -> None:
        rotated, latent = int(words("qk_rope_head_dim")), int(words("kv_lora_rank"))
        keys.put("rope.dimension_count", rotated)
        keys.put("attention.kv_lora_rank", latent)
        keys.put("attention.q_lora_rank", int(words("q_lora_rank", None) or 0))
        keys.put("attention.key_length", latent + rotated)
        keys.put("attention.value_length", latent)
        keys.put("attention.key_length_mla", int(words("qk_nope_head_dim")) + rotated)
        keys.put("attention.value_length_mla", int(words("v_head_dim")))
