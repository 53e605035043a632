"""Latent attention by DeepSeek's keys: ranks, widths, and YaRN's factor of the scores."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any, Literal

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import GroupedRows, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.rope import SHARE, from_table, rope_parameters, rope_table
from anyformer.model import Architecture
from anyformer.parts import Indexer, LatentAttention, LayerNorm, RMSNorm

LATENT_NORM = RMSNorm(eps=1e-6)
"""The norm of the latents, whose eps is no key of the configuration."""
INDEX_NORM = LayerNorm(eps=1e-6)
"""The norm of index keys, likewise."""


def latent_attention(
    config: Config,
    *,
    q_rank: int | None,
    kv_rank: int = 512,
    nope: int = 128,
    rope: int = 64,
    value: int = 128,
    rotates: bool = True,
    turned: Literal["head_dim", ""] = "",
    **rotary: Any,
) -> LatentAttention:
    """Latent attention; ranks and widths: defaults of absent keys; `rotates`: with rotary positions, by `stretched_rotary`;
    `turned`: another key from which a class takes the number of features that turn."""
    heads = config("num_attention_heads", at="latent_attention.heads")
    rank = config("q_lora_rank", q_rank)
    config.expect("attention_dropout", 0.0, why="latent attention has no dropout of its weights")
    config.expect("num_key_value_heads", heads, None, why="every one of num_attention_heads has keys of its own")
    config.put(num_key_value_heads=heads)
    nope, rope = config("qk_nope_head_dim", nope), config("qk_rope_head_dim", rope)
    config.expect("qk_head_dim", nope + rope, None)
    if turned:
        config.expect(turned, rope, why="features that qk_rope_head_dim does not name would turn")
    biased: Any = ("query_down", "kv_down", "output") if rank is not None else ("kv_down", "output")
    return LatentAttention(
        heads=heads,
        kv_rank=config("kv_lora_rank", kv_rank),
        q_rank=rank,
        nope_width=nope,
        rope_width=rope,
        value_width=config("v_head_dim", None, "latent_attention.value_width") or value,
        norm=LATENT_NORM,
        bias=biased if config("attention_bias", False, lambda target: bool(target("latent_attention.bias"))) else (),
        **(stretched_rotary(config, nope + rope, **rotary) if rotates else {}),
    )


def indexer(
    config: Config,
    attention: LatentAttention,
    *,
    heads: int,
    pairing: Literal["halves", "adjacent"],
    place: Literal["first", "last"] = "first",
    norm: LayerNorm = INDEX_NORM,
) -> Indexer:
    """DeepSeek's lightning indexer beside this attention: it rotates as many features, at `place` in a head, in `pairing`."""
    width, rotary = config("index_head_dim", 128), attention.rotary
    assert rotary is not None, "model types with an indexer rotate"
    share = attention.rope_width / width
    if share > 1 or int(share * width) != attention.rope_width:
        raise HuggingFaceError(
            f"{config.where}: index_head_dim = {width} has no room for the qk_rope_head_dim = {attention.rope_width} features "
            "that rotate"
        )
    return Indexer(
        keep=config("index_topk", 2048), heads=config("index_n_heads", heads), head_width=width, norm=norm,
        rotary=rotary.but(fraction=share, pairing=pairing, place=place),
    )  # fmt: skip


def stretched_rotary(
    config: Config,
    width: int,
    *,
    interleave: bool | None = None,
    theta: float = 10_000.0,
    share: float = 1.0,
    at: Callable[[Target], dict[str, Any]] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Rotary positions of a head's last features, and the scale of its scores where a scaling has `mscale_all_dim`.

    `interleave`: the default of `rope_interleave`, None for a model type without this key; `share`: the share of a head that
    the table has to name, if it names one; `at`: the place of the table.
    """
    if interleave is not None:
        adjacent = config("rope_interleave", interleave, lambda target: target("latent_attention.rotary.pairing") == "adjacent")
        fields["pairing"] = "adjacent" if adjacent else "halves"
    table = rope_parameters(config, theta=theta, at=at or stretched_table)
    named = table.pop(SHARE, None) or config(SHARE, None) or share
    if named != share:
        raise HuggingFaceError(
            f"{config.where}: {SHARE} = {named}, but latent attention has a width of its own for rotated features"
        )
    scores = table.get("mscale_all_dim")
    if table["rope_type"] != "yarn":
        table = {name: value for name, value in table.items() if not name.startswith("mscale")}
    scale = width**-0.5 * stretch(table["factor"], scores) ** 2 if table["rope_type"] != "default" and scores else None
    return {"rotary": from_table(table, **fields), "scale": scale}


def stretch(factor: float, strength: float) -> float:
    """YaRN's factor of waves or scores: 0.1 * strength * ln(factor) + 1."""
    return 1.0 if factor <= 1 else 0.1 * strength * log(factor) + 1.0


def stretched_table(target: Target) -> dict[str, Any]:
    """`rope_parameters`, with `mscale_all_dim` computed from the scale of the scores."""
    table, attention = rope_table(target), target("latent_attention.sublayer")
    factor = table.get("factor", 1.0)
    if attention.scale is not None and factor > 1:
        growth = (attention.scale * attention.query_width**0.5) ** 0.5
        strength = round((growth - 1) / (0.1 * log(factor)), 9)
        table |= {"mscale_all_dim": strength} if strength else {}
        return _with_mscale(table) if strength else table
    return table


def _with_mscale(table: dict[str, Any]) -> dict[str, Any]:
    """The factor of sines and cosines as DeepSeek's `mscale`, which vLLM reads, where it is exactly that."""
    factor, strength, waves = table["factor"], table["mscale_all_dim"], table.get("attention_factor")
    if waves is None or table["rope_type"] != "yarn":
        return table
    over = round((waves * stretch(factor, strength) - 1) / (0.1 * log(factor)), 9)
    if over <= 0 or stretch(factor, over) / stretch(factor, strength) != waves:
        return table
    return {name: value for name, value in table.items() if name != "attention_factor"} | {"mscale": over}


def latent_names(architecture: Architecture, theirs: str = "self_attn", ours: str = "latent_attention") -> Table:
    """Names of latent attention: one matrix for latent and rotated key, one that expands keys and values head by head."""
    target = Target(architecture)
    if not target.has(ours):
        return {}
    query = "q_proj" if target(f"{ours}.q_rank") is None else "q_b_proj"
    return {
        f"{ours}.norm_before": "input_layernorm",
        f"{ours}.query_down": f"{theirs}.q_a_proj",
        f"{ours}.query_norm": f"{theirs}.q_a_layernorm",
        f"{ours}.query_up": f"{theirs}.{query}",
        (f"{ours}.kv_down", f"{ours}.rope_key"): To(f"{theirs}.kv_a_proj_with_mqa", Rows()),
        f"{ours}.kv_norm": f"{theirs}.kv_a_layernorm",
        (f"{ours}.key_up", f"{ours}.value_up"): To(f"{theirs}.kv_b_proj", GroupedRows(target(f"{ours}.heads"))),
        f"{ours}.output": f"{theirs}.o_proj",
        f"{ours}.choice.query": f"{theirs}.indexer.wq_b",
        f"{ours}.choice.key": f"{theirs}.indexer.wk",
        f"{ours}.choice.norm": f"{theirs}.indexer.k_norm",
        f"{ours}.choice.weights": f"{theirs}.indexer.weights_proj",
    }
