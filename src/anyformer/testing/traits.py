"""What an architecture is, asked of its parts: who owes which contract."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from anyformer.model import Architecture
from anyformer.operations import Contract, Shape
from anyformer.parts.call.state import CrossState, FullState, RingState, State
from anyformer.parts.masks.mask import Mask
from anyformer.parts.sublayer import Sublayer


def anything(architecture: Architecture) -> bool:
    """Every architecture."""
    return True


def decodes_tokens(architecture: Architecture) -> bool:
    """A decoder that reads one sequence of tokens."""
    return architecture.shape_of_model == "decoder-only" and not architecture.two_inputs and reads_tokens(architecture)


def encodes_tokens(architecture: Architecture) -> bool:
    """An encoder alone that reads tokens and answers at each position."""
    pooled = architecture.head is not None and architecture.head.pool is not None
    return architecture.decoder is None and reads_tokens(architecture) and not pooled


def one_text(architecture: Architecture) -> bool:
    """One sequence of tokens in, one answer at each position out."""
    return decodes_tokens(architecture) or encodes_tokens(architecture)


def two_inputs(architecture: Architecture) -> bool:
    """A source and a target."""
    return architecture.two_inputs


def two_texts(architecture: Architecture) -> bool:
    """A source of tokens and a target."""
    return architecture.two_inputs and reads_tokens(architecture)


def reads_tokens(architecture: Architecture) -> bool:
    """Whether the one input, or the source, is tokens."""
    return architecture.embedding.symbols is not None


def sublayers(architecture: Architecture) -> Iterator[Sublayer]:
    """Every sublayer of every variant of every stack."""
    for stack in architecture.stacks.values():
        for block in stack.variants.values():
            yield from block.sublayers


def masks(architecture: Architecture) -> tuple[Mask, ...]:
    """The masks of its attentions."""
    return tuple(mask for sublayer in sublayers(architecture) for mask in sublayer.masks)


def states(architecture: Architecture) -> Iterator[State]:
    """A decode state of each sublayer that has one, without values."""
    for sublayer in sublayers(architecture):
        state = sublayer.state(architecture.width, 1, 4, 4, torch.float32, torch.device("meta"))
        if state is not None:
            yield state


def recurrent(architecture: Architecture) -> bool:
    """Whether a part remembers something else than keys and values: a running sum, or the latest inputs of a convolution."""
    return any(not isinstance(state, FullState | RingState | CrossState) for state in states(architecture))


def reads_prefix(architecture: Architecture) -> bool:
    """A decoder of tokens whose attention sees a prefix both ways."""
    return decodes_tokens(architecture) and any(
        limit.contract == "chunked" for mask in masks(architecture) for limit in mask.limits
    )


def limits(architecture: Architecture, *contracts: Contract) -> tuple[str, ...]:
    """Why it declares that it breaks one of `contracts`, a prefix aside: without one, its mask is causal."""
    tally = architecture.cost(Shape())
    broken = [each for each in contracts if each != "chunked" or not reads_prefix(architecture)]
    return tuple(reason for each in broken for reason in tally.breaks(each))
