"""Nyströmformer where its attention is exact: BERT whose heads add a convolution of their values."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shaped, To
from anyformer.huggingface.target import Target
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
from anyformer.parts import LearnedPosition, Transform, ValueConvolution, post_norm


def read(config: Config) -> Architecture:
    config.assume(
        vocab_size=30_000, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        hidden_act="gelu_new", type_vocab_size=2,
    )  # fmt: skip
    config.put(num_landmarks=64, segment_means_seq_len=64)
    landmarks, length = config("num_landmarks", 64), config("segment_means_seq_len", 64)
    if landmarks != length:
        raise HuggingFaceError(
            f"{config.where}: num_landmarks = {landmarks} for texts of segment_means_seq_len = {length} tokens: attention by "
            f"landmarks is not known here; where both are equal, attention is exact"
        )
    norm = words.layer_norm(config, 1e-5)
    kernel = config("conv_kernel_size", 65, "attention.value_convolution.kernel")
    attention, network = bert_sublayers(config, value_convolution=ValueConvolution(kernel=kernel))
    block = post_norm(norm, attention, network, dropout=config("hidden_dropout_prob", 0.1))
    head = bert_head(config, "Nystromformer", norm, pooled=Transform(activation=network.activation))
    position = LearnedPosition(length=config("max_position_embeddings", 510), offset=2)
    return encoder(config, block, head, position=position, input_norm=norm)


def names(architecture: Architecture) -> Names:
    kernel = Target(architecture)("attention.value_convolution.kernel")
    convolution = {"attention.value_convolution.weight": To("attention.self.conv.weight", Shaped((-1, 1, kernel, 1)))}
    head = head_names(architecture, pooled=POOLED)
    return encoder_names(architecture, "nystromformer", EMBEDDINGS, head, ATTENTION, convolution, FEEDFORWARD, POST_NORMS)


FAMILIES = (
    Family(
        "nystromformer",
        read,
        names,
        "NystromformerForMaskedLM",
        inert=("inv_coeff_init_option",),
        ignored=IGNORED,
    ),
)
