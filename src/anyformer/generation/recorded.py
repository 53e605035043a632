"""A decode step that is recorded once and repeated: the same calls of torch, without the model's own Python.

Nothing is compiled, and every bit is that of the plain step. It can be repeated because a decode state keeps its tensors from
step to step and counts positions in tensors: the token and the first free slot alone are new. Another text has other tensors of
the same shapes, so what was recorded for one text serves all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from anyformer.generation.decode import decode
from anyformer.generation.recorder import Bind, Recorder, Repeat
from anyformer.model import Transformer
from anyformer.parts.call.stack_state import StackState

MULTIPLE = 128
"""Slots by which the visible part of the state grows at first: recording takes as long as some ten steps of a small model."""


class RecordedDecode:
    """`decode` for the steps of one text; `finish` makes a function of what was recorded."""

    def __init__(self, finish: Callable[[Recorder, Tensor], Bind] = Recorder.repeating) -> None:
        self._finish = finish
        self.recording: Recording | None = None
        self._state: StackState | None = None
        self._visible = 0
        self._repeat: Repeat | None = None

    def __call__(self, model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
        if self._repeat is not None and self._state is state and self._visible == state.slots.visible:
            return self._repeat(tokens_B, state.slots.start)
        known = _known(model)
        self._state, self._visible = state, state.slots.visible
        memory = dict(_tensors(state))
        shapes = tuple((place, each.shape, each.dtype) for place, each in memory.items())
        kind = (self._finish, state.slots.visible, model.training, shapes)
        self.recording = known.recordings.get(kind)
        if self.recording is not None:
            self._repeat = self.recording.repeating(model, state, memory)
            return self._repeat(tokens_B, state.slots.start)
        with Recorder((tokens_B, state.slots.start)) as recorder:
            logits = decode(model, tokens_B, state)
        bind = self._finish(recorder, logits) if recorder.whole else None
        known.recordings[kind] = self.recording = Recording.of(bind, recorder.kept, memory)
        self._repeat = self.recording.repeating(model, state, memory)
        return logits


@dataclass(frozen=True)
class Recording:
    """The calls of a step; what they read of the model, or its place in the decode state. Without them: the plain step.

    That is so where Python read values, on which its next calls may depend.
    """

    bind: Bind | None
    kept: tuple[Tensor | str, ...]

    @staticmethod
    def of(bind: Bind | None, kept: Sequence[Tensor], memory: Mapping[str, Tensor]) -> Recording:
        """What was recorded, bound to no text."""
        places = {id(tensor): place for place, tensor in memory.items()}
        return Recording(bind, () if bind is None else tuple(places.get(id(tensor), tensor) for tensor in kept))

    def repeating(self, model: Transformer, state: StackState, memory: Mapping[str, Tensor]) -> Repeat:
        """The step for the text of this state."""
        if self.bind is None:
            return lambda tokens_B, _: decode(model, tokens_B, state)
        return self.bind(*(memory[each] if isinstance(each, str) else each for each in self.kept))


@dataclass
class _Known:
    """What was recorded of a model while it had these weights, by number of each tensor in memory."""

    weights: tuple[int, ...]
    recordings: dict[Hashable, Recording] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[Transformer, _Known] = WeakKeyDictionary()


def _known(model: Transformer) -> _Known:
    """What was recorded of a model; nothing, where some of its weights are others by now."""
    weights = tuple(map(id, model.parameters()))
    if model not in _KNOWN or _KNOWN[model].weights != weights:
        _KNOWN[model] = _Known(weights)
    return _KNOWN[model]


def _tensors(value: Any, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a decode state with its place; the first free slot is new in each step."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _tensors(each, f"{place}[{key}]")
    elif value is not None and not isinstance(value, bool | int | float | str):
        for name, each in vars(value).items():
            if not (name == "start" and place.endswith(".slots")):
                yield from _tensors(each, f"{place}.{name}")
