"""What `anyformer inspect` is asked about: a model, a text, a position, and a token."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.evaluation import Subject
    from anyformer.inspecting import AskedText


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

    @cached_property
    def question(self) -> AskedText:
        """The text, and what is asked of it."""
        from anyformer.inspecting import AskedText

        prompt = self.prompt
        assert prompt.text is not None, "checked"
        return AskedText(
            self.subject.model, self.subject.text, prompt.text, prompt.against, prompt.wanted, prompt.other, prompt.position,
            named="--{}",
        )  # fmt: skip

    @property
    def facts(self) -> dict[str, Any]:
        """What was asked."""
        return {} if self.prompt.text is None else self.question.facts
