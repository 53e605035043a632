"""Places that are rows of one decode state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anyformer.generation.aligned_rows import AlignedRows
from anyformer.generation.checks import check
from anyformer.generation.decode import Step, decode, pad_left, prefill, read_source
from anyformer.generation.images import joined, of_prompts
from anyformer.generation.rereading import ReadInputs, Rereading
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder_module import Images


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
    padded = model.architecture.folded_cost(Shape()).breaks("padded", length=made.rows.longest)
    return made.alone() if padded else made


@dataclass
class StateRows:
    """The rows of a decode state, each a place for one of `prompts`."""

    model: Transformer
    prompts: Sequence[Sequence[int]]
    count: int
    max_tokens: int
    start: int | None
    images: Sequence[Images | None]
    again: Rereading
    multiple: int
    rows: AlignedRows = field(init=False)

    def __post_init__(self) -> None:
        architecture, longest = self.model.architecture, max(map(len, self.prompts))
        self.source = 0 if self.start is None else longest
        """Positions of every source, padded: the state has places for so many."""
        self.before = self.source if architecture.source == "prefix" else architecture.virtual_tokens or 0
        """Slots in front of the first token."""
        positions = self.before + self.max_tokens + (longest if self.start is None else 1)
        self.rows = AlignedRows(self.model, self.count, positions, self.source, self.multiple)

    def alone(self) -> StateRows:
        """One place in place of all."""
        self.count = 1
        self.rows = AlignedRows(self.model, 1, self.rows.longest, self.source, self.multiple)
        return self

    @property
    def device(self) -> torch.device:
        return self.model.device

    @torch.inference_mode()
    def enter(self, at: Sequence[int], numbers: Sequence[int]) -> Tensor:
        """Read prompts at places that are free; the logits of their first tokens, (n, V)."""
        length = self.before + (1 if self.start is not None else max(len(self.prompts[number]) for number in numbers))
        spans = [self._span(number) for number in numbers]
        if self.rows.state is None:
            assert len(at) == self.count, "the first prompts fill all places"
            logits = self._read(numbers, self.rows.grow(length - self.before))
            self.rows.hold(at, spans)
            return logits
        state = self.rows.make_room(length)
        fresh = self.model.state(len(at), state.slots.capacity - self.before, source=self.source)
        logits = self._read(numbers, fresh)
        self.rows.put(at, fresh, spans)
        return logits

    @torch.inference_mode()
    def advance(self, tokens: Sequence[int]) -> Tensor:
        """Read one more token of each row, in a slot of its own."""
        return self.again(self.model, torch.tensor(tokens, device=self.model.device), self.rows.advanced())

    @torch.inference_mode()
    def leave(self, at: Sequence[int]) -> None:
        """Free places whose texts have ended."""
        self.rows.leave(at)

    def _span(self, number: int) -> int:
        """Slots that a prompt takes, the padding before it left out."""
        own, architecture = len(self.prompts[number]), self.model.architecture
        if self.start is not None:
            return 1 + (own if architecture.source == "prefix" else 0)
        return own + (architecture.virtual_tokens or 0)

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
