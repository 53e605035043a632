"""BERT for generation: BERT's layers without token types, a causal decoder with a head or a bidirectional encoder."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table, under
from anyformer.huggingface.words.bert_line import ATTENTION, FEEDFORWARD, POST_NORMS
from anyformer.huggingface.words.names import joined
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    LearnedPosition,
    Projection,
    Softmax,
    post_norm,
)


def read(config: Config) -> Architecture:
    config.assume(hidden_size=1024, num_hidden_layers=24)
    side, mask = words.stack_and_mask(config, "is_decoder")
    if side == "encoder" and config.class_name == "BertGenerationDecoder":
        raise HuggingFaceError(
            f"{config.where}: is_decoder = false is not supported for the class BertGenerationDecoder, only true: its head "
            "over tokens that see each other is not known here"
        )
    norm, dropout = words.layer_norm(config, 1e-12), config("hidden_dropout_prob", 0.1)
    heads, rate = config("num_attention_heads", 16), config("attention_probs_dropout_prob", 0.1)
    attention = Attention(heads=heads, mask=mask, project=Projection(bias=words.ALL), weigh=Softmax(dropout=rate))
    layers = words.repeated(config, post_norm(norm, attention, words.plain(config, width=4096), dropout=dropout))
    position = LearnedPosition(length=config("max_position_embeddings", 512))
    around = {"position": position, "input_norm": norm, "dropout": dropout}
    made = words.decoder(config, layers, None, tied=True, vocab=50358, side=side, around=around, bias=True)
    words.headless(config, "BertGenerationEncoder")
    return made if side == "decoder" else made.but(head=None)


def names(architecture: Architecture) -> Names:
    stack = next(iter(architecture.stacks))
    base = "bert." if stack == "decoder" else ""
    # A tied head's bias is stored outside its projection, where an untied head reads nothing.
    bias = "lm_head.bias" if architecture.head is not None and architecture.head.tied else "lm_head.decoder.bias"
    outside: Table = {
        "embedding": "word_embeddings",
        f"{stack}.position": "position_embeddings",
        f"{stack}.input_norm": "LayerNorm",
    }
    head: Table = {"head.weight": "lm_head.decoder.weight", "head.bias": bias}
    layers = joined(ATTENTION, FEEDFORWARD, POST_NORMS)
    return Names({**under(f"{base}embeddings.", outside), **head}, {stack: (base + "encoder.layer.{i}.", layers)})


FAMILIES = (
    Family(
        "bert-generation",
        read,
        names,
        "BertGenerationDecoder",
        base="bert.",
        ignored=(r"lm_head\.(bias|decoder\.(weight|bias))", r"(bert\.)?embeddings\.position_ids"),
    ),
)
