"""The arguments of a call of a model, and the input of a stack made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict

import torch
from torch import Tensor

from anyformer.parts.call.choices import Choices
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.call.shared import Shared
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.call.state import EMPTY
from anyformer.parts.images.encoder_module import Images


class CallOptions(TypedDict, total=False):
    """The keyword arguments of `Transformer.forward` and `Transformer.features`: the fields of `Call` of these names."""

    padding: Tensor | None
    decoder_padding: Tensor | None
    documents: Tensor | None
    prefix: Tensor | None
    positions: Tensor | None
    types: Tensor | None
    kept: Tensor | None
    images: Images | None
    audio: Tensor | None
    audio_padding: Tensor | None
    times: Tensor | None
    classes: Tensor | None
    state: StackState | None
    noise: Noise | None
    auxiliary: Auxiliary | None
    choices: Choices | None


@dataclass(frozen=True)
class Call:
    """The arguments of a call. With two inputs `tokens` is the source, `decoder_tokens` the target."""

    tokens: Tensor | None = None
    decoder_tokens: Tensor | None = None
    padding: Tensor | None = None
    decoder_padding: Tensor | None = None
    documents: Tensor | None = None
    prefix: Tensor | None = None
    positions: Tensor | None = None
    types: Tensor | None = None
    kept: Tensor | None = None
    images: Images | None = None
    audio: Tensor | None = None
    audio_padding: Tensor | None = None
    times: Tensor | None = None
    classes: Tensor | None = None
    state: StackState | None = None
    noise: Noise | None = None
    auxiliary: Auxiliary | None = None
    choices: Choices | None = None
    left: Shared | None = None
    """Receives the values that the stack leaves, if the caller wants them."""

    @property
    def generated(self) -> Tensor:
        """The input of the stack that the head reads: the target, or the one input."""
        tokens = self.tokens if self.decoder_tokens is None else self.decoder_tokens
        assert tokens is not None, "checked when the model is called"
        return tokens

    def behind(self, first: int) -> Call:
        """The same call of a text with `first` positions in front of it."""
        prefix, positions = self.prefix, self.positions
        if positions is not None:
            counted = torch.arange(first, device=positions.device, dtype=positions.dtype).expand(len(positions), -1)
            positions = torch.cat([counted, positions + first], 1)
        auxiliary = self.auxiliary and self.auxiliary.after(first)
        choices = self.choices and self.choices.after(first)
        ahead = None if prefix is None else prefix + first
        return replace(self, positions=positions, prefix=ahead, auxiliary=auxiliary, choices=choices)

    def of_source(self) -> Call:
        """The call of the encoder: noise, the condition, and the collector of its expert layers' reports."""
        auxiliary = self.auxiliary and self.auxiliary.of_source()
        return Call(noise=self.noise, times=self.times, classes=self.classes, auxiliary=auxiliary)


NONE_ADDED: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class StackInput:
    """The input of a stack: x (B, T, D), padding (B, T) if any, the tokens that x embeds, if it embeds tokens, positions on
    axes (n, 1, T) if it has them, and what is added behind its first layers, (B, T, D) for each."""

    x: Tensor
    padding: Tensor | None = None
    tokens: Tensor | None = None
    axes: Tensor | None = None
    added: tuple[Tensor, ...] = NONE_ADDED

    @property
    def length(self) -> int:
        return self.x.shape[1]

    def after(self, first: StackInput) -> StackInput:
        """Both in one sequence, `first` before this."""
        padding = None
        if first.padding is not None or self.padding is not None:
            padding = torch.cat([~first.valid, ~self.valid], 1)
        return StackInput(torch.cat([first.x, self.x], 1), padding)

    def ordered(self, order_BT: Tensor) -> StackInput:
        """The same positions in another order."""
        return self.at(order_BT, rearranged(self.x, order_BT))

    def at(self, order_BT: Tensor, x_BTD: Tensor) -> StackInput:
        """The positions with these numbers, whose stream is `x_BTD`."""
        tokens = None if self.tokens is None else self.tokens.gather(1, order_BT)
        padding = None if self.padding is None else self.padding.gather(1, order_BT)
        added = tuple(rearranged(x_BTD, order_BT) for x_BTD in self.added)
        axes = (
            None
            if self.axes is None
            else self.axes.expand(-1, len(order_BT), -1).gather(-1, order_BT.expand(len(self.axes), -1, -1))
        )
        return StackInput(x_BTD, padding, tokens, axes, added)

    @property
    def valid(self) -> Tensor:
        """(B, T), true where there is no padding."""
        return self.x.new_ones(self.x.shape[:2], dtype=torch.bool) if self.padding is None else ~self.padding


@dataclass(frozen=True)
class StackCall:
    """What a stack is asked: its input, the call, the input of its cross-attention, and the number of positions that stand in
    front of those whose features are wanted."""

    given: StackInput
    call: Call
    source: StackInput | None = None
    first: int = 0


def rearranged(x_BTD: Tensor, order_BT: Tensor) -> Tensor:
    """x with each row's positions in another order."""
    return x_BTD.gather(1, order_BT[:, :, None].expand(-1, -1, x_BTD.shape[2]))


def count_positions(x: Tensor, padding: Tensor | None, documents: Tensor | None) -> Tensor:
    """Positions of each row of x (B, T, ...), from 0 in every document, EMPTY on padding: (B or 1, T)."""
    index = torch.arange(x.shape[1], device=x.device)[None]
    if documents is not None:
        starts = torch.ones_like(documents, dtype=torch.bool)
        starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
        index = index - torch.where(starts, index, 0).cummax(1).values
    elif padding is not None:
        index = (~padding).cumsum(1) - 1
    return index if padding is None else torch.where(padding, EMPTY, index)
