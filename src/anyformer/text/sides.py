"""`Sides`: what stands around a source and around its target, and what a decoder reads before the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anyformer.describe import did_you_mean
from anyformer.text.beside import CONFIG
from anyformer.text.errors import DataError
from anyformer.text.frame import Around
from anyformer.text.languages import spoken
from anyformer.text.tokenizers import Tokenizer

_WRAPPED = ("mbart", "plbart")
"""Types of models whose decoder begins with the last token of the target, which names its language."""

_REPLACED = ("blip",)
"""Types of models whose first token takes the place of what the tokenizer puts before a text."""


@dataclass(frozen=True)
class Sides:
    """What a model with two inputs reads: a source, and a target shifted right behind a first token.

    `start`: that token; None: the last token of each target (Liu et al. 2020, mBART, arXiv 2001.08210).
    """

    source: Around
    target: Around
    start: int | None

    @classmethod
    def of(cls, tokenizer: Tokenizer, source_language: str | None = None, target_language: str | None = None) -> Sides:
        """As transformers' `tokenizer(text, text_target=...)` and the model's own shift have them.

        A target ends in the token that ends a text where the tokenizer puts nothing behind it; it is also what a decoder
        starts from whose authors say nothing, as of models that are trained here. Languages: of a tokenizer that names them,
        by default those of its configuration.
        """
        names = (source_language, target_language)
        asked = {key: name for key, name in zip(("source_language", "target_language"), names, strict=True) if name is not None}
        config = tokenizer.beside.table(CONFIG)
        found = spoken(tokenizer.config, config)
        if found is None:
            for key, name in asked.items():
                raise DataError(f"{key} = {name!r}: this tokenizer puts no language around a text; leave it out")
            source = target = tokenizer.frame.single
        else:
            for key, name in asked.items():
                _check(key, name, tokenizer)
            own = source_language or found.source
            source = found.frame(own, tokenizer.number, tokenizer.end).single
            answered = target_language or found.target or own
            target = found.frame(answered, tokenizer.number, tokenizer.end).single
        if config.get("model_type") in _REPLACED:
            target = replace(target, parts=((), *target.parts[1:]))
        wrapped = config.get("model_type") in _WRAPPED
        return cls(source, target if target.behind else target.ending(tokenizer.end), None if wrapped else start_of(tokenizer))

    @classmethod
    def of_running_text(cls, tokenizer: Tokenizer) -> Sides:
        """Of sources and targets that are both made of one text: a source ends in the token that ends a text, too."""
        found = cls.of(tokenizer)
        return found if found.source.behind else replace(found, source=found.source.ending(tokenizer.end))

    @property
    def opening(self) -> tuple[int, ...]:
        """What the decoder reads before the text of a target."""
        return (self.target.behind[-1] if self.start is None else self.start, *self.target.before)

    @property
    def beyond(self) -> int:
        """The special tokens of a side beyond a single one at its end, the more of the two."""
        return max(self.sizes((0, 0)))

    def sizes(self, ended: tuple[int, int]) -> tuple[int, int]:
        """The tokens of a source and a target that have so many with a single special token at their ends."""
        return ended[0] + self.source.count - 1, ended[1] + self.target.count - 1

    def entered(self, target: Sequence[int]) -> list[int]:
        """What the decoder reads to predict the tokens of a framed target."""
        return [target[-1] if self.start is None else self.start, *target[:-1]]


def start_of(tokenizer: Tokenizer) -> int:
    """What a decoder reads before everything: the authors' token, else the one that ends a text."""
    return tokenizer.end if tokenizer.start is None else tokenizer.start


def _check(key: str, name: str, tokenizer: Tokenizer) -> None:
    known: Mapping[str, int] = tokenizer.special_tokens
    if name not in known:
        raise DataError(f"{key} = {name!r}: is no language of this tokenizer{did_you_mean(name, known)}")
