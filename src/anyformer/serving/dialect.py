"""`Dialect`: how a request and its answer are written: as a completion, or as a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from anyformer.serving.forms import TokenNames
from anyformer.serving.gathered import GatheredText
from anyformer.serving.served_model import AskedTexts, ServedModel


class Dialect(Protocol):
    """The forms of one address."""

    @property
    def prefix(self) -> str:
        """Of an answer's name."""
        ...

    @property
    def whole(self) -> str:
        """What an answer says that it is."""
        ...

    @property
    def piece(self) -> str:
        """What a piece of one says that it is."""
        ...

    def asked(self, model: ServedModel, body: bytes) -> AskedTexts:
        """What a body asks for."""
        ...

    def opening(self, place: int) -> Mapping[str, Any] | None:
        """The choice of a piece that comes before the first of text number `place`, if there is one."""
        ...

    def choice(self, asked: AskedTexts, place: int, found: GatheredText, names: TokenNames) -> dict[str, Any]:
        """A text that is whole."""
        ...

    def pieces(self, asked: AskedTexts, place: int, names: TokenNames) -> TextPieces:
        """What writes the pieces of text number `place`."""
        ...


class TextPieces(Protocol):
    """The pieces of one text, as they come."""

    def part(self, found: GatheredText) -> dict[str, Any] | None:
        """The choice of a piece in which `found` came. None where it says nothing."""
        ...


def made(asked: AskedTexts, found: Sequence[GatheredText]) -> int:
    """Tokens that were made."""
    return sum(len(each.tokens) for each in found) if asked.shown else 0
