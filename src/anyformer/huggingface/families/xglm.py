"""XGLM: fairseq's sinusoids on scaled embeddings, pre-norm with biases."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.fixed_tables import sinusoids
from anyformer.huggingface.words.fairseq import ATTENTION, FIRST, NORMS, PLAIN
from anyformer.huggingface.words.names import decoder_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    LayerNorm,
    Projection,
    SinusoidalPosition,
    Softmax,
    pre_norm,
)


def read(config: Config) -> Architecture:
    config.assume(d_model=1024, num_layers=24)
    config.expect("layerdrop", 0.0)
    config.expect("pad_token_id", 1, 0, None, why="the class leaves out the position of that number")
    rate, dropout, norm = config("attention_dropout", 0.1), config("dropout", 0.1), LayerNorm()
    attention = Attention(heads=config("attention_heads", 16), project=Projection(bias=words.ALL), weigh=Softmax(dropout=rate))
    inner = config("activation_dropout", 0.0)
    network = words.plain(config, "gelu", "activation_function", size="ffn_dim", width=4096, dropout=inner)
    layers = words.repeated(config, pre_norm(norm, attention, network, dropout=dropout), "num_layers")
    # Its sinusoids have no limit of length, so `max_position_embeddings` is none.
    position = SinusoidalPosition(layout="halves", spacing="inclusive", offset=FIRST)
    return words.decoder(
        config,
        layers,
        norm,
        tied=True,
        vocab=256008,
        width="d_model",
        unlimited=2048,
        embedding_scale=words.root_scale(config, True),
        starts=words.initialisation(config, key="init_std"),
        around={"position": position, "dropout": dropout},
    )


_NAMES = decoder_names(
    ATTENTION,
    PLAIN,
    NORMS,
    outside={"embedding": "model.embed_tokens", "decoder.final_norm": "model.layer_norm", "head": "lm_head"},
)
FAMILIES = (
    Family(
        "xglm",
        read,
        _NAMES,
        "XGLMForCausalLM",
        fixed={r"(model\.)?embed_positions\.weights": sinusoids("decoder")},
        base="model.",
    ),
)
