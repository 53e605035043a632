"""Questions with several answers, of which the model takes the likeliest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from anyformer.data.fields import field_of, text_field
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.data.rows import rows
from anyformer.evaluation.decoder_likelihood import target_scores
from anyformer.evaluation.intervals import Interval, PairedDifference, paired, share
from anyformer.evaluation.likelihood import Request, pair, prefix_of, scores
from anyformer.evaluation.subject import Subject
from anyformer.text import Tokenizer
from anyformer.text.sides import Sides


@dataclass(frozen=True)
class ChoiceQuestion:
    """A text, its possible continuations, and the number of the right one."""

    context: str
    choices: tuple[str, ...]
    answer: int


@dataclass(frozen=True)
class Answered:
    """A question's log-likelihoods, one per choice."""

    question: ChoiceQuestion
    log_likelihoods: tuple[float, ...]

    @property
    def chosen(self) -> int:
        """The likeliest choice."""
        return self.log_likelihoods.index(max(self.log_likelihoods))

    @property
    def chosen_by_character(self) -> int:
        """The likeliest choice by log-likelihood divided by its number of characters, so that long ones are not put behind."""
        each = [total / max(1, len(choice)) for total, choice in zip(self.log_likelihoods, self.question.choices, strict=True)]
        return each.index(max(each))


@dataclass(frozen=True)
class ChoiceResults:
    """A model's answers to all questions, and the shares of them that are right."""

    answered: tuple[Answered, ...]

    @property
    def right(self) -> tuple[bool, ...]:
        """Whether the likeliest choice is right."""
        return tuple(each.chosen == each.question.answer for each in self.answered)

    @property
    def right_by_character(self) -> tuple[bool, ...]:
        """Whether the likeliest choice by character is right."""
        return tuple(each.chosen_by_character == each.question.answer for each in self.answered)

    @property
    def accuracy(self) -> Interval:
        """The share of right answers by log-likelihood."""
        return share(sum(self.right), len(self.right))

    @property
    def accuracy_by_character(self) -> Interval:
        """The share of right answers by log-likelihood per character."""
        return share(sum(self.right_by_character), len(self.right))

    @property
    def chance(self) -> float:
        """The accuracy of drawing blindly."""
        return sum(1 / len(each.question.choices) for each in self.answered) / len(self.answered)


def read_questions(path: Path) -> list[ChoiceQuestion]:
    """The questions of a file of records: `context` or `question`, `choices`, and `answer`, a number from 0 or a choice."""
    found = [_question(row) for row in rows(str(path))]
    if not found:
        raise BadRecord(str(path), "holds no question", "give records with question, choices and answer")
    return found


def _question(row: RecordRow) -> ChoiceQuestion:
    name = "context" if "context" in row.values else "question"
    context, choices = text_field(row, name), field_of(row, "choices")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(each, str) and each for each in choices):
        raise BadRecord(row.where, f"field 'choices' should be two or more texts, got {shown(choices)}", "write them as a list")
    if len(set(choices)) < len(choices):
        twice = next(one for one, two in pairwise(sorted(choices)) if one == two)
        raise BadRecord(row.where, f"field 'choices' has {shown(twice)} twice", "give every choice once")
    return ChoiceQuestion(context, tuple(choices), _answer(row, choices))


def _answer(row: RecordRow, choices: Sequence[str]) -> int:
    answer = field_of(row, "answer")
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(choices):
        return answer
    if isinstance(answer, str) and answer in choices:
        return choices.index(answer)
    raise BadRecord(
        row.where, f"field 'answer' is {shown(answer)}, and there are {len(choices)} choices",
        f"give a number from 0 to {len(choices) - 1}, or one of the choices",
    )  # fmt: skip


def asked(subject: Subject, question: ChoiceQuestion) -> list[Request]:
    """A request per choice. A space stands between the text and a choice, unless either brings white space."""
    tokenizer, context = subject.text, question.context
    return [pair(tokenizer, context, joined(context, choice)) for choice in question.choices]


def joined(context: str, choice: str) -> str:
    """A choice as it stands behind the text: after a space, unless either brings white space."""
    bare = not context or context[-1:].isspace() or choice[:1].isspace()
    return choice if bare else f" {choice}"


def answer(
    subject: Subject, questions: Sequence[ChoiceQuestion], progress: Callable[[int], None] = lambda done: None
) -> ChoiceResults:
    """The log-likelihood of each choice of each question. `progress` is called with the choices scored so far.

    A model with two inputs reads the text before a choice as its source, and the choice is its target.
    """
    if subject.model.architecture.two_inputs:
        sides = Sides.of(subject.text)
        requests = [as_targets(subject.text, sides, question) for question in questions]
        flat = [request for each in requests for request in each]
        together = [flat] if sides.start is not None else [[request] for request in flat]
        told = [each for those in together for each in target_scores(subject.model, those, _before(sides, those[0]))]
        progress(len(flat))
    else:
        requests = [asked(subject, question) for question in questions]
        flat = [request for each in requests for request in each]
        told = scores(subject.model, flat, subject.length, progress=progress, reader=subject.reader)
    found = iter(told)
    return ChoiceResults(
        tuple(
            Answered(question, tuple(next(found).log_likelihood for _ in each))
            for question, each in zip(questions, requests, strict=True)
        )
    )


def as_targets(tokenizer: Tokenizer, sides: Sides, question: ChoiceQuestion) -> list[Request]:
    """A request per choice as lm-evaluation-harness makes them: the framed text is the source, and white space at its end
    begins the target."""
    context = question.context.rstrip()
    source = tuple(sides.source.framed([tokenizer.encode(context)]).tokens) if question.context else (prefix_of(tokenizer),)
    blanks = question.context[len(context) :]
    return [Request(source, tuple(tokenizer.encode(blanks + joined(question.context, choice)))) for choice in question.choices]


def _before(sides: Sides, request: Request) -> tuple[int, ...]:
    """What a decoder reads before a choice: its first token, which some models take from the end of the target."""
    return (sides.entered(request.continuation)[0],)


def better(first: ChoiceResults, second: ChoiceResults) -> PairedDifference:
    """The difference of two models' accuracies on the same questions."""
    ones = [1.0] * len(first.right)
    return paired(first.right, second.right, ones, unit="questions", lower=False)
