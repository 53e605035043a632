"""Molmo 2's text model: Qwen 3 or OLMo 2 with fused projections, a second table of new tokens, and stretched rotary layers."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import JoinedTables, Names, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import QK_NORM, QKV
from anyformer.model import Architecture
from anyformer.parts import Block, QKNorm, output_norm, pre_norm


def read(config: Config) -> Architecture:
    config.assume(hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, intermediate_size=12_288, vocab_size=151_936)
    after = config("norm_after", False, _normed_after)
    norm, over = words.rms_norm(config), config("qk_norm_type", "qwen3", _layout)
    if over not in _OVER:
        raise HuggingFaceError(f"{config.where}: qk_norm_type = {over!r} is not known here, only {', '.join(_OVER)}")
    rotary, network = words.rotary(config), words.feedforward(config)
    heads = words.attention(
        config,
        kv_heads=8,
        head_width=128,
        bias=words.biases(config, names=words.QKV),
        qk_norm=QKNorm(norm=norm, over=_OVER[over]),
    )
    depth = config("num_hidden_layers")
    stretched = config("rope_scaling_layers", list(range(depth)), _stretched)
    turns = {"stretched": rotary, "plain": rotary.but(scaling=None)}

    def block(kind: str) -> Block:
        return (output_norm if after else pre_norm)(norm, heads.but(rotary=turns[kind]), network)

    kinds = ["stretched" if rotary.scaling is None or i in stretched else "plain" for i in range(depth)]
    vocab = config("vocab_size", at=lambda target: target.get("head.outputs") or target("embedding.vocab"))
    new = config("additional_vocab_size", 128, lambda target: target("embedding.vocab") - vocab)
    made = words.decoder(config, words.layered(block, kinds), norm)
    assert made.head is not None
    head = None if words.headless(config, "Molmo2TextModel") else made.head.but(outputs=vocab)
    return made.but(embedding=made.embedding.but(vocab=vocab + new), head=head)


_OVER: dict[str, Any] = {"qwen3": "head", "olmo": "projection"}


def _layout(target: Target) -> str:
    return "qwen3" if target("attention.qk_norm.over") == "head" else "olmo"


def _normed_after(target: Target) -> bool:
    return target("attention.norm_after") is not None


def _stretched(target: Target) -> list[int]:
    turns = [scaling is not None for scaling in target.each("attention.rotary.scaling")]
    return [i for i, stretched in enumerate(turns) if stretched or not any(turns)]


def names(architecture: Architecture) -> Names:
    """The layout of a file of the text model alone; that of a whole Molmo calls the layers blocks.

    The head has no logits of new tokens, which tells their number; without one the table is halved, as transformers does.
    """
    rows, head = architecture.embedding.symbols or 0, architecture.head
    new = rows // 2 if head is None else rows - architecture.outputs
    tables = To("wte.{x}", JoinedTables((rows - new, new)), each=("embedding", "new_embedding"))
    norms = {f"{ours}.norm_{place}": theirs for ours, theirs in _NORMS.items() for place in ("before", "after")}
    return Names(
        {"embedding.weight": tables, "decoder.final_norm": "norm", "head": "lm_head"},
        {"decoder": ("layers.{i}.", {**_LAYER, **norms})},
    )


_NORMS = {"attention": "attn_norm", "feedforward": "ff_norm"}
_LAYER: Table = {
    QKV: To("self_attn.att_proj", Rows()),
    "attention.output": "self_attn.attn_out",
    **QK_NORM,
    ("feedforward.up", "feedforward.gate"): To("mlp.ff_proj", Rows()),
    "feedforward.down": "mlp.ff_out",
}
FAMILIES = (Family("molmo2_text", read, names, "Molmo2TextModel"),)
