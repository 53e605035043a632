"""Properties of an architecture that decide which contracts it owes, read from its parts."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from anyformer.model import Architecture
from anyformer.operations import Contract, Shape
from anyformer.parts.call.entry_state import CompressedState
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import CrossState, FullState, State
from anyformer.parts.masks.mask import Mask
from anyformer.parts.sublayer import Sublayer


def anything(architecture: Architecture) -> bool:
    """Every architecture."""
    return True


def decodes_tokens(architecture: Architecture) -> bool:
    """Whether it is a decoder that reads one sequence of tokens and has an output at every position."""
    alone = architecture.shape_of_model == "decoder-only" and not architecture.two_inputs
    return alone and reads_tokens(architecture) and not pools(architecture)


def encodes_tokens(architecture: Architecture) -> bool:
    """Whether it is an encoder without a decoder that reads tokens and has an output at every position."""
    return architecture.decoder is None and reads_tokens(architecture) and not pools(architecture)


def pools(architecture: Architecture) -> bool:
    """Whether it has one output per row."""
    return architecture.head is not None and architecture.head.pool is not None


def one_text(architecture: Architecture) -> bool:
    """Whether it reads one sequence of tokens and has an output at every position."""
    return decodes_tokens(architecture) or encodes_tokens(architecture)


def two_inputs(architecture: Architecture) -> bool:
    """Whether it reads a source and a target."""
    return architecture.two_inputs


def two_texts(architecture: Architecture) -> bool:
    """Whether it reads a source of tokens and a target."""
    return architecture.two_inputs and reads_tokens(architecture)


def reads_tokens(architecture: Architecture) -> bool:
    """Whether its one input, or its source, is tokens."""
    return architecture.embedding.symbols is not None


def predicts_later(architecture: Architecture) -> bool:
    """Whether it predicts tokens after the next one."""
    return architecture.mtp is not None


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
    """Whether a part has a decode state without keys and values: a running sum, or the latest inputs of a convolution."""
    return any(not isinstance(state, FullState | RingState | CrossState | CompressedState) for state in states(architecture))


def reads_prefix(architecture: Architecture) -> bool:
    """Whether it is a decoder of tokens with a bidirectional prefix."""
    return decodes_tokens(architecture) and any(
        limit.contract == "chunked" for mask in masks(architecture) for limit in mask.limits
    )


def limits(architecture: Architecture, *contracts: Contract) -> tuple[str, ...]:
    """The declared reasons why it breaks one of `contracts`; limits of a prefix do not count, as inputs here have none."""
    tally = architecture.cost(Shape())
    broken = [contract for contract in contracts if contract != "chunked" or not reads_prefix(architecture)]
    return tuple(reason for contract in broken for reason in tally.breaks(contract))
