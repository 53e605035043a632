"""`Reward`: the base of rewards, as a value; what it reads (`Query`, `Response`), and what it gives (`Grade`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from anyformer.describe import Registry, UserError, Value
from anyformer.tasks.question import TaskQuestion
from anyformer.text.tokenizers import Tokenizer

_SHOWN = 200
"""Characters of a text that an error shows."""


class RewardError(UserError):
    """A reward cannot be had, or cannot grade an answer: the message says which, of which prompt, and the remedy."""


@dataclass(frozen=True)
class Query:
    """What was asked: the prompt's text, the fields of the record that it came from, and the question of a generated task."""

    text: str
    record: Mapping[str, Any] = field(default_factory=dict)
    question: TaskQuestion | None = None

    @classmethod
    def of(cls, question: TaskQuestion) -> Self:
        """That of a generated task."""
        return cls(question.text, question=question)

    @property
    def shown(self) -> str:
        """The prompt in an error, cut."""
        return shown(self.text)


@dataclass(frozen=True)
class Response:
    """What a model gave: its text, its tokens and their spellings, without the token that ends it; `ended`: whether it ended by
    itself, and was not cut at the most tokens that it might have."""

    text: str
    tokens: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    ended: bool = True

    @classmethod
    def of(cls, tokens: Sequence[int], tokenizer: Tokenizer, *, ended: bool) -> Self:
        """That of sampled tokens; ends of text among them are left out."""
        kept = tuple(token for token in tokens if token not in tokenizer.ends)
        names = tuple(tokenizer.token(token) or "" for token in kept)
        return cls(tokenizer.decode(kept), kept, names, ended)


@dataclass(frozen=True)
class Grade:
    """What an answer is worth, a finite number, and the numbers that it is made of, by name; both are logged."""

    total: float
    parts: Mapping[str, float] = field(default_factory=dict)


Pair = tuple[Query, Response]


class Judge(Protocol):
    """A model that grades. Whoever reads models makes it, from the path that a reward names."""

    @property
    def held(self) -> int:
        """Bytes of its weights."""

    def __call__(self, pairs: Sequence[Pair]) -> Sequence[float]:
        """A number per prompt and answer."""


NO_JUDGES: Mapping[str, Judge] = {}


class Reward(Value):
    """What an answer is worth. The base of rewards; its kind alone stands for its defaults.

    A reward is a pure function of the prompt, its record and the answer. `grade` gives that of one answer, `grades` of many.
    """

    kinds: ClassVar[Registry] = Registry()
    bare: ClassVar[bool] = True
    kind: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields of records that it reads, as `a.b` where they lie inside others."""
        return ()

    @property
    def models(self) -> tuple[str, ...]:
        """The paths of the models that grade, for which `grades` wants judges."""
        return ()

    @property
    def reads_tokens(self) -> bool:
        """Whether it reads the answer's tokens, and not its text alone."""
        return False

    def check(self) -> None:
        """Refuse, before any work, what cannot be graded here: a package or a sandbox that this machine lacks."""

    def grade(self, query: Query, response: Response) -> Grade:
        """The grade of one answer; `RewardError` names the prompt of what cannot be graded."""
        raise NotImplementedError

    def grades(self, pairs: Sequence[Pair], judges: Mapping[str, Judge] = NO_JUDGES) -> list[Grade]:
        """Those of many answers, in their order; `judges` by the paths of `models`."""
        return [self.grade(query, response) for query, response in pairs]


def shown(text: str) -> str:
    """A text in an error: quoted, and cut where it is long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
