"""The gate of decoding: the logits of every new token beside those of the same numbers in fp32, without a decode state.

A layer of experts takes the J experts that its router scores highest. Where the scores of the last one taken and of the first
one left out differ by less than rounding moves them, a near tie, either is right, and the logits behind the two lie further
apart than rounding explains. So the exact model is told to take what the measured one took, which is refused where the scores
are no near tie. The measured model's reading of a prompt tells what it took there, but its steps do not: at new tokens whose
logits are too far near ties are tried. They do not help a wrong model: at many positions its wrong layer has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.model.choosing import choice_layout, choices_noted
from anyformer.model.transformer import Transformer
from anyformer.model.transformer import build as build_model
from anyformer.parts.call.choices import NO_CHOICE, Choices
from anyformer.quantising.tensor import restored

SCORES = "**.router.logits"
"""The scores by which routers of the models of `cases` choose; there may be none."""
SUSPECT = 0.25
"""The share of the allowed gap from which near ties are tried: those of the last layers move logits less."""
READINGS = 32
"""Readings of a text at most."""
Tie = tuple[int, float, tuple[int, ...]]
"""A layer, the margin of a near tie there over the largest score, and the experts that it lets the layer take."""
Taken = tuple[tuple[int, tuple[int, ...]], ...]
"""Layers of one position that are told what to take, in order, and the experts."""


def exact_twin(model: Transformer) -> Transformer:
    """The model in fp32 whose weights are the numbers that `model` holds."""
    exact = build_model(model.architecture, seed=0).eval().requires_grad_(False)
    exact.load_state_dict({name: restored(value.detach()).float() for name, value in model.named_parameters()}, strict=False)
    return exact


@dataclass(frozen=True)
class Reading:
    """What the exact model has at every position of a text, told to take the experts that are `given`.

    `given` (L, T, J): `NO_CHOICE` where a layer is told nothing; `scores` (L, T, X); `gap` (T,): the largest difference of the
    measured logits over the largest logit, 0 where none were measured.
    """

    given: Tensor
    scores: Tensor
    gap: Tensor

    def ties(self, position: int, near: float) -> Iterator[Tie]:
        """The near ties of a position, each of which lets a layer take one other expert."""
        chosen = self.given.shape[-1]
        for layer, scores_X in enumerate(self.scores[:, position]):
            values, experts = (each.tolist() for each in (scores_X / scores_X.abs().max()).sort(descending=True))
            for i, j in product(range(chosen), range(chosen, len(experts))):
                if (margin := values[i] - values[j]) < near:
                    yield layer, margin, (*experts[:i], *experts[i + 1 : chosen], experts[j])

    @property
    def behind(self) -> Tensor:
        """(L, T): by how much an expert that is given is behind one that is not, over the largest score; 0 where none is."""
        if not len(self.given):
            return self.gap.new_zeros(0, len(self.gap))
        told = (self.given != NO_CHOICE).all(-1)
        given = torch.zeros_like(self.scores, dtype=torch.bool).scatter(-1, self.given.clamp(min=0), value=True)
        worst = self.scores.masked_fill(~given, torch.inf).amin(-1)
        best = self.scores.masked_fill(given, -torch.inf).amax(-1)
        return torch.where(told, ((best - worst) / self.scores.abs().amax(-1)).clamp(min=0), 0.0)


@dataclass
class Trials:
    """What near ties let one position take; the nearest are tried first, by the sum of their margins.

    What is tried next goes on from what was tried, in later layers: their scores are others by then.
    """

    now: Taken = ()
    margin: float = 0.0
    nearest: tuple[float, Taken] = (torch.inf, ())
    waiting: list[tuple[float, Taken]] = field(default_factory=list)
    met: set[Taken] = field(default_factory=set)

    def meet(self, gap: float, ties: Iterable[Tie]) -> None:
        """Take note of the gap of what is taken now, and of the ties behind it."""
        self.nearest = min(self.nearest, (gap, self.now))
        if self.now in self.met:
            return
        self.met.add(self.now)
        after = self.now[-1][0] if self.now else -1
        for layer, margin, others in ties:
            if layer > after:
                heappush(self.waiting, (self.margin + margin, (*self.now, (layer, others))))

    def turned(self, given_LJ: Tensor, *, last: bool) -> Tensor:
        """What is given next; `last`, and where all is tried, what came nearest."""
        if last or not self.waiting:
            self.now = self.nearest[1]
        else:
            self.margin, self.now = heappop(self.waiting)
        given_LJ = torch.full_like(given_LJ, NO_CHOICE)
        for layer, experts in self.now:
            given_LJ[layer] = torch.tensor(experts)
        return given_LJ

    def failed(self, allowed: float) -> bool:
        """Whether all was tried, and nothing was near enough."""
        return not self.waiting and self.now in self.met and self.nearest[0] >= allowed


@dataclass(frozen=True)
class Measured:
    """A text that the measured model made.

    `tokens`: what it has read; `logits` (N, V): behind the prompt's last token and all later ones; `taken`: what layers took
    while it read the prompt of S tokens, (S, J) each.
    """

    tokens: Sequence[int]
    logits: Tensor
    taken: Sequence[Tensor]


class Kept:
    """What the gate asks of a generation, kept of some of its rows."""

    def __init__(self, model: Transformer, rows: Sequence[int]) -> None:
        self.model, self.rows = model, list(rows)
        self.logits, self.taken = list[Tensor](), list[Tensor]()

    def of(self, steps: Iterator[tuple[Tensor, Tensor]]) -> Iterator[Tensor]:
        """The tokens of the steps; the experts are noted before the first, while the prompts are read."""
        with choices_noted(self.model) as noted:
            first = next(steps)
        self.taken = [torch.cat(noted[key], 1)[self.rows] for key in choice_layout(self.model).places]
        for next_B, logits in chain([first], steps):
            self.logits.append(logits[self.rows])
            yield next_B

    def texts(self, prompts: Sequence[Sequence[int]], steps: Sequence[Sequence[int]]) -> Iterator[Measured]:
        """The texts of the rows, of whose new tokens the model has not read the last."""
        for place, row in enumerate(self.rows):
            tokens = [*prompts[row], *(step[row] for step in steps[:-1])]
            logits = torch.stack([each[place].float() for each in self.logits])
            yield Measured(tokens, logits, [each[place] for each in self.taken])


class Gate:
    """An exact twin of a model; `allowed`: the largest gap of the logits, over the largest of them.

    Two scores that are each off by as much of the largest one pass one another within twice that: `near`, a near tie.
    """

    def __init__(self, model: Transformer, allowed: float) -> None:
        self.exact, self.allowed, self.near = exact_twin(model), allowed, 2 * allowed
        self.places = choice_layout(model).places

    @torch.inference_mode()
    def outcome(self, texts: Iterable[Measured]) -> dict[str, Any]:
        """What is said of texts. Raises `SystemExit` where logits are not those of the exact model, near ties apart."""
        found = [self._nearest(text) for text in texts]
        gap = max(float(each.gap.max()) for each in found)
        if not gap < self.allowed:
            raise SystemExit(
                f"the logits differ from the uncached fp32 model's by {gap:.3g} of the largest, where {self.allowed:g} is "
                f"allowed{', whichever experts are taken at near ties' if self.places else ''}"
            )
        if not self.places:
            return {"gap_to_fp32": round(gap, 6)}
        behind = torch.cat([each.behind.flatten() for each in found])
        if not behind.max() < self.near:
            raise SystemExit(
                f"an expert was taken whose score is {behind.max():.3g} of the largest behind that of one left out, where "
                f"{self.near:g} is a near tie"
            )
        parted = {"choices": len(behind), "parted": int((behind > 0).sum()), "behind": round(float(behind.max()), 6)}
        return {"gap_to_fp32": round(gap, 6), "near_ties": parted}

    def _read(self, text: Measured, given_LTJ: Tensor) -> Reading:
        choices = Choices(dict(zip(self.places, given_LTJ[:, None], strict=True)))
        with self.exact.watch(SCORES) if self.places else nullcontext({}) as seen:
            features = self.exact.features(torch.tensor([text.tokens]), choices=choices)[0]
        scores = [each[0] for each in seen.values()]
        wanted = self.exact.logits(features[-len(text.logits) :])
        gap = (text.logits - wanted).abs().amax(-1) / wanted.abs().amax(-1)
        gap = F.pad(gap, (len(features) - len(gap), 0))
        return Reading(given_LTJ, torch.stack(scores) if scores else given_LTJ.float(), gap)

    def _nearest(self, text: Measured) -> Reading:
        """The reading that is nearest to what was measured, over the experts that near ties let new tokens take."""
        length = len(text.tokens)
        first = length - len(text.logits) + 1
        given = torch.stack(list(text.taken)) if self.places else torch.zeros(0, first, 0, dtype=torch.int64)
        given = F.pad(given, (0, 0, 0, length - first), value=NO_CHOICE)
        trials = dict[int, Trials]()
        for left in reversed(range(READINGS)):
            reading = self._read(text, given)
            given = given.clone()
            far = [first + t for t in (reading.gap[first:] >= self.allowed * SUSPECT).nonzero()[:, 0].tolist()]
            for t in far:
                trial = trials.setdefault(t, Trials())
                trial.meet(float(reading.gap[t]), reading.ties(t, self.near))
                given[:, t] = trial.turned(given[:, t], last=left == 1)
            if torch.equal(given, reading.given) or any(trials[t].failed(self.allowed) for t in far):
                break
        return reading
