"""Distillation: the data's own targets, and a teacher's probabilities of all tokens, or of the likeliest ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from anyformer.data import IGNORED, Corpus, Data, Text
from anyformer.describe import Count, with_kind
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, Partner, SampleSizes
from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import PENALTY, Objective, Partners, Setting, Totals, without_penalties
from anyformer.objectives.teacher_answers import ANSWER_BYTES, AskedTeacher, kept_divergence
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.text import Specials


class DistillationObjective(Objective):
    """A student learns from the data and from a teacher: (1 - alpha) L + alpha T^2 sum_i KL(teacher_i || student_i).

    L is the loss of another objective, `of`; the divergence is between the softmax of the logits divided by the temperature T,
    at every position where `of` has a target, and T^2 keeps its gradients as large as those of L (Hinton et al. 2015, arXiv
    1503.02531, section 2). Held-out loss is L alone, to be compared with that of a student without a teacher.

    With `kept` the divergence is that of k + 1 outcomes, the teacher's k likeliest tokens and all others together
    (`kept_divergence`): the teacher is asked before the first update, and is not in memory while the student learns.
    """

    reads: ClassVar[type[Data]] = Text
    kind: Literal["distillation"] = "distillation"
    teacher: Annotated[str, Field(min_length=1)]
    """The teacher: a run, a checkpoint, or a directory of Hugging Face's layout, with the tokenizer of the data."""
    temperature: Annotated[float, Field(gt=0)] = 2.0
    """T, by which the logits of both are divided; a higher one shows more of what the teacher finds unlikely."""
    alpha: Annotated[float, Field(ge=0, le=1), PENALTY] = 0.5
    """The teacher's share of the loss; 1 leaves the data's own targets out. An evaluation has none of it."""
    of: Annotated[Objective, BeforeValidator(with_kind("causal"))] = CausalObjective()
    """The objective whose examples the teacher is asked about, such as `causal`, `masked` or `instruction`."""

    kept: Count | None = None
    """k: the teacher's k likeliest tokens per target are computed once, before the first update, and kept on disk, so that
    the teacher is not in memory while the student learns; enough to hold most of its probability, which a line of the run says.
    Absent: it is asked at every update, for all tokens."""

    @model_validator(mode="after")
    def _predicts_tokens(self) -> DistillationObjective:
        inner = self.of
        if not isinstance(inner, TokenObjective) or not inner.teachable or inner.partners:
            raise ValueError(f"of.kind = {inner.kind!r} gives no logits that a teacher could be asked for: choose 'causal'")
        if inner.balance_loss or inner.sequence_balance_loss or inner.router_z_loss:
            raise ValueError("the experts' losses are those of the whole objective: give them beside `of`, and not inside")
        return self

    @property
    def _tokens(self) -> TokenObjective:
        assert isinstance(self.of, TokenObjective), "checked when it was described"
        return self.of

    @property
    def partners(self) -> Mapping[str, Partner]:
        asked = None
        if self.kept is not None:
            facts = {"of": without_penalties(self.of).plain()}
            asked = AskedTeacher(self.teacher, self.kept, self.temperature, facts, self._logits_of)
        return {"teacher": Partner(path=self.teacher, check=self._check_teacher, asked=asked)}

    @property
    def traits(self) -> LossTraits:
        return LossTraits(prompt=self.of.traits.prompt, unread=self.of.traits.unread)

    @property
    def sizes(self) -> SampleSizes:
        own = self.of.sizes
        return replace(own, position_bytes=own.position_bytes + ANSWER_BYTES * (self.kept or 0), loss_bytes=self._loss_bytes)

    def _loss_bytes(self, logits: int, each: int) -> int:
        # Of all tokens, the gradients of both logarithms and what they are made of; of the likeliest, those of log Z alone.
        return logits * (4 if self.kept is None else 3)

    def _check_teacher(self, partner: Architecture, own: Architecture) -> None:
        """Refuse a teacher that gives other logits than the student, or cannot be asked about these examples."""
        if partner.outputs != own.outputs:
            raise ValueError(
                f"objective.teacher = {self.teacher!r} gives {partner.outputs} logits and the student {own.outputs}: both "
                "predict the same tokens; give the student the teacher's vocabulary and tokenizer"
            )
        try:
            self.of.check(partner)
        except ValueError as error:
            raise ValueError(f"objective.teacher = {self.teacher!r} cannot be asked about these examples: {error}") from None

    def check(self, architecture: Architecture) -> None:
        """Refuse what `of` refuses, and more likely tokens than there are tokens."""
        self.of.check(architecture)
        if self.kept is not None and self.kept > architecture.outputs:
            raise ValueError(
                f"objective.kept = {self.kept} is more than the {architecture.outputs} tokens: give fewer, or leave it out"
            )

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        self.of.check_data(data, architecture, length)

    def special(self, length: int) -> Specials:
        return self.of.special(length)

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        return self.of.feed(data, corpus, setting, batch, held_out=held_out)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = self.of.made_up(architecture, data, shape)
        if self.kept is None:
            return made
        size = (*made.targets.shape, self.kept)
        return replace(made, taught=torch.zeros(size), taught_tokens=torch.zeros(size, dtype=torch.int64))

    def counted(self, examples: Examples) -> Tensor | None:
        return self.of.counted(examples)

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        logits = self._tokens.logits(model, examples, noise, auxiliary)
        own = self._tokens.token_loss(logits, examples)
        if not self.alpha:
            return own
        if self.kept is None:
            taught = divergence(self._taught(examples, partners), logits, examples, self.temperature)
        else:
            taught = kept_divergence(logits, examples, self.temperature)
        return (1 - self.alpha) * own + self.alpha * self.temperature**2 * taught

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        own = self.of.statistics(model, examples, auxiliary, {})
        if self.kept is not None:
            return own
        logits, taught = self._tokens.logits(model, examples, None, auxiliary), self._taught(examples, partners)
        alone = without_penalties(self._tokens).token_loss(taught, examples)
        return {
            **own,
            "examples": torch.tensor(examples.count),
            "teacher": alone,
            "divergence": divergence(taught, logits, examples, 1.0),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        own = self.of.metrics(totals, names)
        if self.kept is not None:
            return dict(own)
        count = totals["examples"].clamp(min=1)
        return {
            **own,
            "teacher_loss": float(totals["teacher"] / count),
            "divergence": float(totals["divergence"] / count),
        }

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        return self.of.baseline(training, steps, held_out, windows, outputs)

    def _taught(self, examples: Examples, partners: Partners) -> Tensor:
        """The teacher's logits."""
        with torch.no_grad():
            return self._logits_of(partners["teacher"], examples)

    def _logits_of(self, teacher: Transformer, examples: Examples) -> Tensor:
        return self._tokens.logits(teacher, examples, None, Auxiliary(self.counted(examples)))


def divergence(teacher: Tensor, student: Tensor, examples: Examples, temperature: float) -> Tensor:
    """sum_i w_i KL(softmax(teacher_i / T) || softmax(student_i / T)) over the targets, in nats: a 0-d tensor in fp32.

    Logits (B, T, V) or (B, V); w: the weights of the targets, if they have any.
    """
    p, q = (F.log_softmax(logits.float() / temperature, -1) for logits in (teacher, student))
    each = (p.exp() * (p - q)).sum(-1)
    if examples.weights is not None:
        each = each * examples.weights
    return torch.where(examples.targets != IGNORED, each, 0.0).sum()
