"""Many prompts at few places: a row that ends leaves its place to the next prompt (continuous batching).

Every prompt gets the tokens that it gets alone. The steps see rows of one state, which all end at the same slot: a prompt that
comes later is read by itself, and its state is written so that its last position stands where the last of the others stands.
Yu et al. 2022 (Orca, OSDI) replace rows between steps in this way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from anyformer.generation.chances import Token, chances
from anyformer.generation.checks import check
from anyformer.generation.decode import Step, decode, pad_left, prefill, read_source
from anyformer.generation.images import joined, of_prompts
from anyformer.generation.memory import grown
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.rereading import ReadInputs, Rereading
from anyformer.generation.sampling import Sampling
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder_module import Images

WASTE = 8
"""Slots that no row holds are given up when they are one in so many: moving the others costs as much as a step reads."""


@torch.inference_mode()
def served(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    batch: int,
    *,
    sampling: Sampling,
    max_tokens: int,
    ended: Callable[[int], bool],
    ends: Sequence[int] = (),
    start: int | None = None,
    images: Images | None = None,
    step: Step = decode,
    multiple: int = 1,
    likeliest: int | None = None,
) -> Iterator[list[Token]]:
    """The token of every prompt that gets one, again and again, `batch` prompts at a time, until all have ended.

    A row ends at `max_tokens`, or when `ended` of its number is true, which is asked after each of its tokens was given; `ends`
    are what a part of `sampling` may know of it. `likeliest`: tokens whose chances are told beside. `start`, `images`, `step`
    and `multiple` as in `continued`. Where rows side by side would change one another, one prompt is computed at a time.
    """
    check(model, prompts, max_tokens, start, images=images, batch=batch)
    again, shown = Rereading(model, step), of_prompts(model, prompts, images)
    places = StateRows(model, prompts, min(batch, len(prompts)), max_tokens, start, shown, multiple, again.begin)
    if model.architecture.folded_cost(Shape()).breaks("padded", length=places.longest):
        places = replace(places, count=1)
    queue, pending = deque(range(len(prompts))), torch.zeros(places.count, dtype=torch.int64, device=model.device)

    texts: Prefixes | None = None

    def given(at: Sequence[int], logits: Tensor) -> list[Token]:
        """The tokens chosen for the rows at some places, which then wait for the next step."""
        rows = torch.tensor([places.rows[place] or 0 for place in at], device=model.device)
        chosen = sampling.choose(logits, rows, [places.made[place] for place in at], texts and texts.fork(at))
        pending[torch.tensor(at, device=model.device)] = chosen
        if texts is not None:
            texts.add(chosen, at)
        taken = zip(at, chosen.tolist(), chances(logits, chosen, likeliest), strict=True)
        return [Token(row, token, chance) for place, token, chance in taken if (row := places.rows[place]) is not None]

    while True:
        while queue and places.free:
            at = places.free[: len(queue)]
            numbers = [queue.popleft() for _ in at]
            if sampling.reads:
                begun = [prompts[number] for number in numbers]
                texts = entered(texts, at, Prefixes.begun(begun, start, model.device, ends=ends, most=max_tokens))
            logits = places.enter(at, numbers)
            yield given(at, logits)
            places.settle(at, ended)
        if len(places.free) == places.count:
            return
        state = places.advanced()
        yield given(range(places.count), again(model, pending, state))
        places.settle(range(places.count), ended)


def entered(texts: Prefixes | None, at: Sequence[int], fresh: Prefixes) -> Prefixes:
    """The texts at all places, some of which are new; the first ones fill all places."""
    if texts is None:
        return fresh
    texts.put(at, fresh)
    return texts


@dataclass
class StateRows:
    """The rows of a decode state, each with the number of the prompt that it goes on with, or None.

    `made`: tokens that each has got; `spans`: slots that each holds, up to the last one.
    """

    model: Transformer
    prompts: Sequence[Sequence[int]]
    count: int
    max_tokens: int
    start: int | None
    images: Sequence[Images | None]
    multiple: int
    began: Callable[[Tensor, Tensor | None, StackState, ReadInputs], None]
    """Told what was read into a state."""
    rows: list[int | None] = field(init=False)
    made: list[int] = field(init=False)
    spans: list[int] = field(init=False)
    state: StackState | None = None

    def __post_init__(self) -> None:
        self.rows, self.made, self.spans = [None] * self.count, [0] * self.count, [0] * self.count
        architecture, longest = self.model.architecture, max(map(len, self.prompts))
        self.source = 0 if self.start is None else longest
        """Positions of every source, padded: the state has places for so many."""
        self.before = self.source if architecture.source == "prefix" else architecture.virtual_tokens or 0
        """Slots in front of the first token."""
        self.longest = self.before + self.max_tokens + (longest if self.start is None else 1)
        """The most positions of a row."""
        self.most = self.longest + self.longest // (WASTE - 1) + self.multiple

    @property
    def free(self) -> list[int]:
        """The places without a row."""
        return [place for place, row in enumerate(self.rows) if row is None]

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
            self.rows[place], self.made[place], self.spans[place] = number, 0, self._span(number)
        return logits

    def settle(self, at: Sequence[int], ended: Callable[[int], bool]) -> None:
        """Count the tokens given at some places, and free those whose rows have ended."""
        for place in at:
            row = self.rows[place]
            if row is not None:
                self.made[place] += 1
                if self.made[place] == self.max_tokens or ended(row):
                    self.rows[place], self.spans[place] = None, 0
                    assert self.state is not None, "a row was read"
                    # Its positions count anew, so that they stay within a table's while the others go on.
                    self.state.slots.clear(torch.tensor([place], device=self.model.device))

    def advanced(self) -> StackState:
        """The state with a slot reserved for one more token of each row."""
        assert self.state is not None, "rows were read"
        waste = self.state.slots.used - max(self.spans)
        if self.state.slots.used % self.multiple == 0 and waste >= max(1, self.state.slots.used // WASTE):
            self.state.shift(-waste)
        self.state = self._grown(1)
        self.state.slots.reserve(1, self.multiple)
        self.spans = [span + (row is not None) for span, row in zip(self.spans, self.rows, strict=True)]
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
            self.began(tokens, padding, state, ReadInputs(images=joined(shown)))
            return logits
        # Every source has the same places, so that the next one fits where this one was.
        source = tokens.new_zeros(len(tokens), self.source)
        source[:, self.source - tokens.shape[1] :] = tokens
        real = torch.tensor([[len(self.prompts[number])] for number in numbers], device=tokens.device)
        unused = torch.arange(self.source, device=tokens.device) < self.source - real
        first = torch.full((len(tokens), 1), self.start, device=tokens.device)
        logits = read_source(self.model, source, unused, first, None, state)
        self.began(first, None, state, ReadInputs(source, self.source, unused))
        return logits
