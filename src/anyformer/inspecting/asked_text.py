"""A model asked about a text: the tokens it reads, the position, and the token whose logit is followed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer.describe import UserError, did_you_mean
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.metrics import LogitDifference, Metric, TokenLogit
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer
from anyformer.text.definition import unknown, vocabulary

BLANK, EMPTY = "␣", "∅"
"""What stands for a blank in a token, and for a token of no text."""
HARDLY = 0.1
"""Logits between two texts that say little: a share of less is mostly rounding."""


def check_reads_tokens(architecture: Architecture, path: str | Path) -> None:
    """Refuse the model of a path that reads no tokens, so that no text can be asked about."""
    if not architecture.vocabularies:
        raise UserError(
            f"{path}: reads no tokens, and what is asked is about tokens: of a sparse dictionary open the source model, which "
            "objective.source of its run names, with the dictionary beside it; in Python look at any path by model.watch"
        )


@dataclass(frozen=True)
class AskedText:
    """A text and what is asked of it, as a user wrote it.

    `against`: the corrupted text. `wanted`: the token whose logit is asked about, None: the likeliest one at `position`;
    `other`: the token whose logit is subtracted. `named`: how whoever asks spells the name of a field, as in `--{}`.
    """

    model: Transformer
    tokenizer: Tokenizer
    text: str
    against: str | None = None
    wanted: str | None = None
    other: str | None = None
    position: int = -1
    named: str = "{}"

    def tokens(self, text: str) -> Tensor:
        """The tokens of a text with what the tokenizer puts around it, (1, T)."""
        return torch.tensor([self.tokenizer.framed(self.tokenizer.encode(text)).tokens], device=self.model.device)

    @cached_property
    def clean(self) -> Tensor:
        """The tokens of the text, (1, T); refused where the position that is asked about is not among them."""
        found, position = self.tokens(self.text), self.position
        if not -found.shape[1] <= position < found.shape[1]:
            raise UserError(
                f"{self._called('position')} {position}: the text has {found.shape[1]} tokens, so give one of 0 to "
                f"{found.shape[1] - 1}"
            )
        return found

    @cached_property
    def corrupted(self) -> Tensor:
        """The tokens of the other text, (1, T); refused where they are not as many as those of the text."""
        assert self.against is not None, "asked where there is one"
        found = self.tokens(self.against)
        if found.shape != self.clean.shape:
            clean, corrupted = (
                f"{each.shape[1]} tokens ({' '.join(map(self.shown, each[0].tolist()))})" for each in (self.clean, found)
            )
            raise UserError(
                f"{self._called('text')} has {clean} and {self._called('against')} {corrupted}: values are exchanged position "
                "for position, so give as many tokens of both"
            )
        return found

    @property
    def words(self) -> list[str]:
        """The tokens of the text, as they are read."""
        return [self.word(number) for number in self.clean[0].tolist()]

    @property
    def shown_words(self) -> list[str]:
        """The same in a table or a picture."""
        return [self.shown(number) for number in self.clean[0].tolist()]

    def word(self, number: int) -> str:
        """A token as it is read."""
        said = self.tokenizer.decode([number], special=True, clean=False).replace("\n", "\\n")
        return said or self.tokenizer.token(number) or ""

    def shown(self, number: int) -> str:
        """A token in a table or a picture, where its blanks are seen."""
        return self.word(number).replace(" ", BLANK) or EMPTY

    @cached_property
    def numbers(self) -> tuple[int, int | None]:
        """The tokens that are asked about: the wanted one, and the one that it is compared with, if there is one."""
        other = None if self.other is None else self._token("other", self.other)
        return self.likeliest(1)[0] if self.wanted is None else self._token("wanted", self.wanted), other

    def likeliest(self, count: int) -> list[int]:
        """The tokens that the model finds likeliest at the position behind the text, the likeliest first."""
        here_V = self._logits[0, self.position]
        found: list[int] = here_V.topk(min(count, len(here_V))).indices.tolist()
        return found

    @property
    def about(self) -> str:
        """What is asked about, in words."""
        wanted, other = self.numbers
        return f"logit of {self.shown(wanted)}" + ("" if other is None else f" less {self.shown(other)}")

    @property
    def facts(self) -> dict[str, Any]:
        """What was asked, as data."""
        wanted, other = self.numbers
        return {"tokens": self.words, "position": self.position, "wanted": self.word(wanted),
                "other": None if other is None else self.word(other)}  # fmt: skip

    @property
    def metric(self) -> Metric:
        """The logit that is asked about, or the difference."""
        wanted, other = self.numbers
        if other is None:
            return TokenLogit(torch.tensor([wanted]), self.position)
        return LogitDifference(torch.tensor([wanted]), torch.tensor([other]), self.position)

    def everywhere(self, number: int | None) -> Tensor | None:
        """A token at every position, (1, T); None of none."""
        return None if number is None else torch.full_like(self.clean, number)

    def of_both(self) -> tuple[float, float, str]:
        """What is asked about of the text and of the other one, and a remark where these hardly differ, else nothing."""
        with torch.no_grad():
            clean, corrupted = (
                float(self.metric(CallInputs(tokens).logits(self.model))) for tokens in (self.clean, self.corrupted)
            )
        if abs(clean - corrupted) >= HARDLY:
            return clean, corrupted, ""
        return clean, corrupted, (
            "these hardly differ, so a share of what lies between them says little: ask about tokens that the texts tell apart "
            f"({self._called('wanted')}, {self._called('other')}), or change another token in {self._called('against')}"
        )  # fmt: skip

    @cached_property
    def _logits(self) -> Tensor:
        with torch.no_grad():
            return CallInputs(self.clean).logits(self.model)

    def _token(self, field: str, text: str) -> int:
        """The number of the one token that a field names."""
        found = self.tokenizer.encode(text)
        if len(found) != 1:
            said = " ".join(map(self.shown, found))
            raise UserError(
                f"{self._called(field)} {text!r}: is {len(found)} tokens ({said}); give one, with its blank before it if it "
                "has one"
            )
        model = json.loads(self.tokenizer.completed)["model"]
        if found[0] == unknown(model) and text != self.tokenizer.token(found[0]):
            words = [self.word(number) for number in sorted(vocabulary(model).values()) if number != found[0]]
            raise UserError(
                f"{self._called(field)} {text!r}: is not in the vocabulary and would be read as {self.shown(found[0])}"
                f"{did_you_mean(text, words)}"
            )
        return found[0]

    def _called(self, field: str) -> str:
        return self.named.format(field)
