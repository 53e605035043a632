"""CTRL: fixed sinusoids on embeddings scaled by sqrt(D), pre-norm, a bias on the logits."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.fixed_tables import sinusoids
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.gpt_line import BASE, INERT, gpt_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    FeedForward,
    LayerNorm,
    Projection,
    SinusoidalPosition,
    pre_norm,
)

_OUTSIDE: Table = {"embedding": "transformer.w", "decoder.final_norm": "transformer.layernorm", "head": "lm_head"}
_LAYERS: Table = {
    "attention.norm_before": "layernorm1",
    "feedforward.norm_before": "layernorm2",
    **{f"attention.{side}": f"multi_head_attention.W{side[0]}" for side in words.QKV},
    "attention.output": "multi_head_attention.dense",
    "feedforward.up": "ffn.0",
    "feedforward.down": "ffn.2",
}


def read(config: Config) -> Architecture:
    config.assume(n_embd=1280, n_layer=48)
    network = FeedForward(width=config("dff", 8192), activation="relu", gated=False, bias=("up", "down"))
    attention = Attention(heads=config("n_head", 16), project=Projection(bias=words.ALL))
    block = pre_norm(LayerNorm(eps=1e-6), attention, network, dropout=config("resid_pdrop", 0.1))
    position = SinusoidalPosition(layout="halves", length=config("n_positions", 256))
    return words.decoder(
        config,
        words.repeated(config, block, "n_layer"),
        words.layer_norm(config, 1e-6, "layer_norm_epsilon"),
        tied=True,
        vocab=246534,
        width="n_embd",
        length="n_positions",
        embedding_scale="sqrt_width",
        around={"position": position, "dropout": config("embd_pdrop", 0.1)},
        bias=True,
    )


FAMILIES = (
    Family(
        "ctrl",
        read,
        gpt_names(_LAYERS, outside=_OUTSIDE),
        "CTRLLMHeadModel",
        inert=(*INERT, "attn_pdrop", "from_tf"),
        fixed={r"(transformer\.)?pos_encoding": sinusoids("decoder")},
        base=BASE,
    ),
)
