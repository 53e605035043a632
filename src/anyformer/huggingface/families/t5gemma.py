"""T5Gemma: Gemma 2's layers as an encoder and, with cross-attention, as a decoder; one configuration holds one of each."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import window
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, joined
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Causal,
    CrossAttention,
    Embedding,
    Head,
    Projection,
    Score,
    Softmax,
    Stack,
    Window,
    sandwich,
)

_SIDES = ("encoder", "decoder")


def read(config: Config) -> Architecture:
    encoder, decoder = (config.inner(side, side) for side in _SIDES)
    vocab = decoder("vocab_size", at="decoder_embedding.vocab")
    config.put(vocab_size=vocab)
    width = encoder("hidden_size")
    decoder("hidden_size")
    decoder.expect("hidden_size", width, why="both sides have one width here")
    tied, softcap = config("tie_word_embeddings", True), decoder("final_logit_softcapping", 30.0)
    made = Architecture(
        width=width,
        embedding=Embedding(vocab=encoder("vocab_size"), scale="sqrt_width"),
        decoder_embedding=Embedding(vocab=vocab, scale="sqrt_width"),
        encoder=_stack(config, encoder, "encoder"),
        decoder=_stack(config, decoder, "decoder"),
        head=Head(tied=tied, softcap=softcap),
        initialisation=words.initialisation(config),
    )
    encoder.finish((*_INERT, "final_logit_softcapping"))
    decoder.finish(_INERT)
    return made


def _stack(whole: Config, config: Config, side: str) -> Stack:
    """A stack, whose dropout is a key of the whole configuration."""
    encodes = side == "encoder"
    # The class's default; its value must be a number even where no layer is local.
    config.assume(sliding_window=4096)
    size = config("sliding_window", None, lambda target: window(target) - encodes, kind=SIZE)
    masks: dict[str, Any] = {"local": Window(size=size + 1, after=size), "full": Bidirectional()}
    masks = masks if encodes else {"local": Window(size=size), "full": Causal()}
    norm = words.rms_norm(config, gain="one_plus_weight", cast="after_gain")
    dropout = whole("dropout_rate", 0.0, "stack.dropout")
    heads: dict[str, Any] = {
        "heads": config("num_attention_heads"),
        "kv_heads": words.key_value_heads(config, 4),
        "head_width": config("head_dim", 256),
        "project": Projection(bias=words.biases(config)),
        "score": Score(scale=config("query_pre_attn_scalar", 256) ** -0.5, softcap=config("attn_logit_softcapping", 50.0)),
        "weigh": Softmax(dropout=whole("attention_dropout", 0.0)),
    }
    rotary = words.rotary(config)
    network = words.feedforward(config, "hidden_activation", "gelu_pytorch_tanh", dropout=dropout)

    def block(kind: str) -> Block:
        cross = () if encodes else (CrossAttention(**heads),)
        return sandwich(norm, Attention(mask=masks[kind], **heads, place=rotary), *cross, network, dropout=dropout)

    kinds = words.windows(config, words.every(2))
    return words.stacked(words.layered(block, kinds), dropout=dropout, final_norm=norm)


_INERT = ("attention_dropout", "cross_attention_hidden_size", "dropout_rate", "is_decoder", "tie_word_embeddings")
"""Keys that the configuration of a side repeats from the whole one."""
_CROSS: Table = {f"cross_{ours}": str(theirs).replace("self", "cross") for ours, theirs in ATTENTION.items()}
_NORMS: Table = {
    f"{branch}.{place}": f"{theirs}_{called}_layernorm"
    for branch, called in (("attention", "self_attn"), ("cross_attention", "cross_attn"), ("feedforward", "feedforward"))
    for place, theirs in (("norm_before", "pre"), ("norm_after", "post"))
}
_OUTSIDE: Table = {
    "embedding": "model.encoder.embed_tokens",
    "decoder_embedding": "model.decoder.embed_tokens",
    "encoder.final_norm": "model.encoder.norm",
    "decoder.final_norm": "model.decoder.norm",
    "head": "lm_head.out_proj",
}
_LAYER = joined(ATTENTION, _CROSS, FEEDFORWARD, _NORMS)
_NAMES = Names(_OUTSIDE, {side: (f"model.{side}.layers.{{i}}.", _LAYER) for side in _SIDES})
FAMILIES = (
    Family(
        "t5gemma",
        read,
        _NAMES,
        "T5GemmaForConditionalGeneration",
        inert=("classifier_dropout_rate", "vocab_size"),
        ignored=(r"lm_head\.out_proj\.weight",),
    ),
)
