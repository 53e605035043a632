"""A model and the text that its decode state holds, which can go back to an earlier end of the text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyformer.generation.decode import Step, pad_left, prefill, read_on, read_source
from anyformer.generation.memory import grown
from anyformer.generation.rereading import ReadInputs, read_again, read_again_beyond
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackMark, StackState


class TextReader:
    """One text as a model reads it: `tokens` are those that the decode state holds, `passes` how often the model has run since
    the prompt. `most`: positions that the text will have at most; `step` and `multiple` as in `continuations`.
    """

    def __init__(self, model: Transformer, most: int, step: Step, multiple: int) -> None:
        self.model, self.step, self.multiple = model, step, multiple
        self.most = -(-most // multiple) * multiple
        self.tokens: list[int] = []
        self.passes = 0
        self._state: StackState | None = None
        self._source = 0
        self._mark: tuple[int, StackMark] | None = None
        self._inputs, self._beyond = ReadInputs(), read_again_beyond(model)

    def begin(self, prompt: Sequence[int], start: int | None) -> Tensor:
        """Read a prompt, or a source and the first token of its target; the logits of the next token, (1, V)."""
        tokens, _ = pad_left([prompt], self.model.device)
        if start is None:
            self.tokens = list(prompt)
            return prefill(self.model, tokens, None, self._room(len(prompt)))
        self.tokens, self._source, self._inputs = [start], len(prompt), ReadInputs(tokens, len(prompt))
        first = torch.tensor([[start]], device=self.model.device)
        return read_source(self.model, tokens, None, first, None, self._room(1))

    def read(self, tokens: Sequence[int]) -> Tensor:
        """Read further tokens; the logits after each, (T, V). Where a length asks for it the whole text is read again."""
        assert self._state is not None, "a prompt was read"
        held = self._state.slots.used
        within = min((length - held for length in self._beyond if held < length < held + len(tokens)), default=len(tokens))
        if within < len(tokens):
            return torch.cat([self.read(tokens[:within]), self.read(tokens[within:])])
        state = self._room(len(tokens))
        self.tokens += tokens
        self.passes += 1
        if held in self._beyond:
            return self._again(state, len(tokens))
        state.slots.reserve(len(tokens), self.multiple)
        given = torch.tensor(tokens, device=self.model.device)
        return self.step(self.model, given, state) if len(tokens) == 1 else read_on(self.model, given[None], state)[0]

    def mark(self, count: int) -> None:
        """Keep what `back` needs to forget any of the next `count` tokens."""
        self._mark = len(self.tokens), self._room(count).mark(count)

    def back(self, length: int) -> None:
        """Hold the first `length` tokens, which reach to the mark at least.

        Where the decode state can only go back to the mark itself, those behind it are read again; all of them, where all were
        read again since.
        """
        if length == len(self.tokens):
            return
        assert self._state is not None, "a prompt was read"
        if self._mark is None:
            del self.tokens[length:]
            self.passes += 1
            self._again(self._state, 1)
            return
        marked, mark = self._mark
        again = self.tokens[marked + self._state.back(mark, length - marked) : length]
        del self.tokens[length - len(again) :]
        if again:
            self.read(again)

    def _again(self, state: StackState, count: int) -> Tensor:
        """Read all tokens again; the logits after the last `count`, (T, V)."""
        self._mark = None
        tokens = torch.tensor([self.tokens], device=self.model.device)
        return read_again(self.model, tokens, None, state, self._inputs, count)[0]

    def _room(self, count: int) -> StackState:
        """The state with room for `count` more positions."""
        self._state = grown(self.model, self._state, 1, count, most=self.most, source=self._source)
        return self._state
