"""Answers of the model in training with their rewards, as a policy loss reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.generation.rollouts import Rollouts, SampledAnswers, sampled
from anyformer.generation.sampled import from_bits, sampled_log_p, sampled_scores
from anyformer.model.choosing import choice_layout
from anyformer.model.prefix import reads_prefix
from anyformer.model.transformer import Transformer
from anyformer.objectives.answer_rows import AskedPrompt, answer_of, prompts_of, rows_of
from anyformer.objectives.examples import Examples
from anyformer.objectives.own_samples import Sums
from anyformer.objectives.policy import PolicyLoss, Rewarded, at_the_end
from anyformer.parts.call.choices import Choices
from anyformer.parts.call.noise import Noise
from anyformer.rewards import Grade, Query, Response, Reward
from anyformer.rewards.reward import Judge
from anyformer.tasks import Task
from anyformer.tasks.question import TaskQuestion
from anyformer.text import Tokenizer

clock: Callable[[], float] = time.perf_counter
"""Seconds; tests replace it."""
REFERENCE, VALUES = "reference", "values"
"""The names of second models: the one that the policy is compared with, and the one that tells what states are worth."""
ANSWER = "answer"
"""The field of a record that holds the answer which the data give."""
REWARD, TOKENS, ENDED, RIGHT = 0, 1, 2, 3
"""What `Examples.facts` (B, 4) holds of an evaluation's answers: reward, tokens, whether it ended, whether it is the data's."""
OF_TOKENS = ("clipped", "ratio", "moved", "kl", "entropy", "correction", "value_loss")
"""Figures that are means over sampled tokens."""


@dataclass(frozen=True)
class PolicySamples:
    """An `OwnSamples` of groups of answers: `group` to a prompt, sampled as `rollouts` says and graded by `reward`.

    `task`: that of prompts of generated tasks, whose answers have the length of the right one; others end with one of `ends`.
    `judges`: the models that the reward asks, by their paths.
    """

    group: int
    rollouts: Rollouts
    reward: Reward
    loss: PolicyLoss
    tokenizer: Tokenizer
    length: int
    seed: int
    ends: tuple[int, ...] = ()
    task: Task | None = None
    judges: Mapping[str, Judge] = field(default_factory=dict)

    @property
    def held(self) -> int:
        return sum(judge.held for judge in self.judges.values())

    @torch.no_grad()
    def learnt(
        self, model: Transformer, prompts: Examples, partners: Mapping[str, Transformer], size: int
    ) -> tuple[Examples, Sums]:
        """See `OwnSamples`."""
        began, asked = clock(), prompts_of(prompts)
        found = self._answers(model, asked)
        seconds, answers = clock() - began, [answer_of(row) for row in found.tokens]
        members = [prompt for prompt in asked for _ in range(self.group)]
        grades = self._grades(members, answers, found)
        rows = rows_of(asked, found, self.group, self.length, prefix=reads_prefix(model.architecture))
        rows = self._read(model, rows, partners, size)
        mask_RT = rows.targets != IGNORED
        totals = torch.tensor([grade.total for grade in grades], device=mask_RT.device)
        rewarded = Rewarded(
            at_the_end(totals, mask_RT), mask_RT, self.group,
            sampled_RT=rows.sampled, reference_RT=rows.reference, values_RT=rows.values,
        )  # fmt: skip
        learnt_RT = self.loss.learnt(rewarded)
        advantages_RT = self.loss.advantages(rewarded)
        rows = replace(
            rows, advantages=advantages_RT, targets=rows.targets.masked_fill(~learnt_RT, IGNORED),
            counts=self.loss.counts(learnt_RT, self.group),
        )  # fmt: skip
        return rows, self._told(grades, mask_RT, found.ended, learnt_RT & (advantages_RT != 0), seconds)

    @torch.no_grad()
    def asked(self, model: Transformer, prompts: Examples) -> Examples:
        """See `OwnSamples`."""
        asked = prompts_of(prompts)
        if not asked:
            return replace(prompts, facts=torch.zeros(len(prompts.rows), 4), counts=torch.zeros(len(prompts.rows)).double())
        found = self._answers(model, asked, greedy=True)
        answers = [answer_of(row) for row in found.tokens]
        grades = self._grades(asked, answers, found)
        facts = [
            [grade.total, len(answer), float(ended), float(answer == prompt.answer)]
            for prompt, answer, grade, ended in zip(asked, answers, grades, found.ended.tolist(), strict=True)
        ]
        rows = rows_of(asked, found, 1, self.length, prefix=reads_prefix(model.architecture))
        return replace(rows, facts=torch.tensor(facts, dtype=torch.float64), counts=torch.ones(len(asked)).double())

    def figures(self, sums: Sums, largest: Sums) -> dict[str, float]:
        """Of sampled answers `reward` and its parts, `length`, and the shares that were `truncated` and that are `moving` the
        model; `varied`, the share of prompts whose answers differ in reward; `kl`, `entropy`, `clipped`, `ratio` and such of
        tokens; `difference`, the largest between log p of sampling and of training."""
        answers, tokens = sums["answers"].clamp(min=1), sums["tokens"].clamp(min=1)
        of_answers = [name for name in sums if name.startswith("reward")] + ["length", "truncated", "moving"]
        of_tokens = [name for name in OF_TOKENS if name in sums]
        return {
            **{name: float(sums[name] / answers) for name in of_answers},
            "varied": float(sums["varied"] / sums["samples"].clamp(min=1)),
            **{name: float(sums[name] / tokens) for name in of_tokens},
            "difference": float(largest["difference"]), "sampling_seconds": float(sums["sampling_seconds"]),
        }  # fmt: skip

    def remark(self, figures: Mapping[str, float]) -> str | None:
        if figures["moving"]:
            return None
        return (
            "no answer of the first update is better or worse than expected, so nothing is learnt of it: their mean reward is "
            f"{figures['reward']:.3g}, alike in every group of {self.group}. Start from a model that is right at times "
            "(start_from), grade in parts, ask what is easier, or set a larger batch, group or rollouts.temperature"
        )

    def _answers(self, model: Transformer, asked: Sequence[AskedPrompt], *, greedy: bool = False) -> SampledAnswers:
        """Those of the model, a group to every prompt, or the likeliest one."""
        group = 1 if greedy else self.group
        most = [min(self.length + 1 - len(prompt.tokens), self._most(prompt)) for prompt in asked]
        seeds = [_seed(self.seed, prompt.sample, member) for prompt in asked for member in range(group)]
        found = sampled(
            model, [prompt.tokens for prompt in asked], rollouts=self.rollouts, seeds=seeds, most=most, ends=self.ends,
            group=group, greedy=greedy,
        )  # fmt: skip
        return found if self.task is None else replace(found, ended=torch.ones_like(found.ended))

    def _most(self, prompt: AskedPrompt) -> int:
        own = len(prompt.answer) if self.task is not None else self.length
        return own if self.rollouts.tokens is None else min(own, self.rollouts.tokens)

    def _grades(self, asked: Sequence[AskedPrompt], answers: Sequence[list[int]], found: SampledAnswers) -> list[Grade]:
        responses = [
            Response.of(answer, self.tokenizer, ended=ended)
            for answer, ended in zip(answers, found.ended.tolist(), strict=True)
        ]
        return self.reward.grades(list(zip(map(self._query, asked), responses, strict=True)), self.judges)

    def _query(self, prompt: AskedPrompt) -> Query:
        """What was asked, with the answer of the data as the record's field `answer`."""
        if self.task is not None:
            names = [tuple(self.tokenizer.token(token) or "" for token in each) for each in (prompt.tokens, prompt.answer)]
            return Query.of(TaskQuestion(self.task, *names))
        wanted = [token for token in prompt.answer if token not in self.ends]
        return Query(self.tokenizer.decode(prompt.tokens), {ANSWER: self.tokenizer.decode(wanted)})

    def _read(self, model: Transformer, rows: Examples, partners: Mapping[str, Transformer], size: int) -> Examples:
        """The rows with what models say of them that the loss reads, `size` samples at a time."""
        reads, found = self.loss.reads, {}
        if "reference_RT" in reads:
            found["reference"] = self._of(rows, size, lambda each: self.log_p(partners[REFERENCE], each))
        if "before_RT" in reads:
            found["before"] = self._of(rows, size, lambda each: self.log_p(model, each, choices_of(model, each)))
        if "values_RT" in reads:
            found["values"] = self._of(rows, size, lambda each: values_of(partners[VALUES], each))
        return replace(rows, **found)

    def _of(self, rows: Examples, size: int, read: Callable[[Examples], Tensor]) -> Tensor:
        return torch.cat([read(part) for part in parts_of(rows, size)])

    def log_p(self, model: Transformer, rows: Examples, choices: Choices | None = None) -> Tensor:
        """(R, T): log p of the targets by a model, of the distribution that they were sampled from but for its weights."""
        logits = model(rows.tokens, prefix=rows.prefix, choices=choices)
        kept = None if rows.kept is None else from_bits(rows.kept, logits.shape[-1])
        return sampled_log_p(sampled_scores(logits, self.rollouts.temperature, kept), rows.targets)

    def _told(
        self, grades: Sequence[Grade], mask_RT: Tensor, ended_R: Tensor, moving_RT: Tensor, seconds: float
    ) -> dict[str, Tensor]:
        """Sums of an update's answers."""
        totals_BG = torch.tensor([grade.total for grade in grades], dtype=torch.float64).view(-1, self.group)
        varied = (totals_BG.amax(1) > totals_BG.amin(1)).sum()
        parts = dict.fromkeys(name for grade in grades for name in grade.parts)
        sums = {f"reward of {name}": sum(grade.parts.get(name, 0.0) for grade in grades) for name in parts}
        told: dict[str, float] = {
            "answers": len(grades), "samples": len(totals_BG), "reward": float(totals_BG.sum()), "varied": float(varied),
            "length": float(mask_RT.sum()), "truncated": float((~ended_R).sum()), "moving": float(moving_RT.any(1).sum()),
            "sampling_seconds": seconds, **sums,
        }  # fmt: skip
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in told.items()}


def values_of(model: Transformer, rows: Examples, noise: Noise | None = None) -> Tensor:
    """(R, T): the value of the state before every target."""
    values: Tensor = model(rows.tokens, prefix=rows.prefix, noise=noise)[..., 0].float()
    return values


def choices_of(model: Transformer, rows: Examples) -> Choices | None:
    """The experts that the model sent the tokens to when it sampled them, to be taken again."""
    return None if rows.chosen is None else choice_layout(model).given(rows.chosen)


def parts_of(rows: Examples, size: int) -> Iterator[Examples]:
    """The samples, `size` at a time."""
    return (rows.slice(at, at + size) for at in range(0, len(rows.rows), size))


def _seed(seed: int, sample: int, member: int) -> int:
    """One number for every answer of a run."""
    return (seed << 80) | (sample << 16) | member
