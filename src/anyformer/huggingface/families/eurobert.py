"""EuroBERT: Llama's blocks with bidirectional attention."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import encoder_names
from anyformer.huggingface.words.encoder_heads import head_of
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS
from anyformer.model import Architecture
from anyformer.parts import Bidirectional, Head, pre_norm


def read(config: Config) -> Architecture:
    # The table must have a row for this id, which transformers treats specially.
    config.put(pad_token_id=lambda target: min(128_001, target("embedding.vocab") - 1))
    norm, bias = words.rms_norm(config, 1e-5), config("mlp_bias", False)
    heads = words.attention(config, rotary=words.rotary(config), mask=Bidirectional())
    block = pre_norm(norm, heads, words.feedforward(config, bias=bias))
    made = words.decoder(config, words.repeated(config, block), norm, side="encoder")
    masked = Head(tied=config("tie_word_embeddings", False), bias=bias)
    return made.but(head=head_of(config, "EuroBert", {"ForMaskedLM": masked}))


def names(architecture: Architecture) -> Names:
    head: Table = {"head": "lm_head"} if architecture.head else {}
    outside: Table = {"embedding": "embed_tokens", "encoder.final_norm": "norm"}
    return encoder_names(architecture, "model", outside, head, ATTENTION, FEEDFORWARD, NORMS, path="layers.{i}.")


FAMILIES = (Family("eurobert", read, names, "EuroBertForMaskedLM", inert=("classifier_pooling", "mask_token_id")),)
