"""The memory of the texts that a server goes on with: one protocol, two ways to hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from anyformer.describe import UserError
from anyformer.generation.checks import check_texts
from anyformer.generation.memory import state_bytes
from anyformer.generation.rereading import read_again_beyond
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.serving.prompt_prefixes import PromptPrefixes
from anyformer.serving.reading import PromptReading
from anyformer.serving.request import ServedRequest


class NeverFitsError(UserError):
    """A request that needs more than the server has."""


class TextStates(Protocol):
    """Decode states of texts by number. What a text needs is known before it is taken, to the byte."""

    @property
    def model(self) -> Transformer: ...

    @property
    def prefixes(self) -> PromptPrefixes | None:
        """What is kept of prompts, beside the states of texts."""
        ...

    @property
    def places(self) -> int | None:
        """Texts that go on together at most; None where memory alone bounds them."""
        ...

    @property
    def total(self) -> int:
        """Bytes that all states together may take."""
        ...

    @property
    def foretold(self) -> int:
        """Bytes that they take now, as worked out from the description."""
        ...

    @property
    def held(self) -> int:
        """Bytes that they take now, as the tensors say."""
        ...

    def check(self, request: ServedRequest) -> None:
        """Refuse what the model cannot read, and with `NeverFitsError` what never fits, with the numbers."""
        ...

    def fits(self, request: ServedRequest) -> bool:
        """Whether there is room for it now."""
        ...

    def enter(self, number: int, request: ServedRequest) -> PromptReading:
        """Take the room of a request that fits, as text `number`, and begin to read it."""
        ...

    def advance(self, tokens: Mapping[int, int]) -> dict[int, Tensor]:
        """One more token of all texts that were read; the logits of the next of each, (1, V), good until the next call."""
        ...

    def leave(self, number: int) -> None:
        """Free the room of a text, read whole or not."""
        ...


def request_bytes(model: Transformer, request: ServedRequest) -> int:
    """Bytes of the decode state of a request, from its first position to its last."""
    return state_bytes(model, 1, request.positions, request.source)


def checked(model: Transformer, request: ServedRequest) -> ServedRequest:
    """The request, which the model can read."""
    check_texts(model, [request.tokens], request.max_tokens, request.start)
    return request


def check_row(model: Transformer, request: ServedRequest, length: int) -> None:
    """Refuse what the model cannot read, and with `NeverFitsError` what is longer than a row of `length` positions."""
    if checked(model, request).positions > length:
        needed, row = request_bytes(model, request), state_bytes(model, 1, length)
        raise NeverFitsError(
            f"{len(request.tokens):,} tokens of prompt and {request.max_tokens:,} of text are {request.positions:,} "
            f"positions ({needed:,} bytes of decode state), and a text has {length:,} here ({row:,} bytes): ask for "
            "fewer, or start the server with a greater --length"
        )


def side_by_side(model: Transformer) -> str | None:
    """Why texts cannot be rows of one state; None where they can."""
    architecture = model.architecture
    if architecture.two_inputs:
        return "every text has a source of its own length"
    if read_again_beyond(model):
        return "a text that passes some length is read again from its start"
    reasons = architecture.folded_cost(Shape()).breaks("padded", length=architecture.output_stack.max_length or LONG)
    return "; ".join(reasons) or None


LONG = 2**20
"""Positions of a text of any length."""
