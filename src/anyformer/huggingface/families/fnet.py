"""FNet: BERT with Fourier transforms in place of attention, and a projection behind its embeddings."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import (
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    bert_head,
    encoder,
    encoder_names,
    learned_position,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.model import Architecture
from anyformer.parts import Block, FourierMixing, InputProjection, post_norm

_NORMS: Table = {"step_0_norm_after": "fourier.output.LayerNorm", "step_1_norm_after": "output.LayerNorm"}


def read(config: Config) -> Architecture:
    config.assume(
        vocab_size=32_000, hidden_size=768, num_hidden_layers=12, intermediate_size=3072, hidden_act="gelu_new",
    )  # fmt: skip
    config.expect("use_tpu_fourier_optimizations", False, why="its products with matrices are the same transform")
    norm, dropout = words.layer_norm(config, 1e-12), config("hidden_dropout_prob", 0.1)
    network = words.plain(config)
    block = Block(steps=(*post_norm(norm, FourierMixing()).steps, *post_norm(norm, network, dropout=dropout).steps))
    head = bert_head(config, "FNet", norm)
    return encoder(
        config, block, head, types=4, position=learned_position(config), input_norm=norm, input_projection=InputProjection()
    )


def names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.input_projection": "embeddings.projection"}
    head = head_names(architecture, pooled=("fnet.pooler.dense", "classifier"))
    return encoder_names(architecture, "fnet", outside, head, FEEDFORWARD, _NORMS)


FAMILIES = (Family("fnet", read, names, "FNetForMaskedLM", inert=("tpu_short_seq_length",), ignored=IGNORED),)
