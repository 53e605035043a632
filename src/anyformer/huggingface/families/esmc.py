"""ESM C: proteins by a bidirectional Llama with LayerNorms, normed projections of queries and keys, and scaled branches."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.encoder_heads import classes, head_of
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM
from anyformer.model import Architecture
from anyformer.parts import Bidirectional, Head, LayerNorm, QKNorm, Transform, pre_norm

_NORM = LayerNorm(eps=1e-5)
_LAYERS = 36
"""The depth at which branches are added as they are: others are multiplied by (36 / L)^0.5."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=64, hidden_size=2560, intermediate_size=6912, num_hidden_layers=80, num_attention_heads=40)
    config.assume(tie_word_embeddings=False)
    config.expect("tie_word_embeddings", False, why="the class never ties them")
    config.put(pad_token_id=1)
    norm = QKNorm(norm=_NORM.but(bias=False), over="projection")
    attends = words.attention(config, rotary=words.rotary(config), mask=Bidirectional(), qk_norm=norm)
    if attends.groups != attends.heads:
        raise HuggingFaceError(
            f"{config.where}: num_key_value_heads should be num_attention_heads, which ESM C has no other of"
        )
    scale = (_LAYERS / config("num_hidden_layers")) ** 0.5
    block = pre_norm(_NORM, attends, words.feedforward(config, bias=config("mlp_bias", False)), multiplier=scale)
    made = words.decoder(config, words.repeated(config, block), _NORM.but(bias=False), side="encoder")
    heads = {
        "ForMaskedLM": Head(bias=True, transform=Transform(activation="gelu", norm=_NORM)),
        "ForSequenceClassification": classes(config, pool="first", transform=Transform(activation="tanh")),
        "ForTokenClassification": classes(config),
    }
    return made.but(head=head_of(config, "Esmc", heads))


def names(architecture: Architecture) -> Names:
    head, base = architecture.head, "esmc." if architecture.head else ""
    outside: Table = {"embedding": f"{base}embed_tokens", "encoder.final_norm": f"{base}norm"}
    if head is not None and head.outputs is None:
        dense = {"head.transform.dense": "lm_head.dense", "head.transform.norm": "lm_head.layer_norm"}
        outside = {**outside, **dense, "head": "lm_head.decoder"}
    elif head is not None and head.pool is not None:
        outside = {**outside, "head.transform.dense": "classifier.dense", "head": "classifier.out_proj"}
    elif head is not None:
        outside = {**outside, "head": "score"}
    layer = {**ATTENTION, **QK_NORM, **FEEDFORWARD, **NORMS}
    return Names(outside, {"encoder": (base + "layers.{i}.", layer)})


FAMILIES = (Family("esmc", read, names, "EsmcForMaskedLM", inert=("mask_token_id", "classifier_dropout"), base="esmc."),)
