"""The base of what sentences of the atlas come from: a sentence says what its source does, and one without is found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from anyformer.atlas.papers import CitedPaper

Verdict = Literal["holds", "fails", "open"]


@dataclass(frozen=True)
class SentenceSource:
    """The base of sources. `says`: the sentence that it stands for; `problem`: why it stands for none."""

    kind: ClassVar[str]

    @property
    def says(self) -> str:
        """The sentence."""
        raise NotImplementedError

    @property
    def cited(self) -> str:
        """What a reader is told that the sentence comes from."""
        raise NotImplementedError

    @property
    def command(self) -> str:
        """What one types to see the same; empty where a page is all there is."""
        return ""

    @property
    def page(self) -> str:
        """The file of the repository that holds it; empty of what is computed."""
        return ""

    @property
    def papers(self) -> tuple[CitedPaper, ...]:
        """The papers that it names."""
        return ()

    @property
    def verdict(self) -> Verdict | None:
        """What became of what it says, where that was tested."""
        return None

    def problem(self) -> str | None:
        """Why it does not resolve; None if it does."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page, and its source."""

    text: str
    source: SentenceSource

    @classmethod
    def of(cls, source: SentenceSource) -> Sentence:
        """What a source says."""
        return cls(source.says, source)

    def problem(self) -> str | None:
        """Why nothing stands behind it; None if its source is there and says just this."""
        if found := self.source.problem():
            return found
        return None if self.source.says == self.text else f"{self.source.cited} does not say {self.text!r}"


def problems(sentences: Iterable[Sentence]) -> tuple[str, ...]:
    """What is wrong with some sentences."""
    return tuple(found for each in sentences if (found := each.problem()) is not None)
