"""DistilBERT: BERT without types of segments, with names of its own."""

from __future__ import annotations

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import encoder_names, learned_position
from anyformer.huggingface.words.encoder_heads import encoder_head, head_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Embedding,
    LayerNorm,
    Projection,
    Softmax,
    Transform,
    post_norm,
)

_OUTSIDE: Table = {
    "embedding": "embeddings.word_embeddings",
    "encoder.position": "embeddings.position_embeddings",
    "encoder.input_norm": "embeddings.LayerNorm",
}
_LAYER: Table = {
    **{f"attention.{side}": f"attention.{side[0]}_lin" for side in words.QKV},
    "attention.output": "attention.out_lin",
    "step_0_norm_after": "sa_layer_norm",
    "feedforward.up": "ffn.lin1",
    "feedforward.down": "ffn.lin2",
    "step_1_norm_after": "output_layer_norm",
}


def read(config: Config) -> Architecture:
    config.assume(n_layers=6)
    norm, dropout, rate = LayerNorm(eps=1e-12), config("dropout", 0.1), config("attention_dropout", 0.1)
    attention = Attention(
        heads=config("n_heads", 12), mask=Bidirectional(), project=Projection(bias=words.ALL), weigh=Softmax(dropout=rate)
    )
    network = words.plain(config, "gelu", "activation", size="hidden_dim", width=3072)
    # The output of attention has no dropout.
    block = change(post_norm(norm, attention, network), "feedforward.dropout", dropout)
    transform, pooled = Transform(activation=network.activation, norm=norm), Transform(activation="relu")
    around = {"position": learned_position(config), "input_norm": norm, "dropout": dropout}
    return Architecture(
        width=config("dim", 768),
        embedding=Embedding(vocab=config("vocab_size", 30522)),
        encoder=words.stacked(words.repeated(config, block, "n_layers"), **around),
        head=encoder_head(config, "DistilBert", transform, pooled=pooled),
        initialisation=words.initialisation(config),
    )


def names(architecture: Architecture) -> Names:
    modules = ("vocab_transform", "vocab_layer_norm", "vocab_projector")
    head = head_names(architecture, modules, "vocab_projector.bias", ("pre_classifier", "classifier"))
    return encoder_names(architecture, "distilbert", _OUTSIDE, head, _LAYER, path="transformer.layer.{i}.")


FAMILIES = (
    Family(
        "distilbert",
        read,
        names,
        "DistilBertForMaskedLM",
        inert=("qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"),
        ignored=(r".*position_ids", r"vocab_projector\.weight"),
    ),
)
