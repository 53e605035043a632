"""MPT: ALiBi, no bias anywhere, queries, keys and values one after the other."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.words.names import QKV, decoder_names
from anyformer.model import Architecture
from anyformer.parts import (
    ALiBi,
    Attention,
    Clip,
    FeedForward,
    Projection,
    Score,
    pre_norm,
)

_OUTSIDE: Table = {"embedding": "transformer.wte", "decoder.final_norm": "transformer.norm_f", "head": "lm_head"}
_LAYERS: Table = {
    "attention.norm_before": "norm_1",
    "feedforward.norm_before": "norm_2",
    QKV: To("attn.Wqkv", Rows()),
    "attention.output": "attn.out_proj",
    "feedforward.up": "ffn.up_proj",
    "feedforward.down": "ffn.down_proj",
}


def read(config: Config) -> Architecture:
    config.assume(d_model=2048, n_layers=24)
    config.put(max_seq_len=lambda target: target.stack.max_length or 8192)
    config.expect_all(expansion_ratio=4, no_bias=True, embedding_fraction=1.0, logit_scale=None)
    norm = words.layer_norm(config, key="layer_norm_epsilon", bias=False)
    network = FeedForward(width=4 * config("d_model"), activation="gelu", gated=False)
    layers = words.repeated(config, pre_norm(norm, _attention(config), network), "n_layers")
    return words.decoder(config, layers, norm, tied=True, vocab=50368, width="d_model", length=None)


def _attention(config: Config) -> Attention:
    """Attention by the table `attn_config`; keys that only MPT's own code reads must have the released values."""
    inner = config.inner("attn_config")
    inner.expect_all(attn_type="multihead_attention", alibi=True, alibi_bias_max=8)
    inner.expect_all(prefix_lm=False, qk_ln=False, attn_uses_sequence_id=False)
    inner.expect("attn_pdrop", 0, why="its configuration class takes whole numbers only")
    clip, scale = inner("clip_qkv", None) or None, inner("softmax_scale", None, "attention.scale")
    inner.finish(("attn_impl",))
    return Attention(
        heads=config("n_heads", 16), project=Projection(adjust=Clip.of(clip)), score=Score(scale=scale, terms=ALiBi())
    )


_NAMES = decoder_names(_LAYERS, outside=_OUTSIDE, prefix="transformer.blocks.{i}.")
_INERT = (
    "max_seq_len", "learned_pos_emb", "norm_type", "init_device", "init_config", "verbose", "tokenizer_name", "emb_pdrop",
    "resid_pdrop",
)  # fmt: skip
"""Keys that its class does not read, and the length of its table of distances."""
FAMILIES = (Family("mpt", read, _NAMES, "MptForCausalLM", inert=_INERT, base="transformer."),)
