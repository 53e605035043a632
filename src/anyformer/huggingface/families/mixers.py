"""What decoders share whose layers differ in their mixers, or have no experts: words for layers, layers in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import blocks_of, label, layer_words
from anyformer.huggingface.rules import Op, Rows, Shaped, Then
from anyformer.huggingface.spelling import initialisation
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Block, Embedding, FeedForward, Head
from anyformer.parts.norms.norm import Norm

WORDS: Mapping[str, str] = {
    "full_attention": "full",
    "linear_attention": "linear",
    "conv": "convolution",
    "dense": "dense",
    "sparse": "experts",
}
"""Their word for what a layer holds -> ours."""


def words(config: Config, key: str, absent: Callable[[int], str]) -> list[str]:
    """`layer_words` of layers that differ in their mixers."""
    return layer_words(config, absent, key, WORDS)


def kinds(architecture: Architecture, theirs: Mapping[str, str]) -> list[str]:
    """Their word for each layer, by the branch of ours that it has."""
    return [next(word for branch, word in theirs.items() if branch in block.branches) for block in blocks_of(architecture)]


def in_order(
    config: Config, axes: Sequence[Sequence[str]], made: Callable[..., Block], norm: Norm, *, tied: bool = False, **more: Any
) -> Architecture:
    """The decoder whose layer i is `made(*words)`, the i-th words of every axis along which layers differ.

    `tied`: what an absent flag means; `more`: of the embedding's scale, the head, how weights start.
    """
    blocks = [made(*each) for each in zip(*axes, strict=True)]
    return decoder_only(
        Embedding(vocab=config("vocab_size"), scale=float(more.get("scale", 1.0))),
        config("hidden_size"),
        blocks,
        names=Named(dict(zip(label(*axes), blocks, strict=True))),
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", tied), scale=more.get("head_scale", 1.0)),
        initialisation=more.get("starts") or initialisation(config),
    )


def feedforward_width(architecture: Architecture, default: int) -> int:
    """Width of the layers without experts; the default where there are none, and nobody reads it."""
    found: list[FeedForward | Any] = [
        block.branches["feedforward"].sublayer for block in blocks_of(architecture) if "feedforward" in block.branches
    ]
    return found[0].width if found else default


def convolved(kernel: int) -> Op:
    """A short convolution stored as a Conv1d's: (W, 1, n)."""
    return Shaped((-1, 1, kernel))


def joined(kernel: int) -> Op:
    """Several short convolutions in one Conv1d."""
    return Then(Shaped((-1, 1, kernel), (-1, kernel)), Rows())
