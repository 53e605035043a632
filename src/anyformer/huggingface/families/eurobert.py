"""EuroBERT: Llama's blocks with bidirectional attention."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config, shown
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import encoder_names
from anyformer.huggingface.words.encoder_heads import classes, head_of, tie_of_masked
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS
from anyformer.model import Architecture
from anyformer.parts import Bidirectional, Head, Transform, pre_norm

_POOLS = {"bos": "first", "mean": "mean"}


def read(config: Config) -> Architecture:
    # The table must have a row for this id, which transformers treats specially.
    config.put(pad_token_id=lambda target: min(128_001, target("embedding.vocab") - 1))
    norm, bias = words.rms_norm(config, 1e-5), config("mlp_bias", False)
    heads = words.attention(config, rotary=words.rotary(config), mask=Bidirectional())
    block = pre_norm(norm, heads, words.feedforward(config, bias=bias))
    made = words.decoder(config, words.repeated(config, block), norm, side="encoder")
    of_classes = {
        "ForMaskedLM": Head(tied=config("tie_word_embeddings", False, tie_of_masked), bias=bias),
        "ForSequenceClassification": classes(config, pool=_pool(config), transform=Transform(activation="gelu")),
        "ForTokenClassification": classes(config),
    }
    return made.but(head=head_of(config, "EuroBert", of_classes))


def _pool(config: Config) -> str:
    """How one x is made of a text's."""
    back = {ours: theirs for theirs, ours in _POOLS.items()}
    named = config("classifier_pooling", "late", lambda target: back.get(target("head.pool"), "late"))
    if named not in _POOLS and config.task == "ForSequenceClassification":
        raise HuggingFaceError(
            f"{config.where}: classifier_pooling = {shown(named)}: the mean behind the dense layer is not known here, only "
            f"{' and '.join(_POOLS)}"
        )
    return _POOLS.get(named, "mean")


def names(architecture: Architecture) -> Names:
    head: Table = {"head": "lm_head"} if architecture.head else {}
    if architecture.head and architecture.head.outputs is not None:
        head = {"head.transform.dense": "dense", "head": "classifier"}
    outside: Table = {"embedding": "embed_tokens", "encoder.final_norm": "norm"}
    return encoder_names(architecture, "model", outside, head, ATTENTION, FEEDFORWARD, NORMS, path="layers.{i}.")


FAMILIES = (Family("eurobert", read, names, "EuroBertForMaskedLM", inert=("mask_token_id",)),)
