"""A step of reinforcement learning on many accelerators: answers, references, updates, and weights on their way between them.

Each is priced by what prices it alone: answers and references by the simulation of engines (`queues`), updates by the
planner of training. Together all accelerators do one after the other; apart some answer with the weights of the step before,
while the others score and learn (one step off policy: Noukhovitch et al. 2024, arXiv 2410.18252): the slower side bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from anyformer.costs.hardware import Hardware
from anyformer.costs.inference import weight_bytes
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.planning.layout import Layout
from anyformer.planning.planner import Candidate, plan_training
from anyformer.planning.queues.distributions import Lengths
from anyformer.planning.queues.engine import EngineRules
from anyformer.planning.queues.requests import ArrivingRequests
from anyformer.planning.queues.sheet_steps import SheetSteps
from anyformer.planning.queues.simulate import Fleet, simulate
from anyformer.planning.serving import LayoutSearch
from anyformer.quantising import FORMATS

EIGHTHS = range(1, 8)
"""Shares of the accelerators, in eighths, that answer where they stand apart."""


@dataclass(frozen=True)
class RolloutBatch:
    """What a step learns from: `answers` to each of `prompts`, all of which begin at once; `references` models score each, and
    `updates` passes learn from all of them."""

    prompts: int
    answers: int
    prompt: Lengths
    output: Lengths
    updates: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("prompts", "answers", "updates"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} of a step are {getattr(self, name)}: give 1 or more")

    @cached_property
    def texts(self) -> ArrivingRequests:
        """The answers as requests, those to one prompt in one group, which reads it once."""
        lengths, outputs = (np.random.default_rng(each) for each in np.random.SeedSequence(self.seed).spawn(2))
        count = self.prompts * self.answers
        prompt = np.repeat(self.prompt.draw(lengths, self.prompts), self.answers)
        output = self.output.draw(outputs, count)
        group = np.repeat(np.arange(self.prompts), self.answers)
        return ArrivingRequests(np.zeros(count), prompt, output, np.maximum(prompt - 1, 0), group, output - 1)

    @property
    def whole(self) -> ArrivingRequests:
        """Prompts with their answers, to be read and not gone on with."""
        told, one = self.texts, np.ones(self.prompts * self.answers, dtype=np.int64)
        nothing = one * 0
        return ArrivingRequests(told.arrived, told.prompt + told.output, one, nothing, nothing, nothing)

    @property
    def tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return int((self.texts.prompt + self.texts.output).sum())


@dataclass(frozen=True)
class RolloutStep:
    """Seconds of a step. `answering`: accelerators that only answer, 0 where all do everything; `training`: the others."""

    answering: int
    training: int
    engine: Layout
    update: Candidate
    rollout: float
    reference: float
    learning: float
    sync: float
    tokens: int

    @property
    def apart(self) -> bool:
        return self.answering > 0

    @property
    def seconds(self) -> float:
        """One after the other, or the slower side; then the weights are sent."""
        learns = self.reference + self.learning
        return (max(self.rollout, learns) if self.apart else self.rollout + learns) + self.sync

    @property
    def accelerators(self) -> int:
        return self.answering + self.training

    @property
    def bound(self) -> str:
        """What takes the most of a step."""
        learns = self.reference + self.learning
        return "answers" if self.rollout >= learns else "updates" if self.learning >= self.reference else "references"

    @property
    def idle(self) -> float:
        """Share of all accelerators' time in which one side waits for the other, where they stand apart."""
        if not self.apart:
            return 0.0
        learns = self.reference + self.learning
        waits = max(0.0, learns - self.rollout) * self.answering + max(0.0, self.rollout - learns) * self.training
        return waits / (self.seconds * self.accelerators)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of prompts and answers that are learnt from."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class RolloutSearch:
    """Steps of a batch on so many `accelerators`. `reference`: the model that scores the answers (a teacher, where the student
    is distilled on its own answers); None for none."""

    architecture: Architecture
    batch: RolloutBatch
    on: Hardware
    accelerators: int
    reference: Architecture | None = None
    rules: EngineRules = field(default_factory=EngineRules)
    plan: Plan = field(default_factory=Plan)
    _kept: dict[tuple[str, int], tuple[float, Layout | None]] = field(default_factory=dict, compare=False, repr=False)

    def steps(self) -> list[RolloutStep]:
        """The step where all do everything, and those of every way to divide them, the fastest first."""
        found = [step for answering in self._ways() if (step := self._step(answering)) is not None]
        if not found:
            raise UserError(
                f"no way to divide {self.accelerators:,} {self.on.title} holds both an engine and a training step of "
                f"{self.batch.tokens:,} tokens: give more --gpus"
            )
        return sorted(found, key=lambda step: step.seconds)

    def _ways(self) -> Iterator[int]:
        """Numbers of accelerators that only answer: none, and eighths of all in whole nodes where there are several."""
        yield 0
        unit = self.on.domain if self.accelerators >= 2 * self.on.domain else 1
        eighths = {max(unit, self.accelerators * share // 8 // unit * unit) for share in EIGHTHS}
        yield from sorted(each for each in eighths if each < self.accelerators)

    def _step(self, answering: int) -> RolloutStep | None:
        training = self.accelerators - answering
        rollout, engine = self._spent("answers", answering or self.accelerators)
        reference, _ = self._spent("references", training)
        update = self._update(training)
        if engine is None or update is None or reference == float("inf"):
            return None
        learning = self.batch.updates * update.time.total
        sync = self._sync(engine, apart=answering > 0)
        return RolloutStep(answering, training, engine, update, rollout, reference, learning, sync, self.batch.tokens)

    def _spent(self, what: str, accelerators: int) -> tuple[float, Layout | None]:
        """Seconds until the last answer is there, or the last text is scored, and the layout of an engine."""
        if what == "references" and self.reference is None:
            return 0.0, None
        if (what, accelerators) not in self._kept:
            self._kept[what, accelerators] = self._fastest(what, accelerators)
        return self._kept[what, accelerators]

    def _fastest(self, what: str, accelerators: int) -> tuple[float, Layout | None]:
        scores = what == "references"
        model = self.reference if scores and self.reference is not None else self.architecture
        texts = self.batch.whole if scores else self.batch.texts
        search = LayoutSearch(model, self.rules.places, texts.longest, self.on, "bf16", self.on.resolved(self.plan))
        best: tuple[float, Layout | None] = float("inf"), None
        for tp in (1 << i for i in range(self.on.domain.bit_length())):
            if accelerators % tp or Layout(tp=tp) not in search.layouts(tp):
                continue
            times = SheetSteps(search, Layout(tp=tp), scores=scores)
            if times.room < times.held(texts.longest) * (1 + 1 / max(1, self.batch.answers)):
                continue
            told = texts if scores else replace(texts, shared=np.zeros_like(texts.shared))
            span = max(simulate(Fleet(times, self.rules), own).span for own in heaviest(told, accelerators // tp))
            best = min(best, (span, Layout(tp=tp)), key=lambda each: each[0])
        return best

    def _update(self, training: int) -> Candidate | None:
        """The fastest layout of a pass over all texts, in rows of their mean length."""
        count = self.batch.prompts * self.batch.answers
        length = max(1, self.batch.tokens // count)
        fitting = plan_training(
            self.architecture, ranks=training, batch_tokens=count * length, length=length, hardware=self.on, plan=self.plan,
            show=1,
        ).fastest  # fmt: skip
        return fitting[0] if fitting else None

    def _sync(self, engine: Layout, *, apart: bool) -> float:
        """Seconds in which every engine's rank gets its share of the weights: over the network where it stands apart."""
        size = weight_bytes(self.architecture, FORMATS["bf16"]) / engine.tp
        near = self.accelerators <= self.on.domain or not apart
        return size / ((self.on.link if near else self.on.network) * self.on.efficiency.network)


def heaviest(texts: ArrivingRequests, engines: int) -> list[ArrivingRequests]:
    """The texts of the engine that has the most tokens, and of the one that has the longest, if they are dealt in turn: one of
    them ends last."""
    engines = min(engines, texts.count)
    total = texts.prompt + texts.output
    sums = [int(total[first::engines].sum()) for first in range(engines)]
    chosen = {int(np.argmax(sums)), int(np.argmax(texts.output)) % engines}
    return [texts.every(engines, first) for first in sorted(chosen)]
