"""dots3-note: latent attention with chosen keys or within windows, each with sizes of its own, and DeepSeek-V3's experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import GroupedRows, Names, To
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.latent import indexer
from anyformer.huggingface.words.layers import NETWORKS, types
from anyformer.huggingface.words.names import CORRECTION, FEEDFORWARD, NORMS, OUTSIDE, ROUTED, SHARED, decoder_names
from anyformer.huggingface.words.rope import SHARE, from_table, rope_parameters, to_table
from anyformer.model import Architecture
from anyformer.parts import Gate, LatentAttention, Rotary, Window, pre_norm

INDEXED = "indexed_attention"
_TYPES: Mapping[str, str] = {INDEXED: "chosen", FULL: "full", SLIDING: "local"}
_SIZES: Mapping[str, str] = {
    "num_attention_heads": "heads", "q_lora_rank": "q_rank", "kv_lora_rank": "kv_rank", "qk_nope_head_dim": "nope_width",
    "qk_rope_head_dim": "rope_width", "v_head_dim": "value_width",
}  # fmt: skip
_LOCAL: Mapping[str, int] = {
    "num_attention_heads": 64, "q_lora_rank": 1024, "kv_lora_rank": 1024, "head_dim": 256, "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}  # fmt: skip
"""Sizes of the layers with a window where no key says."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=152_064, hidden_size=5120, num_hidden_layers=46, num_attention_heads=128, intermediate_size=13_824)
    config.put(bos_token_id=None, eos_token_id=None)  # the class's own ids may lie outside a small vocabulary
    config.expect("mlp_bias", False)
    config("q_lora_rank", 1024, kind=SIZE)
    norm, kinds, networks = words.rms_norm(config, 1e-5), _kinds(config), _networks(config)
    attentions = _attentions(config, kinds)
    routed = words.experts(
        config, words.v3_router(config), count=256, chosen=8, width=1536, counted=("n_routed_experts", "num_local_experts")
    )
    each = config("shared_experts_intermediate_size", 1536, "experts.shared.feedforward.width")
    each = config("moe_shared_expert_intermediate_size", each, nowhere)  # which replaces the key of today in transformers
    shared = words.shared_expert(config("n_shared_experts", 1, lambda _: 1, kind=SIZE) * each, routed.activation)
    parts = {"experts": routed.but(shared=shared), "dense": words.feedforward(config)}
    layers = words.layered(lambda kind, mlp: pre_norm(norm, attentions[kind], parts[mlp]), kinds, networks)
    return words.decoder(config, layers, norm)


def _kinds(config: Config) -> list[str]:
    """`chosen`, `full` or `local` for every layer; files without sizes by layer call the first of them full attention."""
    slides = config("use_sliding_window", True, nowhere)
    chooses = config("use_dsa", None if config("per_layer_config", None, _written_sizes) is not None else True, nowhere)
    wide = FULL if chooses is False else INDEXED
    found = types(config, lambda i: wide if not slides or i < 2 or i % 4 == 1 else SLIDING, known=_TYPES, at=_written_types)
    meant = {} if chooses is None or config.target is not None else {"full": _TYPES[wide], "chosen": _TYPES[wide]}
    return [meant.get(kind, kind) for kind in found]


def _networks(config: Config) -> list[str]:
    first, every = config("first_k_dense_replace", 1, nowhere), config("moe_layer_freq", 1, nowhere)

    def absent(layer: int) -> str:
        sparse = not layer % every if isinstance(every, int) else layer < len(every) and every[layer]
        return "sparse" if layer >= first and sparse else "dense"

    return types(config, absent, "mlp_layer_types", NETWORKS)


def _attentions(config: Config, kinds: Sequence[str]) -> dict[str, LatentAttention]:
    """The attention of each kind of layer that there is."""
    norm, sizes = words.rms_norm(config, 1e-5), _sizes(config, kinds)
    base = words.latent_attention(config, q_rank=1024, rotates=False).but(
        norm=norm, rope_norm=norm, gate=Gate(per="head"), aligned_to="width"
    )
    window = config("sliding_window", config("sliding_window_size", 512, nowhere), _window)
    found = {}
    for kind, rotary in _rotary(config, kinds).items():
        attention = base.but(rotary=rotary, **sizes[kind])
        if kind == "local":
            attention = attention.but(mask=Window(size=window))
        if kind == "chosen":
            attention = attention.but(choice=indexer(config, attention, heads=64, pairing="adjacent"))
        found[kind] = attention
    return found


