"""Llama 3.2 Vision's text: Llama, of whose layers some read an image alone, and without one are passed over."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.text_alone import MLLAMA_READS_IMAGES
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm

_SEES = "cross_attention_layers"
IMAGE_TOKENS = 8
"""Rows of the table beyond the vocabulary: the places of images, which are read and never predicted."""


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8, vocab_size=128_256)
    norm, depth = words.rms_norm(config, 1e-5), config("num_hidden_layers", 40)
    heads = words.attention(config, bias=(), dropout=config("dropout", 0.0), rotary=words.rotary(config, theta=5e5))
    passed = config(_SEES, MLLAMA_READS_IMAGES, lambda target: [])
    if wrong := [i for i in passed if not 0 <= i < depth]:
        raise HuggingFaceError(f"{config.where}: {_SEES} names layer {wrong[0]}, and there are {depth}, counted from 0")
    layers = words.repeated(config, pre_norm(norm, heads, words.feedforward(config)))[: depth - len(set(passed))]
    if not layers:
        raise HuggingFaceError(f"{config.where}: {_SEES} names all {depth} layers, and text alone goes through none of them")
    vocab = config("vocab_size")
    made = words.decoder(config, layers, norm, outputs=vocab)
    return made.but(embedding=made.embedding.but(vocab=vocab + IMAGE_TOKENS))


FAMILIES = (Family("mllama_text_model", read, decoder_names(ATTENTION, FEEDFORWARD, NORMS), ""),)
