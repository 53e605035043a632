"""MPT: ALiBi, no bias anywhere, queries, keys and values one after the other."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.gpt2 import QKV
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.spelling import initialisation, longest
from anyformer.model import Architecture, decoder_only
from anyformer.parts import ALiBi, Attention, Embedding, FeedForward, Head, LayerNorm, pre_norm

OUTSIDE: Table = {"embedding": "transformer.wte", "decoder.final_norm": "transformer.norm_f", "head": "lm_head"}
LAYERS: Table = {
    "attention.norm_before": "norm_1",
    "feedforward.norm_before": "norm_2",
    QKV: To("attn.Wqkv", Rows()),
    "attention.output": "attn.out_proj",
    "feedforward.up": "ffn.up_proj",
    "feedforward.down": "ffn.down_proj",
}
INERT = (
    "max_seq_len", "learned_pos_emb", "norm_type", "init_device", "init_config", "verbose", "tokenizer_name", "emb_pdrop",
    "resid_pdrop",
)  # fmt: skip
"""Its class reads none of these but the length of its table of distances; it has no learned positions beside ALiBi."""


def read(config: Config) -> Architecture:
    width = config("d_model", 2048)
    attention = read_attention(config, config("n_heads", 16))
    config.expect("expansion_ratio", 4)
    config.expect("no_bias", True)
    config.expect("embedding_fraction", 1.0)
    config.expect("logit_scale", None)
    norm = LayerNorm(eps=config("layer_norm_epsilon", 1e-5), bias=False)
    feedforward = FeedForward(width=4 * width, activation="gelu", gated=False)
    return decoder_only(
        Embedding(vocab=config("vocab_size", 50368)),
        width,
        [pre_norm(norm, attention, feedforward)] * config("n_layers", 24),
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config),
    )


def read_attention(config: Config, heads: int) -> Attention:
    """From the table `attn_config`. What transformers' class ignores in it but MPT's own code obeys must be as released."""
    table = Config({"model_type": config.model_type, **_named(config("attn_config", None))}, f"{config.where}: attn_config")
    table.expect("attn_type", "multihead_attention")
    table.expect("alibi", True)
    table.expect("alibi_bias_max", 8)
    for name in ("prefix_lm", "qk_ln", "attn_uses_sequence_id"):
        table.expect(name, False)
    table.expect("attn_pdrop", 0, why="its configuration class takes whole numbers only")
    attention = Attention(
        heads=heads,
        score_bias=ALiBi(),
        clip=table("clip_qkv", None) or None,
        scale=table("softmax_scale", None),
    )
    table.finish(("attn_impl",))
    return attention


def _named(table: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (table or {}).items() if name != "model_type"}


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, "decoder.layer.attention.sublayer")
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "d_model": architecture.width,
        "n_layers": architecture.output_stack.depth,
        "n_heads": attention.heads,
        "max_seq_len": longest(architecture, 8192),
        "attn_config": {"clip_qkv": attention.clip, "softmax_scale": attention.scale},
        "layer_norm_epsilon": get(architecture, "decoder.final_norm.eps"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


FAMILIES = (
    Family(
        "mpt",
        read,
        write,
        lambda architecture: Names(OUTSIDE, {"decoder": ("transformer.blocks.{i}.", LAYERS)}),
        "MptForCausalLM",
        inert=INERT,
        base="transformer.",
    ),
)
