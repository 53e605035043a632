"""What `anyformer inspect` is asked about: a model, a text, a position, and a token."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.evaluation import Subject
    from anyformer.inspecting import Metric


BLANK, EMPTY = "␣", "∅"
"""What stands for a blank in a token, and for a token of no text."""


@dataclass(frozen=True)
class InspectOptions:
    """What the model reads, and which of its answers is asked about."""

    text: Annotated[
        str | None,
        typer.Option(help="Have the model read this text, with what its tokenizer puts around it.", metavar="TEXT"),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(
            help="The corrupted text of --patching and --circuit: as many tokens, of which those differ that should matter.",
            metavar="TEXT",
        ),
    ] = None
    wanted: Annotated[
        str | None,
        typer.Option(help="Ask about the logit of this token. By default the likeliest one.", metavar="TOKEN"),
    ] = None
    other: Annotated[
        str | None,
        typer.Option(help="Ask about the difference to the logit of this token.", metavar="TOKEN"),
    ] = None
    position: Annotated[
        int, typer.Option(help="Ask at this position, from 0, or from -1, the last one, back.", metavar="NUMBER")
    ] = -1


def repeated(subject: Subject) -> Tensor | None:
    """Random tokens that come twice, as long as the model's texts at most and none of them special; None of a model that reads
    a source too."""
    from anyformer.inspecting import repeated_tokens
    from anyformer.text.specials import UNKNOWN

    tokenizer = subject.tokenizer
    if subject.model.architecture.two_inputs:
        return None
    if tokenizer is None:
        return repeated_tokens(subject.model, length=subject.length)
    unused = range(tokenizer.vocab_size, max(subject.model.architecture.vocabularies.values()))
    left_out = {*tokenizer.special_tokens.values(), *unused}
    if (unknown := tokenizer.number(UNKNOWN)) is not None:
        left_out.add(unknown)
    return repeated_tokens(subject.model, length=subject.length, without=left_out)


def repeated_in_words(tokens_BT: Tensor) -> str:
    """What `repeated` gave."""
    rows, length = tokens_BT.shape
    return f"{rows} rows of {length} tokens: {length // 2} random ones twice"


@dataclass(frozen=True)
class InspectedText:
    """A model and the prompt that it is asked about."""

    subject: Subject
    prompt: InspectOptions

    def tokens(self, text: str) -> Tensor:
        """(1, T)."""
        import torch

        tokenizer = self.subject.text
        return torch.tensor([tokenizer.framed(tokenizer.encode(text)).tokens], device=self.subject.model.device)

    @cached_property
    def clean(self) -> Tensor:
        """The tokens of the text, (1, T); refused where the position that is asked about is not among them."""
        from anyformer.describe import UserError

        assert self.prompt.text is not None, "checked"
        found, position = self.tokens(self.prompt.text), self.prompt.position
        if not -found.shape[1] <= position < found.shape[1]:
            raise UserError(
                f"--position {position}: the text has {found.shape[1]} tokens, so give one of 0 to {found.shape[1] - 1}"
            )
        return found

    @cached_property
    def corrupted(self) -> Tensor:
        """The tokens of the other text, (1, T); refused where they are not as many as those of the text."""
        from anyformer.describe import UserError

        assert self.prompt.against is not None, "checked"
        found = self.tokens(self.prompt.against)
        if found.shape != self.clean.shape:
            clean, corrupted = (
                f"{each.shape[1]} tokens ({' '.join(map(self.shown, each[0].tolist()))})" for each in (self.clean, found)
            )
            raise UserError(
                f"--text has {clean} and --against {corrupted}: values are exchanged position for position, so give as "
                "many tokens of both"
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
        tokenizer = self.subject.tokenizer
        if tokenizer is None:
            return str(number)
        return tokenizer.decode([number], special=True, clean=False).replace("\n", "\\n") or tokenizer.token(number) or ""

    def shown(self, number: int) -> str:
        """A token in a table or a picture, where its blanks are seen."""
        return self.word(number).replace(" ", BLANK) or EMPTY

    def token(self, option: str, text: str) -> int:
        """The number of the one token that an option names."""
        from anyformer.describe import UserError

        found = self.subject.text.encode(text)
        if len(found) != 1:
            said = " ".join(map(self.shown, found))
            raise UserError(
                f"{option} {text!r}: is {len(found)} tokens ({said}); give one, with its blank before it if it has one"
            )
        return found[0]

    @cached_property
    def numbers(self) -> tuple[int, int | None]:
        """The tokens that are asked about: the wanted one, and the one that it is compared with, if there is one."""
        import torch

        other = None if self.prompt.other is None else self.token("--other", self.prompt.other)
        if self.prompt.wanted is not None:
            return self.token("--wanted", self.prompt.wanted), other
        with torch.no_grad():
            return int(self.subject.model(self.clean)[0, self.prompt.position].argmax()), other

    @property
    def facts(self) -> dict[str, Any]:
        """What was asked."""
        if self.prompt.text is None:
            return {}
        wanted, other = self.numbers
        return {"tokens": self.words, "position": self.prompt.position, "wanted": self.word(wanted),
                "other": None if other is None else self.word(other)}  # fmt: skip

    @property
    def metric(self) -> Metric:
        """The logit that is asked about, or the difference."""
        import torch

        from anyformer.inspecting import LogitDifference, TokenLogit

        wanted, other = self.numbers
        if other is None:
            return TokenLogit(torch.tensor([wanted]), self.prompt.position)
        return LogitDifference(torch.tensor([wanted]), torch.tensor([other]), self.prompt.position)
