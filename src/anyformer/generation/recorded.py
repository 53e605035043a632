"""A decode step that is recorded once and repeated: the same calls of torch, without the model's own Python.

Nothing is compiled, and every bit is that of the plain step. It can be repeated because a decode state keeps its tensors from
step to step and counts positions in tensors: the token and the first free slot alone are new. Another text has other tensors of
the same shapes, so what was recorded for one text serves all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from torch import Tensor

from anyformer.generation.decode import decode
from anyformer.generation.native.tables import Tables
from anyformer.generation.recorded_step import Bind, RecordedStep, Repeat, spanning
from anyformer.generation.recorder import Recorder
from anyformer.generation.rehearsal import rehearsed
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.call.state import Slots

MULTIPLE = 128
"""Slots by which the visible part of the state grows where each number is recorded: that takes as long as three steps."""
FINE = 16
"""Slots by which it grows where one program serves every number of them."""


class StepRun(Protocol):
    """How a recorded step is computed; the arguments are those of `native.decode.natively`."""

    def __call__(
        self, repeat: Repeat, kept: tuple[Any, ...], tables: Tables, visible: int, memory: Sequence[Tensor],
        before: Repeat | None, *, spans: bool,
    ) -> Repeat: ...  # fmt: skip


def as_recorded(
    repeat: Repeat, kept: tuple[Any, ...], tables: Tables, visible: int, memory: Sequence[Tensor], before: Repeat | None, *,
    spans: bool,
) -> Repeat:  # fmt: skip
    """By the same calls of torch."""
    return repeat


class RecordedDecode:
    """`decode` for the steps of one text; `finish` makes a function of what was recorded, by default a Python program, and
    `run` says how that is computed.

    A step is recorded with few slots visible, and later with all, which computes nothing with the keys of either. If the two
    programs differ in that number alone, as a size or as the end of a view, one serves every number between, so that no more
    keys are read than there are; else each number is recorded.
    """

    def __init__(self, finish: Callable[[Recorder, Tensor], Bind] | None = None, run: StepRun = as_recorded) -> None:
        self._run = run
        self._finish, self._spans = finish or Recorder.written, finish is None
        self.recording: Recording | None = None
        self._state: StackState | None = None
        self._found = Recordings()
        self._visible = 0
        self._memory: dict[str, Tensor] = {}
        self._kept: tuple[Any, ...] = ()
        self._repeat: Repeat | None = None

    def __call__(self, model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
        # A recorded step shows no values, and one with other values would serve later texts.
        if model.asked is not None:
            return decode(model, tokens_B, state)
        slots = state.slots
        if self._repeat is None or self._state is not state or slots.used > self._visible:
            before, reserved = self._repeat, slots.visible
            if self._state is not state:
                self._state, self._memory, self.recording, before = state, dict(_tensors(state)), None, None
                self._found = _recordings(model, self._finish, self._memory)
            while (recording := self._known(slots, reserved)) is None:
                made = self._recorded(model, tokens_B, state, self._memory)
                self._found.add(self._visible, made)  # two may tell of all others
            if self.recording is None or self.recording.kept is not recording.kept:
                self._kept = recording.kept_of(self._memory)
            self.recording = recording
            self._repeat = self._repeating(model, state, recording, before)
        slots.visible = self._visible
        return self._repeat(tokens_B, slots.start)

    def _known(self, slots: Slots, reserved: int) -> Recording | None:
        """Choose how many slots the next step sees, of those that were `reserved`; what was recorded of that many."""
        slots.visible = reserved
        self._visible = slots.visible = self._found.visible(slots, spans=self._spans)
        return self._found.at(self._visible)

    def _recorded(self, model: Transformer, tokens_B: Tensor, state: StackState, memory: Mapping[str, Tensor]) -> Recording:
        """The calls of a step, which is not computed."""
        with rehearsed(memory.values()), Recorder((tokens_B, state.slots.start)) as recorder:
            logits = decode(model, tokens_B, state)
        bind = self._finish(recorder, logits) if recorder.whole else None
        return Recording.of(bind, recorder.kept, memory)

    def _repeating(self, model: Transformer, state: StackState, recording: Recording, before: Repeat | None) -> Repeat:
        """The step for the text of this state. `before`: the one for fewer slots."""
        if recording.bind is None:
            return lambda tokens_B, _: decode(model, tokens_B, state)
        run = self._run if model.share is None else as_recorded  # what processes send one another is no operator
        repeat, memory, found = _Bound(recording.bind, self._kept), tuple(self._memory.values()), self._found
        return run(repeat, self._kept, found.tables, self._visible, memory, before, spans=found.span is not None)


class _Bound:
    """A recorded step for a text whose tensors are kept; what takes its place may never call it."""

    def __init__(self, bind: Bind, kept: tuple[Any, ...]) -> None:
        self._bind, self._kept = bind, kept
        self._step: Repeat | None = None

    def __call__(self, *each: Tensor) -> Tensor:
        if self._step is None:
            self._step = self._bind(*self._kept)
        return self._step(*each)


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

    def kept_of(self, memory: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """What it reads, of the text with this memory."""
        return tuple(memory[each] if isinstance(each, str) else each for each in self.kept)

    def reads_as(self, other: Recording) -> bool:
        """Whether another one reads the same tensors and places."""
        same = (x is y or (isinstance(x, str) and x == y) for x, y in zip(self.kept, other.kept, strict=False))
        return len(self.kept) == len(other.kept) and all(same)


@dataclass
class Recordings:
    """What was recorded of a step with states of one shape, by the number of visible slots; the span of the first two; and what
    is known of it as tables."""

    each: dict[int, Recording] = field(default_factory=dict)
    span: RecordedStep | None = None
    tables: Tables = field(default_factory=Tables)

    def visible(self, slots: Slots, *, spans: bool) -> int:
        """The number of visible slots for the next step; by default as they were reserved. `spans`: there may be a span."""
        fine = min(slots.capacity, -(-slots.used // FINE) * FINE)
        if self.span is not None:
            return max(fine, min(self.each))
        if not spans or len(self.each) > 1:
            return slots.visible
        # An odd multiple: what is done to fill the last block of 32 slots or more is then seen, and spoils the span.
        few = next(iter(self.each), min(slots.capacity, (fine // FINE | 1) * FINE))
        return few if slots.used <= few else slots.capacity

    def at(self, visible: int) -> Recording | None:
        """What is known of a step that sees so many slots."""
        if (span := self.span) is None:
            return self.each.get(visible)
        return Recording(lambda *kept: span(*kept, visible), self.each[min(self.each)].kept)

    def add(self, visible: int, recording: Recording) -> None:
        """One more; the second may make a span with the first."""
        self.each[visible] = recording
        if len(self.each) == 2:
            (few, one), (many, other) = self.each.items()
            if isinstance(one.bind, RecordedStep) and isinstance(other.bind, RecordedStep) and one.reads_as(other):
                self.span = spanning((few, one.bind), (many, other.bind))


@dataclass
class _Known:
    """What was recorded of a model while it had these weights, by number of each tensor in memory."""

    weights: tuple[int, ...]
    recordings: dict[Hashable, Recordings] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[Transformer, _Known] = WeakKeyDictionary()


def _recordings(model: Transformer, finish: Hashable, memory: Mapping[str, Tensor]) -> Recordings:
    """What was recorded of a model for states of this shape; nothing, where some of its weights are others by now."""
    weights = tuple(map(id, model.parameters()))
    if model not in _KNOWN or _KNOWN[model].weights != weights:
        _KNOWN[model] = _Known(weights)
    shapes = tuple((place, each.shape, each.dtype) for place, each in memory.items())
    return _KNOWN[model].recordings.setdefault((finish, model.training, shapes), Recordings())


def _tensors(value: Any, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a decode state with its place; the first free slot is new in every step."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _tensors(each, f"{place}[{key}]")
    elif value is not None and not isinstance(value, bool | int | float | str):
        for name, each in vars(value).items():
            if not (name == "start" and place.endswith(".slots")):
                yield from _tensors(each, f"{place}.{name}")
