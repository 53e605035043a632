"""The widths of latent attention (DeepSeek's MLA), which llama.cpp runs with one head of keys, the latent itself."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.keys import GgufKeys, GgufMetadata
from anyformer.huggingface.gguf.lines import Words
from anyformer.huggingface.gguf.rotary import RotaryLine, rotary_of


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


STRENGTH = "rope.scaling.yarn_log_multiplier"
"""The key of a tenth of `mscale_all_dim`, by which YaRN makes the scores larger."""
PLAIN = RotaryLine(("default", "yarn"))
WAVES = 1e-6
"""Largest difference of the factor of waves from 1, which is all that the graph has."""


@dataclass(frozen=True)
class LatentRotary:
    """`rope_parameters` of the rotated part: YaRN with one strength for waves and scores, which leaves waves as they are."""

    def read(self, keys: GgufMetadata, table: Words) -> None:
        settings = rotary_of(keys, keys("rope.dimension_count"), PLAIN)
        if settings["rope_type"] == "yarn":
            strength = round(keys(STRENGTH) / 0.1, 6)
            settings |= {"mscale": strength, "mscale_all_dim": strength}
        table["rope_parameters"] = settings

    def write(self, words: Config, keys: GgufKeys) -> None:
        settings = dict(words("rope_parameters"))
        if settings["rope_type"] == "yarn":
            strength, waves = settings.pop("mscale_all_dim", 0.0), settings.pop("mscale", None)
            if not strength or waves is None or abs(waves - strength) > WAVES:
                raise HuggingFaceError(
                    f"{words.where}: rope_parameters: YaRN of {words.model_type} with mscale_all_dim = {strength} and "
                    f"mscale = {waves} is not in llama.cpp's graph, only such that are equal"
                )
            keys.put(STRENGTH, 0.1 * strength)
        PLAIN.put_scaling(settings, keys("rope.dimension_count"), words, keys)
