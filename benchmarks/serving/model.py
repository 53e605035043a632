"""The model that every server has: a Llama of random weights with a tokenizer, as a directory and as a GGUF file."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import torch

import anyformer as af
from anyformer.catalogue.llama import llama
from anyformer.data import BytePairs
from anyformer.data.vocabulary import make_tokenizer
from anyformer.text import Specials, Tokenizer
from anyformer.text.specials import SPEAKING

MODULES = (
    "argparse", "asyncio.events", "collections", "configparser", "csv", "datetime", "difflib", "doctest", "enum", "functools",
    "inspect", "json.decoder", "logging", "optparse", "pathlib", "pickle", "random", "statistics", "subprocess", "tarfile",
    "textwrap", "threading", "turtle", "typing", "unittest.mock", "urllib.request", "zipfile",
)  # fmt: skip
"""Modules of Python's library, whose source is the text of prompts."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama; `sharp`: factor of its matrices, so that it prefers some tokens clearly."""

    width: int = 768
    depth: int = 12
    heads: int = 12
    kv_heads: int = 4
    ffn: int = 2432
    vocab: int = 8192
    sharp: float = 2.0
    speaks: bool = False
    """Whether its tokenizer writes chats."""


SMALL = Shape(width=64, depth=2, heads=4, kv_heads=2, ffn=128, vocab=512)
TALKER = replace(SMALL, speaks=True)
SHAPES = {"85m": Shape(), "small": SMALL}


def source_text() -> Iterator[str]:
    """The source of the modules."""
    for name in MODULES:
        yield inspect.getsource(import_module(name))


def written(place: Path, shape: Shape, *, gguf: bool) -> Tokenizer:
    """The model in a folder, as `model` and where asked for as `model.gguf`; what is there stays."""
    specials = Specials(roles=SPEAKING) if shape.speaks else Specials()
    words = make_tokenizer(BytePairs(vocab=shape.vocab), source_text, list, specials)
    if (place / "model").exists() and ((place / "model.gguf").exists() or not gguf):
        return words
    made = af.build(
        llama(
            width=shape.width, depth=shape.depth, heads=shape.heads, kv_heads=shape.kv_heads, ffn=shape.ffn,
            vocab=words.vocab_size, tied=True,
        ),
        seed=0,
    ).eval()  # fmt: skip
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim > 1:
                parameter.mul_(shape.sharp)
        # llama.cpp's server fails on a text that ends within a character, and special tokens show nothing: such tokens are
        # never the likeliest.
        shown = [words.decode([token]) for token in range(words.vocab_size)]
        made.get_parameter("embedding.weight")[
            [place for place, text in enumerate(shown) if not text or not text.isascii()]
        ] = 0
    shutil.rmtree(place / "model", ignore_errors=True)
    af.export(made, place / "model", tokenizer=words)
    if gguf:
        (place / "model.gguf").unlink(missing_ok=True)
        af.export_gguf(made, place / "model.gguf", tokenizer=words)
    return words


def prompts(words: Tokenizer, count: int, tokens: int) -> list[str]:
    """So many texts of about as many tokens, none of which begins as another."""
    whole = words.encode("\n".join(source_text()))
    step = max(1, (len(whole) - tokens) // count)
    return [words.decode(whole[first : first + tokens]) for first in range(0, step * count, step)][:count]