def _sizes(config: Config, kinds: Sequence[str]) -> dict[str, dict[str, int]]:
    """The sizes of each kind of layer that are not the model's own, from the tables by layer or the older `swa_` keys."""
    named, local = config("per_layer_config", None, _written_sizes), {}
    for key, usual in _LOCAL.items():
        local[key] = config(f"swa_{key}", usual, nowhere)
    config.expect("swa_num_key_value_heads", local["num_attention_heads"])
    local["qk_rope_head_dim"] = config("swa_qk_rope_head_dim", local["head_dim"] - local["qk_nope_head_dim"], nowhere)
    if local["qk_rope_head_dim"] < 1:
        raise HuggingFaceError(
            f"{config.where}: swa_head_dim = {local['head_dim']} leaves no features to rotate beside swa_qk_nope_head_dim = "
            f"{local['qk_nope_head_dim']}"
        )
    by_layer = {i: local for i, kind in enumerate(kinds) if kind == "local"} if named is None else _numbered(config, named)
    found: dict[str, dict[str, int]] = {}
    for i, kind in enumerate(kinds):
        table = by_layer.get(i, {})
        if not isinstance(table, Mapping) or not all(SIZE.fits(value) for value in table.values()):
            raise config.refused(f"per_layer_config.{i}", table, "sizes of a layer")
        ours = {_SIZES[key]: value for key, value in table.items() if key in _SIZES}
        if strange := sorted(set(table) - {*_SIZES, "num_key_value_heads", "head_dim"}):
            raise HuggingFaceError(f"{config.where}: per_layer_config.{i} has {', '.join(strange)}, which no layer can change")
        if found.setdefault(kind, ours) != ours:
            raise HuggingFaceError(f"{config.where}: per_layer_config.{i} differs from that of earlier layers of its type")
    return found


def _numbered(config: Config, tables: Mapping[str, Any]) -> dict[int, Any]:
    """The tables by number of layer, which files may write with zeros before it: `02`."""
    strange = [name for name in tables if not str(name).isdigit()]
    if strange:
        raise HuggingFaceError(f"{config.where}: per_layer_config should have numbers of layers, not {', '.join(strange)}")
    return {int(name): table for name, table in tables.items()}


def _rotary(config: Config, kinds: Sequence[str]) -> dict[str, Rotary]:
    """The rotary positions of each kind of layer: of a table by type, or one table for all, or the older keys."""
    tables = config("rope_parameters", None, _written_rotary) or config("rope_scaling", None, nowhere) or {}
    nested, length = any(name in tables for name in _TYPES), config("max_position_embeddings", None, nowhere)
    wide, own = config("rope_theta", 8e7, nowhere), config("swa_rope_theta", 5e4, nowhere)
    local = wide if tables and not nested else own  # one table for all has one theta
    found = {}
    for name, kind in _TYPES.items():
        if kind in kinds:
            alone = Config({"rope_parameters": dict(tables.get(name) or {}) if nested else dict(tables)}, config.where)
            alone.assume(max_position_embeddings=length)
            table = rope_parameters(alone, theta=local if kind == "local" else wide)
            found[kind] = from_table(table, unread=(SHARE,), pairing="adjacent")
    return found


def _kind_of(attention: LatentAttention) -> str:
    """The type of a layer in `layer_types`."""
    return SLIDING if attention.mask.window else FULL if attention.choice is None else INDEXED


def _written_types(target: Target) -> list[str]:
    return [_kind_of(each) for each in target.each("latent_attention.sublayer")]


def _written_rotary(target: Target) -> dict[str, Any]:
    return {_kind_of(each): to_table(each.rotary) for each in target.each("latent_attention.sublayer")}


def _window(target: Target) -> int | None:
    windows = [each.window for each in target.each("latent_attention.mask") if each.window]
    return windows[0] if windows else None


def _written_sizes(target: Target) -> dict[str, dict[str, Any]]:
    """The sizes of layers that are not the first one's, which stand outside."""
    first, tables = target("latent_attention.sublayer"), {}
    for i, each in enumerate(target.each("latent_attention.sublayer")):
        plain = {theirs: each.plain().get(ours) for theirs, ours in _SIZES.items()}
        if any(each.plain().get(ours) != first.plain().get(ours) for ours in _SIZES.values()):
            tables[str(i)] = {**plain, "num_key_value_heads": each.heads, "head_dim": each.query_width}
    return tables


def names(architecture: Architecture) -> Names:
    own = {
        "latent_attention.gate.projection": "self_attn.g_proj",
        "latent_attention.rope_norm": "self_attn.k_rope_only_layernorm",
    }
    together = ("latent_attention.key_up", "latent_attention.value_up")
    latent = {ours: theirs for ours, theirs in words.latent_names(architecture).items() if ours != together}
    # Keys and values alternate head by head, of which each kind of layer has a number of its own.
    expanded = {
        tuple(f"decoder.layers.{i}.{part}" for part in together): To(
            f"model.layers.{i}.self_attn.kv_b_proj", GroupedRows(each.heads)
        )
        for i, each in enumerate(Target(architecture).each("latent_attention.sublayer"))
    }
    outside = {**OUTSIDE, **expanded}
    return decoder_names(latent, own, ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS, outside=outside)


FAMILIES = (
    Family(
        "dots3_note_text",
        read,
        names,
        "Dots3NoteForCausalLM",
        # The widths of heads follow from others; those of an indexer mean nothing where no layer has one.
        inert=("head_dim", "index_head_dim", "index_n_heads", "index_topk", "scoring_func", "topk_method"),
        ignored=(r"model\.layers\.46\..*", r"model\.mtp\..*"),
    ),
)
