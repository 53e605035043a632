"""The text models of Kosmos 2 and 2.5, which only these composites have: fairseq's sinusoids, and norms inside (Magneto)."""

from __future__ import annotations

from functools import partial

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.fairseq import ATTENTION, FIRST, NORMS
from anyformer.huggingface.words.names import decoder_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Projection,
    SinusoidalPosition,
    Softmax,
    SubNorm,
    pre_norm,
)


def read(inside: bool, config: Config) -> Architecture:
    """`inside`: with a norm of the mixed heads before their projection; else with rows for text and for images (Kosmos 2.5)."""
    config.expect("add_cross_attention", False)
    config.expect("layerdrop", 0.0)
    config.expect("pad_token_id", FIRST - 1, why="positions are counted from the id of padding on")
    norm, dropout = words.layer_norm(config), config("dropout", 0.1)
    heads = Attention(
        heads=config("attention_heads"),
        project=Projection(bias=words.ALL),
        weigh=Softmax(dropout=config("attention_dropout", 0.1)),
        combine=SubNorm.of(norm if inside else None),
    )
    inner = config("activation_dropout", 0.0)
    network = words.plain(config, "gelu", "activation_function", size="ffn_dim", dropout=inner).but(sub_norm=norm)
    layers = words.repeated(config, pre_norm(norm, heads, network, dropout=dropout), "layers")
    position = SinusoidalPosition(layout="halves", spacing="inclusive", offset=FIRST)
    made = words.decoder(
        config,
        layers,
        norm,
        tied=True,
        width="embed_dim",
        unlimited=2048,
        embedding_scale=words.root_scale(config, True),
        starts=words.initialisation(config, key="init_std"),
        around={"position": position, "dropout": dropout},
    )
    return made if inside else made.but(embedding=made.embedding.but(types=2))


_INSIDE: Table = {
    "attention.sub_norm": "self_attn.inner_attn_ln",
    "feedforward.up": "ffn.fc1",
    "feedforward.sub_norm": "ffn.ffn_layernorm",
    "feedforward.down": "ffn.fc2",
}
_NAMES = decoder_names(
    ATTENTION,
    NORMS,
    _INSIDE,
    outside={
        "embedding": "model.embed_tokens",
        "embedding.types": "model.segment_emb.weight",
        "decoder.final_norm": "model.layer_norm",
        "head": "lm_head",
    },
)
_WAVES = (r"model\.embed_positions\.weights",)
FAMILIES = (
    Family("kosmos_2_text_model", partial(read, True), _NAMES, "", ignored=_WAVES),
    Family("kosmos_2_5_text_model", partial(read, False), _NAMES, "", ignored=_WAVES),
)
