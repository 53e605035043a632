"""What decoders with latent attention share: DeepSeek's names and words, and how YaRN stretches its scores."""

from __future__ import annotations

from math import log
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import first
from anyformer.huggingface.rules import Groups as PerHead
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.spelling import read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import LatentAttention, RMSNorm, Rotary
from anyformer.parts.latent_attention import Projection

BIASED: tuple[Projection, ...] = ("query_down", "kv_down", "output")
LATENT_NORM = RMSNorm(eps=1e-6)
"""Of the latents: its eps is no key of the configuration."""


def latent_table(attention: LatentAttention, ours: str = "latent_attention", theirs: str = "self_attn") -> Table:
    """Names of latent attention: one matrix gives latent and rotated key, one expands keys and values head by head."""
    query = "q_proj" if attention.q_rank is None else "q_b_proj"
    return {
        f"{ours}.query_down": f"{theirs}.q_a_proj",
        f"{ours}.query_norm": f"{theirs}.q_a_layernorm",
        f"{ours}.query_up": f"{theirs}.{query}",
        (f"{ours}.kv_down", f"{ours}.rope_key"): To(f"{theirs}.kv_a_proj_with_mqa", Rows()),
        f"{ours}.kv_norm": f"{theirs}.kv_a_layernorm",
        (f"{ours}.key_up", f"{ours}.value_up"): To(f"{theirs}.kv_b_proj", PerHead(attention.heads)),
        f"{ours}.output": f"{theirs}.o_proj",
    }


def latent_names(architecture: Architecture) -> Table:
    """The same, of the first layer that has it, with its norm."""
    return {"latent_attention.norm_before": "input_layernorm", **latent_table(first(architecture, "latent_attention"))}


def read_latent(
    config: Config,
    *,
    q_rank: int | None,
    rotary: Rotary | None,
    scale: float | None = None,
    kv_rank: int = 512,
    nope: int = 128,
    rope: int = 64,
    value: int = 128,
) -> LatentAttention:
    """Latent attention in DeepSeek's words. Ranks and widths: what absent keys mean."""
    heads, rank = config("num_attention_heads"), config("q_lora_rank", q_rank)
    biased = BIASED if rank is not None else BIASED[1:]
    config.expect("num_key_value_heads", heads, None, why="every head has keys of its own")
    config.expect("attention_dropout", 0.0, why="latent attention has no dropout of its weights")
    nope, rope = config("qk_nope_head_dim", nope), config("qk_rope_head_dim", rope)
    config.expect("qk_head_dim", nope + rope, None)
    return LatentAttention(
        heads=heads,
        kv_rank=config("kv_lora_rank", kv_rank),
        q_rank=rank,
        nope_width=nope,
        rope_width=rope,
        value_width=config("v_head_dim", None) or value,
        norm=LATENT_NORM,
        rotary=rotary,
        bias=biased if config("attention_bias", False) else (),
        scale=scale,
    )


def write_latent(attention: LatentAttention) -> dict[str, Any]:
    """The same words."""
    return {
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.heads,
        "kv_lora_rank": attention.kv_rank,
        "q_lora_rank": attention.q_rank,
        "qk_nope_head_dim": attention.nope_width,
        "qk_rope_head_dim": attention.rope_width,
        "v_head_dim": attention.value_width,
        "attention_bias": bool(attention.bias),
    }


def stretch(factor: float, strength: float) -> float:
    """YaRN's growth of what it multiplies: 0.1 * strength * ln(factor) + 1."""
    return 1.0 if factor <= 1 else 0.1 * strength * log(factor) + 1.0


def read_rope(
    config: Config, *, interleave: bool | None = None, theta: float = 10_000.0, nope: int = 128, rope: int = 64, **fields: Any
) -> dict[str, Any]:
    """Rotation of a head's last features, and the factor of its scores where a scaling has `mscale_all_dim`.

    `interleave`: what an absent `rope_interleave` means; None where the family has no such key.
    """
    if interleave is not None:
        fields["pairing"] = "adjacent" if config("rope_interleave", interleave) else "halves"
    table = rope_parameters(config, theta=theta)
    share = table.pop("partial_rotary_factor", None) or config("partial_rotary_factor", None) or 1.0
    if share != 1.0:
        raise HuggingFaceError(f"{config.where}: partial_rotary_factor = {share}, but latent attention turns all it rotates")
    scores = table.get("mscale_all_dim")
    if table["rope_type"] != "yarn":
        table = {name: value for name, value in table.items() if not name.startswith("mscale")}
    width = config("qk_nope_head_dim", nope) + config("qk_rope_head_dim", rope)
    scale = width**-0.5 * stretch(table["factor"], scores) ** 2 if table["rope_type"] != "default" and scores else None
    return {"rotary": read_rotary(table, **fields), "scale": scale}


def write_stretched(attention: LatentAttention) -> dict[str, Any]:
    """The keys about positions; `mscale_all_dim` is found from the factor of the scores."""
    if attention.rotary is None:
        raise HuggingFaceError("latent attention without rotary positions is not DeepSeek's")
    written = write_rope(attention.rotary)
    factor = written["rope_parameters"].get("factor", 1.0)
    if attention.scale is not None and factor > 1:
        growth = (attention.scale * attention.query_width**0.5) ** 0.5
        strength = round((growth - 1) / (0.1 * log(factor)), 9)
        written["rope_parameters"] |= {"mscale_all_dim": strength} if strength else {}
    return written


def interleaved(attention: LatentAttention) -> dict[str, Any]:
    """`rope_interleave`."""
    return {"rope_interleave": attention.rotary is not None and attention.rotary.pairing == "adjacent"}
