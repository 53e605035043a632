"""The cases that an engine is asked, in the order in which they say what is wrong."""

from collections.abc import Sequence

from anyformer.conforming.cases.batch import batch
from anyformer.conforming.cases.cached import cached
from anyformer.conforming.cases.case import ConformCase, NotAskedError
from anyformer.conforming.cases.chunked import chunked
from anyformer.conforming.cases.decode import decode
from anyformer.conforming.cases.ends import ends
from anyformer.conforming.cases.lengths import lengths
from anyformer.conforming.cases.long import long
from anyformer.conforming.cases.plain import plain
from anyformer.conforming.cases.prompt import prompt
from anyformer.conforming.cases.reset import reset
from anyformer.conforming.cases.shared import shared
from anyformer.conforming.cases.temperature import temperature
from anyformer.conforming.cases.text import text
from anyformer.conforming.cases.vocabulary import vocabulary
from anyformer.conforming.cases.windowed import windowed
from anyformer.describe import UserError, did_you_mean

CASES = (
    plain, reset, lengths, prompt, decode, vocabulary, text, ends, temperature, windowed, chunked, long, batch, cached, shared,
)  # fmt: skip
BY_NAME = {case.name: case for case in CASES}


def chosen(names: Sequence[str]) -> tuple[ConformCase, ...]:
    """The cases of these names in their order, all of them without one; `UserError` names what is none."""
    for name in names:
        if name not in BY_NAME:
            raise UserError(f"there is no case {name!r}{did_you_mean(name, BY_NAME)}")
    return tuple(case for case in CASES if not names or case.name in names)


__all__ = ["BY_NAME", "CASES", "ConformCase", "NotAskedError", "chosen"]
