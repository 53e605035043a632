"""YOSO by the weights that its hashes have in the mean: BERT whose keys are weighed by collisions, heads of length 1."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    bert_head,
    bert_sublayers,
    encoder,
    encoder_names,
)
from anyformer.huggingface.words.encoder_heads import POOLED, head_names
from anyformer.model import Architecture
from anyformer.parts import Collisions, LearnedPosition, MixedNorm, QKNorm, RMSNorm, Transform, post_norm

_LEAST = 1e-24
"""transformers divides by the length of a vector, without an epsilon that is felt."""


def read(config: Config) -> Architecture:
    config.assume(
        vocab_size=50_265, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        max_position_embeddings=4096, type_vocab_size=1,
    )  # fmt: skip
    config.expect("use_expectation", True, why="hashes that are drawn in every call are not known here")
    config.expect_all(conv_window=None, add_cross_attention=False)
    config("attention_probs_dropout_prob", 0.1)  # of a layer that the class makes and never calls
    norm, unit = words.layer_norm(config, 1e-12), RMSNorm(eps=_LEAST, gain="none")
    weigh = Collisions(bits=config("hash_code_len", 9, "attention.weigh.bits"))
    attention, network = bert_sublayers(config, dropout=0.0, weigh=weigh, qk_norm=QKNorm(norm=unit))
    width = words.head_width(config, config("hidden_size"), attention.heads)
    attention = attention.but(scale=1 / width, mixed_norm=MixedNorm(norm=unit, factor=width**-0.5))
    block = post_norm(norm, attention, network, dropout=config("hidden_dropout_prob", 0.1))
    head = bert_head(config, "Yoso", norm, pooled=Transform(activation=network.activation))
    position = LearnedPosition(length=config("max_position_embeddings", 4096), offset=2)
    return encoder(config, block, head, types=1, position=position, input_norm=norm)


def names(architecture: Architecture) -> Names:
    head = head_names(architecture, pooled=POOLED)
    return encoder_names(architecture, "yoso", EMBEDDINGS, head, ATTENTION, FEEDFORWARD, POST_NORMS)


FAMILIES = (
    Family(
        "yoso",
        read,
        names,
        "YosoForMaskedLM",
        inert=("lsh_backward", "num_hash", "use_fast_hash"),
        ignored=IGNORED,
    ),
)
