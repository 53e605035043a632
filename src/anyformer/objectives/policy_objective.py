"""Reinforcement learning: a model learns from rewards of answers that it samples itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import UnionType
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from anyformer.data import IGNORED, Corpus, Data, Dialogue
from anyformer.describe import Count, with_kind
from anyformer.generation.rollouts import Rollouts, check_rollouts
from anyformer.generation.sampled import EIGHT, from_bits, sampled_log_p, sampled_scores
from anyformer.model import Architecture
from anyformer.model.prefix import reads_prefix
from anyformer.model.transformer import Transformer
from anyformer.objectives.answers import CHANCE
from anyformer.objectives.aspects import LossTraits, Partner, SampleSizes, Usual, compares_rows
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.instruction import InstructionObjective
from anyformer.objectives.objective import Objective, Partners, Setting, Totals
from anyformer.objectives.policy import PolicyLoss, ScoredTokens, entropies, reverse_divergences, value_losses
from anyformer.objectives.policy.advantages import ValuesAdvantage
from anyformer.objectives.policy_names import loss_named
from anyformer.objectives.policy_samples import (
    ANSWER,
    ENDED,
    REFERENCE,
    REWARD,
    RIGHT,
    TOKENS,
    VALUES,
    PolicySamples,
    choices_of,
    values_of,
)
from anyformer.objectives.task import TaskObjective
from anyformer.operations import Shape
from anyformer.parts import Head
from anyformer.parts.call.choices import Choices
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.needs import needs_next_token, needs_no_later, needs_one_sequence
from anyformer.rewards import Reward, TaskReward
from anyformer.rewards.reward import Judge
from anyformer.tasks import TaskData
from anyformer.text import Specials
from anyformer.text.chat import answer_end


class PolicyObjective(Objective):
    """Sampled answers that a reward finds better than expected become likelier.

    The gradient is that of E[sum_t A_t log p(y_t)], in the form that `loss` gives it: a group of answers is sampled to each
    prompt, and each is graded.

    p is the distribution that tokens are sampled from, in sampling and in training: the same temperature, the tokens that
    top-k or top-p kept, no dropout. Answers are a function of the weights, the seed, the sample, the member and the token's
    index. Prompts are questions of a generated task, or of chats, whose answers a reward may read as the field `answer`. An
    evaluation takes the likeliest answers; its loss is minus their mean reward.
    """

    reads: ClassVar[type[Data] | UnionType] = TaskData | Dialogue
    kind: Literal["policy"] = "policy"
    group: Count = 8
    """G, the answers to each prompt, which are compared with one another."""
    rollouts: Rollouts = Rollouts()
    """How answers are sampled."""
    uses: Count = 1
    """Steps of the optimiser that an update takes on its answers, on all of them each time. From the second on the ratio of
    probabilities is no longer 1, and clips bound how far it goes (PPO, GRPO)."""
    reward: Annotated[Reward, BeforeValidator(with_kind("task"))] = TaskReward()
    """What an answer is worth."""
    loss: Annotated[PolicyLoss, BeforeValidator(loss_named)] = PolicyLoss()
    """The loss of sampled tokens, as a table or by a recipe's name: `loss = "dapo"`; by default GRPO's without a divergence."""
    reference: Annotated[str, Field(min_length=1)] | None = None
    """The path of the model that a divergence is from, or of the teacher of a distillation; None: the model as it was when the
    run began."""

    @model_validator(mode="after")
    def _suits_the_group(self) -> PolicyObjective:
        self.loss.check(self.group)
        if self.reference is not None and not self._compares:
            raise ValueError(
                "reference names a model, and loss has no divergence from one: give loss.divergence, or leave it out"
            )
        return self

    @property
    def _compares(self) -> bool:
        return bool(self.loss.reads & {"reference_RT", "divergence_RT"})

    @property
    def partners(self) -> Mapping[str, Partner]:
        found: dict[str, Partner] = {}
        if self._compares:
            found[REFERENCE] = Partner(path=self.reference, check=_same_tokens, of_samples=True)
        if "values_RT" in self.loss.reads:
            found[VALUES] = Partner(derived=_valuing, learns=True)
        return found

    @property
    def sizes(self) -> SampleSizes:
        whole = self.loss.advantage.across_samples
        check = compares_rows(self.kind, f"the mean reward of advantage {self.loss.advantage.kind!r}")
        return SampleSizes(self.group, check=check) if whole else SampleSizes(self.group)

    @property
    def usual(self) -> Usual:
        return Usual(TaskData.usual)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of the next token alone, or whose tokens have other probabilities when they are
        sampled one by one."""
        needs_one_sequence(self.kind, architecture)
        needs_next_token(self.kind, architecture)
        needs_no_later(self.kind, architecture)
        check_rollouts(architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        """Refuse data without questions and answers, and a reward of another kind of data."""
        super().check_data(data, architecture, length)
        _reader(data).check_data(data, architecture, length)
        if isinstance(self.reward, TaskReward) and not isinstance(data, TaskData):
            raise ValueError(
                f"reward 'task' grades questions of generated tasks, and data.kind is {data.kind!r}: set objective.reward, as "
                "'exact_match'"
            )
        if lacking := [name for name in self.reward.columns if name != ANSWER]:
            raise ValueError(
                f"objective.reward reads the field {lacking[0]!r}, and prompts come with their answer alone, as {ANSWER!r}: "
                "name that one, or grade answers in a file by `anyformer reward`"
            )
        turns = [part.kind for part in data.components.values() if isinstance(part, Dialogue) and not part.plain_texts]
        if self.reward.models and turns:
            raise ValueError(
                f"objective.reward asks the model {self.reward.models[0]!r} about texts, and data.kind {turns[0]!r} writes "
                "turns by a chat template: give data.kind = 'completions' without data.turns, or grade answers in a file by "
                "`anyformer reward`"
            )

    def special(self, length: int) -> Specials:
        return Specials()

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        return _reader(data).feed(data, corpus, setting, batch, held_out=held_out)

    @property
    def traits(self) -> LossTraits:
        return LossTraits(own_samples=self._samples, uses=self.uses, judges=self.reward.models)

    def _samples(self, data: Data, setting: Setting, judges: Mapping[str, Judge]) -> PolicySamples:
        self.reward.check()
        parts = list(data.components.values())
        task = next((part.task for part in parts if isinstance(part, TaskData)), None)
        ends = list[int]()
        for part in parts:
            if isinstance(part, Dialogue):
                ends += [answer_end(setting.tokenizer, part.template), *setting.tokenizer.ends]
        return PolicySamples(
            self.group, self.rollouts, self.reward, self.loss, setting.tokenizer, setting.length, setting.seed,
            tuple(dict.fromkeys(ends)), task, judges,
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        """As the base says, with all that a loss reads of sampled tokens."""
        made, reads = super().made_up(architecture, data, shape), self.loss.reads
        each = torch.zeros(made.targets.shape)
        bits = torch.full((*each.shape, -(-architecture.outputs // EIGHT)), 255, dtype=torch.uint8)
        return replace(
            made, padding=torch.zeros(each.shape, dtype=torch.bool), counts=torch.ones(len(made.rows), dtype=torch.float64),
            prefix=torch.ones(len(each), dtype=torch.int64) if reads_prefix(architecture) else None,
            sampled=each, advantages=each, kept=bits if self.rollouts.cuts else None,
            reference=each if "reference_RT" in reads else None, before=each if "before_RT" in reads else None,
            values=each if "values_RT" in reads else None,
        )  # fmt: skip

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        assert examples.sampled is not None, "made by the model's own samples"
        assert examples.advantages is not None, "made by the model's own samples"
        scores = self._scores(model, examples, auxiliary, choices_of(model, examples))
        log_p, mask = sampled_log_p(scores, examples.targets), examples.targets != IGNORED
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.loss.entropy > 0):
            entropy = entropies(scores)
        divergence = None
        if "divergence_RT" in self.loss.reads:
            with torch.no_grad():
                theirs = self._scores(partners[REFERENCE], examples)
            divergence = reverse_divergences(scores, theirs)
        scored = ScoredTokens(
            log_p, examples.sampled, examples.reference, examples.advantages, mask, entropy, examples.before, divergence
        )
        total = self.loss.losses(scored).sum()
        auxiliary.sums.update(self.loss.figures(scored))
        apart = torch.where(mask, log_p.detach() - examples.sampled, 0.0).abs()
        auxiliary.largest["difference"] = apart.max()
        if "values_RT" in self.loss.reads:
            values = self._value_losses(partners[VALUES], examples, mask, noise)
            auxiliary.sums["value_loss"] = values.detach().sum()
            total = total + (values * self.loss.normaliser.weights(mask)).sum()
        return total

    def _scores(
        self, model: Transformer, examples: Examples, auxiliary: Auxiliary | None = None, choices: Choices | None = None
    ) -> Tensor:
        """(R, T, V): the scores whose softmax was sampled from."""
        # Padding comes last, where no target sees it: it needs no mask.
        logits = model(examples.tokens, prefix=examples.prefix, auxiliary=auxiliary, choices=choices)
        kept = None if examples.kept is None else from_bits(examples.kept, logits.shape[-1])
        return sampled_scores(logits, self.rollouts.temperature, kept)

    def _value_losses(self, model: Transformer, examples: Examples, mask: Tensor, noise: Noise | None) -> Tensor:
        """(R, T): the loss of the values, weighed."""
        how = self.loss.advantage
        assert isinstance(how, ValuesAdvantage), "it alone reads values"
        assert examples.values is not None, "made by the model's own samples"
        assert examples.advantages is not None, "made by the model's own samples"
        values = values_of(model, examples, noise and noise.other(0).of_each(self.group))
        returns = examples.advantages + examples.values
        return how.weight * value_losses(values, examples.values, returns, mask, how.within)

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        """Of answers that the model's own samples made: no forward pass is left to do."""
        assert examples.facts is not None, "made by the model's own samples"
        assert examples.counts is not None, "made by the model's own samples"
        sums = examples.facts.double().sum(0)
        return {
            "loss": -sums[REWARD], "answers": examples.counts.sum(), "reward": sums[REWARD], "tokens": sums[TOKENS],
            "ended": sums[ENDED], "right": sums[RIGHT],
        }  # fmt: skip

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """`reward` and `length` are means of the likeliest answers; `exact`, the share that are token by token the data's;
        `truncated`, of those that were cut."""
        answers = totals["answers"].clamp(min=1)
        found = {"reward": "reward", "exact": "right", "length": "tokens"}
        shares = {name: float(totals[key] / answers) for name, key in found.items()}
        return {**shares, "truncated": float(1 - totals["ended"] / answers)}

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """A guess that knows the task; of other prompts, answers that are worth nothing."""
        right, prompts = 0.0, 0
        for examples in held_out.once(windows):
            if examples.facts is None:
                return "answers that are worth nothing", 0.0
            asked = examples.targets != IGNORED
            chance = torch.where(asked, examples.facts[..., CHANCE].double(), 1.0).prod(1)
            right, prompts = right + float(chance[asked.any(1)].sum()), prompts + int(asked.any(1).sum())
        return "minus the reward of guesses that know the task and have read nothing", -right / max(1, prompts)


def _reader(data: Data) -> TaskObjective | InstructionObjective:
    """What makes rows of questions and answers."""
    return TaskObjective() if isinstance(data, TaskData) else InstructionObjective(pack=False)


def _valuing(architecture: Architecture) -> Architecture:
    """The same with a number per position: the value of the state after it."""
    return architecture.but(head=Head(outputs=1))


def _same_tokens(reference: Architecture, own: Architecture) -> None:
    """Refuse a reference with other tokens."""
    needs_next_token("objective.reference: the policy", reference)
    if reference.vocabularies != own.vocabularies:
        raise ValueError(
            f"objective.reference has tokens {reference.vocabularies}, and the run's architecture {own.vocabularies}: choose a "
            "model of the same tokens"
        )
