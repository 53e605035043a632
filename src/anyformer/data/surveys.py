"""A tokenizer from the text of one or several data that were read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from anyformer.data.progress import meter
from anyformer.data.tokenizer_specs import TokenizerSpec, learnt
from anyformer.data.vocabulary import make_tokenizer, sample
from anyformer.files import locked, replacing_directory
from anyformer.text.specials import Specials
from anyformer.text.tokenizers import Tokenizer

LEARN_IN_PROCESS_FROM = 4_000_000
"""Bytes of text from which tokens are learnt in a process of its own; below, a signal waits for less than a second."""


class Survey(Protocol):
    """What is known of data after one pass."""

    @property
    def bytes(self) -> int:
        """Size of the text that is not in `validation_paths`, in UTF-8."""

    def training(self) -> Iterator[str]:
        """The text that a tokenizer may learn from: none that is held out."""

    def everything(self) -> Iterator[str]:
        """The whole text."""


def learn_tokenizer(
    spec: TokenizerSpec, surveys: Sequence[tuple[Survey, float]], special: Specials, progress: bool
) -> Tokenizer:
    """The tokenizer that `spec` describes, for the text of all surveys, learnt from each in proportion to its weight.

    Of t bytes that it learns from, the `sample_bytes` or those of all surveys if these are fewer, t w_c / sum(w) are of survey
    c: taken evenly from it, or, where it has fewer, all of them as often as is needed.
    """
    wanted, total = learnt(spec), sum(weight for _, weight in surveys)
    size = sum(survey.bytes for survey, _ in surveys)
    learning = size if wanted is None else min(size, wanted.sample_bytes)

    def training() -> Iterator[str]:
        with meter("learning tokens", learning, progress) as advance:
            for survey, weight in surveys:
                for text in _repeated(survey, learning * weight / total / max(1, survey.bytes)):
                    advance(len(text.encode()))
                    yield text

    def everything() -> Iterator[str]:
        with meter("collecting characters", size, progress) as advance:
            for survey, _ in surveys:
                for text in survey.everything():
                    advance(len(text.encode()))
                    yield text

    return make_tokenizer(spec, training, everything, special, in_process=learning >= LEARN_IN_PROCESS_FROM)


def kept_tokenizer(folder: Path, make: Callable[[], Tokenizer]) -> Tokenizer:
    """The tokenizer in `tokenizer` of a folder: made by the first process that comes, for which the others wait."""
    path = folder / "tokenizer"
    with locked(folder / ".tokenizer.lock"):
        if not path.exists():
            with replacing_directory(path) as partial:
                make().beside.keep(partial)
    return Tokenizer.load(path)


def _repeated(survey: Survey, times: float) -> Iterator[str]:
    """The training text `times` times: whole, and at last a part that is spread evenly over it."""
    for _ in range(int(times)):
        yield from survey.training()
    yield from sample(survey.training(), times % 1) if times % 1 else ()
