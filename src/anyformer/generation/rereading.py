"""Texts that are read again: longer ones a model may read otherwise from their start, and what a state holds is of no use.

So it is with rotary frequencies that have a list for short texts and one for long ones (LongRoPE): keys were turned by another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.sounds import SoundFrames, arguments_of
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder_module import Images


@dataclass
class ReadInputs:
    """What was read into a state, but for its tokens: sources that become `positions`, and their padding, images or sounds."""

    source: Tensor | None = None
    positions: int = 0
    source_padding: Tensor | None = None
    images: Images | None = None
    sounds: SoundFrames | None = None

    def of(self, rows: Tensor) -> ReadInputs:
        """Those of rows that may repeat."""
        if self.images is not None or self.sounds is not None:
            raise InputError(
                "several answers to a prompt with images or sounds cannot be given where a longer text is read again from its "
                "start; ask for one, without beams"
            )
        source, padding = (None if each is None else each[rows] for each in (self.source, self.source_padding))
        return replace(self, source=source, source_padding=padding)


def read_again_beyond(model: Transformer) -> frozenset[int]:
    """The numbers of positions beyond which what a decode state holds has to be read again."""
    return model.architecture.folded_cost(Shape()).read_again_beyond


def read_again(
    model: Transformer, tokens_BT: Tensor, padding_BT: Tensor | None, state: StackState, inputs: ReadInputs, count: int = 1
) -> Tensor:
    """Let `state`, which holds the beginning of a text, hold all of it as read at once; logits after its last tokens (B, n, V).

    The state stays where it is in memory, so that steps that were recorded with it go on. `count`: n, the tokens that are new.
    """
    before = inputs.positions if model.architecture.source == "prefix" else model.architecture.virtual_tokens or 0
    fresh = model.state(len(tokens_BT), state.slots.capacity - before, source=inputs.positions)
    if inputs.source is None:
        seen = arguments_of(inputs.sounds)
        features = model.features(tokens_BT, padding=padding_BT, prefix=state.prefix, state=fresh, images=inputs.images, **seen)
    else:
        features = model.features(
            inputs.source, tokens_BT, padding=inputs.source_padding, decoder_padding=padding_BT, state=fresh
        )
    state.take(fresh)
    return model.logits(features[:, -count:])


@dataclass
class Rereading:
    """A decode step that reads the text again where its longest row, padding left out, passes a length that asks for it.

    `begin` tells it what the state holds; then it is called once for every further token of each row.
    """

    model: Transformer
    step: Callable[[Transformer, Tensor, StackState], Tensor]
    _beyond: frozenset[int] = field(init=False)
    _tokens: list[Tensor] = field(init=False, default_factory=list)
    _padding: Tensor | None = field(init=False, default=None)
    _inputs: ReadInputs = field(init=False, default_factory=ReadInputs)
    _length: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._beyond = read_again_beyond(self.model)

    def begin(self, tokens_BT: Tensor, padding_BT: Tensor | None, state: StackState, inputs: ReadInputs) -> None:
        """The tokens that `state` holds, which were just read into it, their padding and what was read beside them."""
        if self._beyond:
            self._tokens, self._padding, self._inputs = [tokens_BT], padding_BT, inputs
            self._length = 1 + int(state.slots.positions.amax())

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on with what row rows[i] held, as after `StackState.fork`."""
        if self._beyond:
            self._tokens = [each[rows] for each in self._tokens]
            self._padding = None if self._padding is None else self._padding[rows]
            self._inputs = self._inputs.of(rows)

    def __call__(self, model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
        if not self._beyond:
            return self.step(model, tokens_B, state)
        self._tokens.append(tokens_B[:, None].clone())
        self._length += 1
        if self._length - 1 not in self._beyond:
            return self.step(model, tokens_B, state)
        tokens, padding = torch.cat(self._tokens, 1), self._padding
        padding = None if padding is None else F.pad(padding, (0, tokens.shape[1] - padding.shape[1]))
        return read_again(model, tokens, padding, state, self._inputs)[:, -1]
