"""Places that are rows of one decode state.

The steps see rows which all end at the same slot: a prompt that comes later is read by itself, and its state is written so that
its last position stands where the last of the others stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anyformer.generation.checks import check
from anyformer.generation.decode import Step, decode, pad_left, prefill, read_source
from anyformer.generation.images import joined, of_prompts
from anyformer.generation.memory import grown
from anyformer.generation.rereading import ReadInputs, Rereading
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder_module import Images

WASTE = 8
"""Slots that no row holds are given up when they are one in so many: moving the others costs as much as a step reads."""


def state_rows(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    batch: int,
    max_tokens: int,
    *,
    start: int | None = None,
    images: Images | None = None,
    step: Step = decode,
    multiple: int = 1,
) -> StateRows:
    """Places for `batch` of the prompts at a time, or one where rows side by side would change one another.

    `start`, `images`, `step` and `multiple` as in `continued`.
    """
    check(model, prompts, max_tokens, start, images=images, batch=batch)
    made = StateRows(
        model, prompts, min(batch, len(prompts)), max_tokens, start, of_prompts(model, prompts, images), Rereading(model, step),
        multiple,
    )  # fmt: skip
    padded = model.architecture.folded_cost(Shape()).breaks("padded", length=made.longest)
    return made.alone() if padded else made


@dataclass
class StateRows:
    """The rows of a decode state, each a place. `spans`: slots that each holds, up to the last one; 0 of one that is free."""

    model: Transformer
    prompts: Sequence[Sequence[int]]
    count: int
    max_tokens: int
    start: int | None
    images: Sequence[Images | None]
    again: Rereading
    multiple: int
    spans: list[int] = field(init=False)
    state: StackState | None = None

    def __post_init__(self) -> None:
        self.spans = [0] * self.count
        architecture, longest = self.model.architecture, max(map(len, self.prompts))
        self.source = 0 if self.start is None else longest
        """Positions of every source, padded: the state has places for so many."""
        self.before = self.source if architecture.source == "prefix" else architecture.virtual_tokens or 0
        """Slots in front of the first token."""
        self.longest = self.before + self.max_tokens + (longest if self.start is None else 1)
        """The most positions of a row."""
        self.most = self.longest + self.longest // (WASTE - 1) + self.multiple

    def alone(self) -> StateRows:
        """One place in place of all."""
        self.count, self.spans = 1, [0]
        return self

    @property
    def device(self) -> torch.device:
        return self.model.device

    @torch.inference_mode()
    def enter(self, at: Sequence[int], numbers: Sequence[int]) -> Tensor:
        """Read prompts at places that are free; the logits of their first tokens, (n, V)."""
        length = self.before + (1 if self.start is not None else max(len(self.prompts[number]) for number in numbers))
        if self.state is None:
            assert len(at) == self.count, "the first prompts fill all places"
            self.state = self._grown(length - self.before)
            logits = self._read(numbers, self.state)
        else:
            missing = max(length - self.state.slots.used, 0)
            self.state = self._grown(missing)
            self.state.shift(missing)
            fresh = self.model.state(len(at), self.state.slots.capacity - self.before, source=self.source)
            logits = self._read(numbers, fresh)
            self.state.put(torch.tensor(at, device=self.model.device), fresh)
        for place, number in zip(at, numbers, strict=True):
            self.spans[place] = self._span(number)
        return logits

    @torch.inference_mode()
    def advance(self, tokens: Sequence[int]) -> Tensor:
        """Read one more token of each row, in a slot of its own."""
        return self.again(self.model, torch.tensor(tokens, device=self.model.device), self._advanced())

    @torch.inference_mode()
    def leave(self, at: Sequence[int]) -> None:
        """Free places; their positions count anew, so that they stay within a table's while the others go on."""
        assert self.state is not None, "a row was read"
        for place in at:
            self.spans[place] = 0
        self.state.slots.clear(torch.tensor(list(at), device=self.model.device))

    def _advanced(self) -> StackState:
        """The state with a slot reserved for one more token of each row."""
        assert self.state is not None, "rows were read"
        waste = self.state.slots.used - max(self.spans)
        if self.state.slots.used % self.multiple == 0 and waste >= max(1, self.state.slots.used // WASTE):
            self.state.shift(-waste)
        self.state = self._grown(1)
        self.state.slots.reserve(1, self.multiple)
        self.spans = [span + (span > 0) for span in self.spans]
        return self.state

    def _span(self, number: int) -> int:
        """Slots that a prompt takes, the padding before it left out."""
        own, architecture = len(self.prompts[number]), self.model.architecture
        if self.start is not None:
            return 1 + (own if architecture.source == "prefix" else 0)
        return own + (architecture.virtual_tokens or 0)

    def _grown(self, count: int) -> StackState:
        return grown(self.model, self.state, self.count, count, most=self.most, source=self.source)

    def _read(self, numbers: Sequence[int], state: StackState) -> Tensor:
        """Read prompts into a state; logits of their first tokens."""
        tokens, padding = pad_left([self.prompts[number] for number in numbers], self.model.device)
        if self.start is None:
            shown = [shown for number in numbers if (shown := self.images[number]) is not None]
            logits = prefill(self.model, tokens, padding, state, joined(shown))
            self.again.begin(tokens, padding, state, ReadInputs(images=joined(shown)))
            return logits
        # Every source has the same places, so that the next one fits where this one was.
        source = tokens.new_zeros(len(tokens), self.source)
        source[:, self.source - tokens.shape[1] :] = tokens
        real = torch.tensor([[len(self.prompts[number])] for number in numbers], device=tokens.device)
        unused = torch.arange(self.source, device=tokens.device) < self.source - real
        first = torch.full((len(tokens), 1), self.start, device=tokens.device)
        logits = read_source(self.model, source, unused, first, None, state)
        self.again.begin(first, None, state, ReadInputs(source, self.source, unused))
        return logits
