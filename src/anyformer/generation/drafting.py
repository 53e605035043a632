"""Drafters: what proposes the tokens of speculative decoding, from the text so far or from a smaller model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.checks import check, check_model
from anyformer.generation.reader import TextReader
from anyformer.generation.sampling import Sampling
from anyformer.generation.steps import stepper
from anyformer.model.transformer import Transformer

DRAFTED = 1
"""The site of the draws of a draft model (`Sampling.uniform`)."""


@dataclass(frozen=True)
class Proposal:
    """Tokens (k) that may follow, and the distribution (k, V) that each was drawn from; None where none was drawn."""

    tokens: list[int]
    drawn_from: Tensor | None = None


class Proposer(Protocol):
    """What proposes for one text."""

    def propose(self, text: Sequence[int], index: int, most: int) -> Proposal:
        """Up to `most` tokens, from number `index` on, that may follow `text`, which goes on from that of the call before."""
        ...


class Drafter(Protocol):
    """A way to propose tokens."""

    def check(self, model: Transformer, prompts: Sequence[Sequence[int]], max_tokens: int, start: int | None) -> None:
        """Refuse, before any work, what it cannot propose for."""
        ...

    def begin(self, prompt: Sequence[int], start: int | None, row: int, sampling: Sampling, max_tokens: int) -> Proposer:
        """What proposes for row number `row`: the text after a prompt, or of a source the target after its first token."""
        ...


@dataclass(frozen=True)
class Lookup:
    """Proposes what followed the last tokens where they stood before, in the prompt or in the text so far.

    Saxena 2023 (prompt lookup decoding). It costs no pass of a model, and helps where a text repeats parts of its prompt.
    """

    tokens: int = 8
    """Tokens proposed at most."""
    longest: int = 4
    """The last so many tokens are looked up, then fewer."""
    shortest: int = 2

    def __post_init__(self) -> None:
        if not (self.tokens >= 1 and 1 <= self.shortest <= self.longest):
            raise InputError(
                f"a lookup of {self.shortest} to {self.longest} tokens that proposes {self.tokens} proposes nothing: "
                f"all should be at least 1, and shortest at most longest"
            )

    def check(self, model: Transformer, prompts: Sequence[Sequence[int]], max_tokens: int, start: int | None) -> None:
        """There is nothing that it refuses."""

    def begin(self, prompt: Sequence[int], start: int | None, row: int, sampling: Sampling, max_tokens: int) -> Looking:
        # A target often repeats its source, where both have one vocabulary; what is proposed is verified.
        return Looking(self, [] if start is None else list(prompt))


@dataclass
class Looking:
    """Proposes for one text; `source` stands before the text."""

    lookup: Lookup
    source: list[int]
    _seen: list[int] = field(default_factory=list)
    _after: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Where the tokens after a run of tokens begin, the latest place of each run."""

    def propose(self, text: Sequence[int], index: int, most: int) -> Proposal:
        whole = [*self.source, *text]
        sizes = range(self.lookup.longest, self.lookup.shortest - 1, -1)
        # The run at the very end is looked up before it is filed, or it would find itself.
        for end in range(len(self._seen), len(whole)):
            for size in sizes:
                if size <= end:
                    self._after[tuple(whole[end - size : end])] = end
        self._seen = whole
        for size in sizes:
            found = self._after.get(tuple(whole[-size:])) if size < len(whole) else None
            if found is not None:
                return Proposal(whole[found : found + min(self.lookup.tokens, most)])
        return Proposal([])


@dataclass(frozen=True)
class Draft:
    """A smaller model of the same vocabulary writes ahead."""

    model: Transformer
    tokens: int = 4
    """Tokens proposed at most."""
    compile: bool | None = False

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise InputError(f"a draft of {self.tokens} tokens proposes nothing: propose 1 at least")

    def check(self, model: Transformer, prompts: Sequence[Sequence[int]], max_tokens: int, start: int | None) -> None:
        own, other = self.model.architecture, model.architecture
        check_model(self.model)
        if own.outputs != other.outputs:
            raise InputError(
                f"the draft model's vocabulary has {own.outputs} tokens, and the model's {other.outputs}: "
                f"both need the same one"
            )
        if own.two_inputs != other.two_inputs:
            raise InputError(
                f"the draft model is {own.shape_of_model}, and the model {other.shape_of_model}: both must read the same inputs"
            )
        check(self.model, prompts, max_tokens, start, batch=1)

    def begin(self, prompt: Sequence[int], start: int | None, row: int, sampling: Sampling, max_tokens: int) -> Writing:
        step, multiple = stepper(max_tokens, self.compile)
        reader = TextReader(self.model, max_tokens + (len(prompt) if start is None else 1), step, multiple)
        reader.begin(prompt, start)
        # Whatever it draws from, what is taken has the model's distribution: parts that read the text are left to the model.
        return Writing(reader, self.tokens, row, sampling.alone)


@dataclass
class Writing:
    """Proposes for one text, which the draft model's decode state holds as far as it was accepted."""

    reader: TextReader
    tokens: int
    row: int
    sampling: Sampling

    def propose(self, text: Sequence[int], index: int, most: int) -> Proposal:
        count, reader = min(self.tokens, most), self.reader
        if count < 1:
            return Proposal([])
        # All of the text but its last token was there, or was proposed and taken; behind it stands what was refused.
        reader.back(min(len(reader.tokens), len(text) - 1))
        logits = reader.read(list(text[len(reader.tokens) :]))[-1:]
        if count > 1:
            reader.mark(count - 1)
        rows = torch.tensor([self.row], device=logits.device)
        tokens, drawn = list[int](), list[Tensor]()
        for number in range(count):
            if self.sampling.greedy:
                chosen = self.sampling.scores(logits, index=index + number).argmax(-1)
            else:
                drawn.append(self.sampling.distribution(logits, index=index + number))
                chosen = self.sampling.draw(drawn[-1], self.sampling.uniform(rows, index + number, DRAFTED))
            tokens.append(int(chosen))
            if number + 1 < count:
                logits = reader.read(tokens[-1:])
        return Proposal(tokens, torch.cat(drawn) if drawn else None)
