"""The three usual shapes of an architecture, each from its layers; and a sparse dictionary alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Unpack

from anyformer.describe import Named
from anyformer.model.architecture import Architecture
from anyformer.parts.dictionary.dictionary import Dictionary
from anyformer.parts.embedding.activations import ActivationInput
from anyformer.parts.embedding.embedding import Embedding, Input
from anyformer.parts.embedding.head import Head
from anyformer.parts.initialisation import Initialisation, Normal
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.multi_token import MultiToken
from anyformer.parts.layers.stack import Stack
from anyformer.parts.layers.step import Step
from anyformer.parts.layers.wiring import StackOptions, stack


def decoder_only(
    embedding: Embedding,
    width: int,
    layers: Iterable[Block],
    *,
    names: Named[Block] | None = None,
    embedding_width: int | None = None,
    head: Head | None = None,
    mtp: MultiToken | None = None,
    initialisation: Initialisation | None = None,
    **options: Unpack[StackOptions],
) -> Architecture:
    """A language model: `layers` from first to last, masked as their attention says (causal by default)."""
    return Architecture(
        width=width,
        embedding=embedding,
        embedding_width=embedding_width,
        decoder=stack(layers, names=names, **options),
        head=head or Head(),
        mtp=mtp,
        initialisation=initialisation or Initialisation(),
    )


def encoder_only(
    embedding: Input,
    width: int,
    layers: Iterable[Block],
    *,
    names: Named[Block] | None = None,
    embedding_width: int | None = None,
    head: Head | None = None,
    initialisation: Initialisation | None = None,
    **options: Unpack[StackOptions],
) -> Architecture:
    """An encoder: give its attention a bidirectional mask. Without a head it returns features."""
    return Architecture(
        width=width,
        embedding=embedding,
        embedding_width=embedding_width,
        encoder=stack(layers, names=names, **options),
        head=head,
        initialisation=initialisation or Initialisation(),
    )


def encoder_decoder(
    embedding: Input,
    width: int,
    encoder: Stack,
    decoder: Stack,
    *,
    decoder_embedding: Embedding | None = None,
    source: Literal["attended", "prefix"] = "attended",
    head: Head | None = None,
    initialisation: Initialisation | None = None,
) -> Architecture:
    """Sequence to sequence: build both stacks with `stack(...)`.

    The decoder's blocks hold a CrossAttention, or the encoder's output is a prefix of the target (`source = "prefix"`).
    """
    return Architecture(
        width=width,
        embedding=embedding,
        decoder_embedding=decoder_embedding,
        encoder=encoder,
        decoder=decoder,
        source=source,
        head=head or Head(),
        initialisation=initialisation or Initialisation(),
    )


def dictionary_alone(dictionary: Dictionary, width: int, start: float = 0.1) -> Architecture:
    """A sparse autoencoder, a transcoder or a crosscoder of D = `width` activations: what its dictionary says stands in the
    place of what it reads. `start`: the mean length of its vectors at first."""
    block = Block(steps=(Step(branches=Named({dictionary.kind: Branch(sublayer=dictionary)}), residual="none"),))
    rules = Initialisation(matrix=Normal(std=start / width**0.5))
    return encoder_only(ActivationInput(features=width), width, [block], initialisation=rules)
