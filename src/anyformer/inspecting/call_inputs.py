"""What a model is called with while it is inspected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.model.transformer import Transformer


def pools(model: Transformer) -> bool:
    """Whether the head reads all positions together."""
    return model.architecture.head is not None and model.architecture.head.pool is not None


@dataclass(frozen=True, eq=False)
class CallInputs:
    """The inputs of one call: `tokens` (B, T), of two inputs the source with `decoder_tokens` (B, T) behind it.

    `options`: further inputs of `Transformer.features` by name, such as padding, one row for each of the B.
    """

    tokens: Tensor
    decoder_tokens: Tensor | None = None
    options: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Tensor | CallInputs) -> CallInputs:
        """Tokens alone are a prompt too."""
        return given if isinstance(given, CallInputs) else cls(given)

    def __len__(self) -> int:
        """B."""
        return len(self.tokens)

    @property
    def read(self) -> Tensor:
        """The tokens (B, T) whose positions the head answers."""
        return self.tokens if self.decoder_tokens is None else self.decoder_tokens

    def logits(self, model: Transformer) -> Tensor:
        """The logits of the call, (B, T, V); of a head that pools positions (B, 1, V)."""
        found: Tensor = model(self.tokens, self.decoder_tokens, **self.options)
        return found[:, None] if pools(model) else found

    def repeated(self, times: int) -> CallInputs:
        """All rows, `times` one behind the other: (times * B, T)."""
        second = None if self.decoder_tokens is None else torch.cat([self.decoder_tokens] * times)
        options = {name: torch.cat([value] * times) for name, value in self.options.items()}
        return CallInputs(torch.cat([self.tokens] * times), second, options)

    def rolled(self) -> CallInputs:
        """Every row in the place of the next one, the last first. Raises `InputError` of a single row."""
        if len(self) < 2:
            raise InputError(
                "a resampled value is one of another row, and there is a single row: give reference=, as many rows of other "
                "tokens, or 2 rows at least"
            )
        second = None if self.decoder_tokens is None else self.decoder_tokens.roll(1, 0)
        return CallInputs(self.tokens.roll(1, 0), second, {name: value.roll(1, 0) for name, value in self.options.items()})

    def exchanges_with(self, other: CallInputs) -> None:
        """Refuse a prompt whose values cannot stand in the place of this one's, or that is the same."""
        mine, theirs = (tuple(each.read.shape) for each in (self, other))
        if mine != theirs:
            raise InputError(
                f"one prompt is {mine} and the other {theirs}: values are exchanged row for row and position for position, so "
                "give as many rows and as many tokens of both"
            )
        same = torch.equal(self.tokens, other.tokens) and torch.equal(self.read, other.read)
        if same and self.options.keys() == other.options.keys() == set():
            raise InputError(
                "both prompts are the same tokens, so nothing differs between them: change the token of interest in one"
            )
