"""`Decoding`: how a text is continued where nothing else is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from anyformer.describe import InputError, Value
from anyformer.generation.beams import Beams
from anyformer.generation.processors import Processor, TemperatureWarper, WithinVocabulary
from anyformer.generation.sampling import Sampling

MOST = 128
"""New tokens of a text where nobody says how many."""


@dataclass(frozen=True)
class Decoding:
    """How the next tokens are chosen, how many texts are made of a prompt, and where they end."""

    sampling: Sampling
    beams: Beams | None = None
    answers: int = 1
    max_tokens: int | None = None
    """New tokens at most."""
    max_length: int | None = None
    """Tokens of the prompt and of what follows at most, where `max_tokens` is None."""
    stop: tuple[str, ...] = ()
    max_time: float | None = None
    """Seconds after which all texts end."""

    def __post_init__(self) -> None:
        if self.answers > 1 and self.beams is None and self.sampling.greedy:
            raise InputError(
                f"{self.answers} answers of one prompt would all be the same, since all take the likeliest token: draw them "
                f"(temperature above 0), or search with beams"
            )
        if self.beams is not None and self.answers > self.beams.count:
            raise InputError(f"{self.answers} answers are more than the {self.beams.count} beams: search with as many beams")

    def most(self, longest: int) -> int:
        """New tokens at most behind prompts of which the longest has so many tokens."""
        if self.max_tokens is not None or self.max_length is None:
            return self.max_tokens or MOST
        if longest >= self.max_length:
            raise InputError(
                f"the prompt has {longest:,} tokens, and the model's max_length for prompt and text together is "
                f"{self.max_length:,}: say how many new tokens you want (max_tokens)"
            )
        return self.max_length - longest

    def over(self) -> Callable[[], bool] | None:
        """Whether `max_time` has passed since now; None without one."""
        if self.max_time is None:
            return None
        until = time.monotonic() + self.max_time
        return lambda: time.monotonic() > until

    def __str__(self) -> str:
        """The choice in words: `temperature 0.6, top-p 0.95`."""
        drawn = "the likeliest token" if self.beams is None else ""
        if not self.sampling.greedy:
            drawn = f"temperature {self.sampling.temperature:g}"
        searched = "" if self.beams is None else f"{self.beams.count} beams" + _words(self.beams, ("count",))
        parts = [part for part in self.sampling.parts if not isinstance(part, TemperatureWarper | WithinVocabulary)]
        several = f"{self.answers} answers" if self.answers > 1 else ""
        stops = f"stop before {', '.join(map(repr, self.stop))}" if self.stop else ""
        return ", ".join(word for word in (searched, drawn, *map(_told, parts), several, stops) if word)


def _words(value: Value, without: tuple[str, ...] = ()) -> str:
    """The fields that are not at their defaults."""
    fields = type(value).model_fields
    moved = {name: held for name in fields if (held := getattr(value, name)) != fields[name].default and name not in without}
    return "".join(f", {name.replace('_', ' ')} {_short(held)}" for name, held in moved.items())


def _told(part: Processor) -> str:
    """`top-p 0.95`, `no repeat n grams 3`."""
    held = " ".join(_short(getattr(part, name)) for name, field in type(part).model_fields.items() if field.repr)
    return f"{part.name} {held}".strip()


def _short(held: object) -> str:
    if isinstance(held, float):
        return f"{held:g}"
    return str(held) if not isinstance(held, tuple) or len(held) < 5 else f"{len(held)} of them"
