"""One update: the passes of its micro-batches, clip, step. And the search for the origin of a loss that is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.model.divided import local, norm_of
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Load
from anyformer.parts.experts.router_module import rebalance
from anyformer.training.computing_place import Within, directly
from anyformer.training.loss_scale import LossScale
from anyformer.training.parallel.ranks import ALONE, Ranks
from anyformer.training.passes import MicroBatches, Passes, PassReports
from anyformer.training.precision import autocast
from anyformer.training.trainee import Trainee

NOWHERE = "every forward output is finite, so it arose in the loss or the backward pass"
"""What `locate` says where neither a weight nor an output nor a gradient is to blame."""


class NonFiniteError(UserError):
    """A loss or gradient is not finite; the weights are those before the update, and `lasting`: not finite themselves."""

    exit_code = 1
    lasting = False


@dataclass(frozen=True)
class Outcome:
    """Mean loss per valid token, norm of the gradient before clipping, rate of the optimiser, load of the experts by layer.

    `data`: the digest of the examples.
    """

    loss: float
    gradient_norm: float
    rate: float
    loads: Mapping[str, Load] = field(default_factory=dict)
    data: str = ""
    skipped: bool = False
    """Whether the scaled gradient overflowed, so that no weight changed."""
    sums: Mapping[str, Tensor] = field(default_factory=dict)
    """What losses and the model's own samples told, by name, of all processes; and `largest`, what is not added up."""
    largest: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def of_experts(self) -> dict[str, Any]:
        """A line's figures of experts, where there are any: the largest share of one in every layer, and the tokens dropped;
        evaluations list all shares."""
        figures = {path: {"largest": max(load.shares), "dropped": load.dropped_share} for path, load in self.loads.items()}
        return {"experts": figures} if figures else {}

    @property
    def finite(self) -> bool:
        """Whether the loss and the gradient are."""
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


@dataclass(frozen=True)
class Updates:
    """All that the updates of a run are made with.

    `trainees`: the models that learn from one loss, the run's own first; the gradient's norm is that of all. `scale`: the loss
    is multiplied by it before the backward pass, and an update whose gradient overflows is skipped. `within`: where models
    compute whose weights are divided.
    """

    passes: Passes
    trainees: Sequence[Trainee]
    clip: float | None = None
    scale: LossScale | None = None
    ranks: Ranks = ALONE
    within: Within = directly
    uses: int = 1
    """Steps of the optimisers on a batch."""

    def update(self, batch: MicroBatches, rate: float, hold: Callable[[], None] = lambda: None) -> Outcome:
        """One update: the loss is the mean over the targets of the batch, and those of all ranks.

        `rate`: of the optimisers, which a group of parameters has times its own factor. `hold` is called before the first
        weight changes: until then the update may be abandoned, afterwards it must be finished. Of several uses of a batch the
        loss and what is told as largest are those of the first; sums are of all. A use whose gradient is not finite is the
        last, and changes nothing.
        """
        outcome: Outcome | None = None
        for _ in range(self.uses):
            for one in self.trainees:
                one.begin()
            total, told = self.passes.add_gradients(batch, self.scale)
            try:
                made = self._stepped(batch, rate, hold if outcome is None else lambda: None, total, told)
            except NonFiniteError as error:
                if outcome is None or error.lasting:
                    raise
                break
            if outcome is None:
                outcome = made
            else:
                more = {name: value + made.sums[name] for name, value in outcome.sums.items() if name not in batch.told}
                outcome = replace(outcome, sums={**outcome.sums, **more})
            if made.skipped:
                break
        assert outcome is not None, "a batch is used at least once"
        return outcome

    def _stepped(self, batch: MicroBatches, rate: float, hold: Callable[[], None], total: float, told: PassReports) -> Outcome:
        """What a step of the optimisers came to, by the gradients that are there."""
        weights = [p for one in self.trainees for p in one.learning if p.grad is not None]
        if self.scale is not None:
            self.scale.undo(weights)
        total, told = self.ranks.total(total), told_by_all(self.ranks, told)
        loads = told.loads
        norm = clipped(self.model, weights, self.clip if self.clip is not None else math.inf, self.ranks)
        outcome = Outcome(total, norm, rate, loads, batch.data, sums={**batch.told, **told.sums}, largest=told.largest)
        if not outcome.finite:
            if self.scale is None or not math.isfinite(total) or self.scale.exhausted:
                raise self._trouble(batch, outcome)
            hold()
            self._forget()
            self.scale.overflowed()
            return replace(outcome, skipped=True)
        hold()
        for one in self.trainees:
            one.step(rate)
        if self.scale is not None:
            self.scale.passed()
        here = dict(self.model.named_modules()) if loads else {}
        rebalance(self.model, {path: load.counts for path, load in loads.items() if path in here})
        for one in self.trainees:
            share_maxima(one, self.ranks)
            one.updated()
        return outcome

    @property
    def model(self) -> Transformer:
        """The run's own model."""
        return self.trainees[0].model

    def _forget(self) -> None:
        """Free the gradients."""
        for one in self.trainees:
            one.optimiser.zero_grad(set_to_none=True)

    def _trouble(self, batch: MicroBatches, outcome: Outcome) -> NonFiniteError:
        """The error about an update, with what is to blame and what to do; gradients are freed."""
        at = "" if self.scale is None else f" at a loss scale of {self.scale.value:g}"
        what = f"step {batch.step}: the loss is {outcome.loss} and the gradient's norm {outcome.gradient_norm}{at}"
        where = first_trouble(self.ranks.every(self.within(partial(locate, self.model, batch.pieces))))
        self._forget()
        remedy = self._remedy(batch)
        self._forget()
        error = NonFiniteError(f"{what}; {where}. Nothing was updated. {remedy}")
        finite = all(map(_is_finite, self.model.parameters()))
        error.lasting = not all(self.ranks.every(finite))
        return error

    def _remedy(self, batch: MicroBatches) -> str:
        """What to do, in words. A model without gradients may have some afterwards."""
        if self.model.plan.compile == "on":
            with torch.compiler.set_stance("force_eager"):
                total = self.ranks.total(self.passes.add_gradients(batch, self.scale)[0])
            gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
            finite = math.isfinite(total) and all(map(_is_finite, gradients))
            if all(self.ranks.every(finite)):
                return "Computed without torch.compile both are finite, so compiled code is at fault: set plan.compile = 'off'"
        # A loss is scaled where the precision's range is narrow.
        wider = "'fp32'" if self.scale is None else "'bf16', whose range is that of fp32"
        return (
            "Remedies: a lower optimiser.learning_rate, a longer schedule.warmup, clip, "
            f"plan.precision = {wider}, or non_finite = {{kind = 'skip'}}, which leaves such batches out"
        )


def clipped(model: Transformer, parameters: Sequence[nn.Parameter], most: float, ranks: Ranks) -> float:
    """The norm of all gradients before they are scaled down to a norm of `most` (Pascanu et al. 2013, arXiv 1211.5063)."""
    if ranks.size == 1:
        return nn.utils.clip_grad_norm_(parameters, most).item()
    staged = {parameter for name, parameter in model.named_parameters() if name in model.stage_of} if model.stage_of else set()
    stages = 1 + max(model.stage_of.values(), default=0)
    gradients = [(each.grad, stages if each in staged else 1) for each in parameters if each.grad is not None]
    norm = norm_of(gradients)
    factor = min(1.0, most / (norm + 1e-6))
    for gradient, _ in gradients:
        local(gradient).mul_(factor)
    return norm


def share_maxima(trainee: Trainee, ranks: Ranks) -> None:
    """Let scales of later updates follow from the greatest magnitudes in all rows of a batch, whoever computed them."""
    if trainee.running:
        seen = ranks.largest(torch.stack([running.seen.to(trainee.model.device) for running in trainee.running]))
        for running, own in zip(trainee.running, seen, strict=True):
            running.seen = own.clone()


def summed_loads(ranks: Ranks, loads: Mapping[str, Load]) -> dict[str, Load]:
    """The loads of the experts over all processes."""
    counts = ranks.of_stages(ranks.sum({path: load.counts for path, load in loads.items()}))
    dropped = ranks.of_stages(ranks.sum({path: load.dropped for path, load in loads.items()}))
    return {path: Load(counts[path], dropped[path]) for path in counts}


def told_by_all(ranks: Ranks, told: PassReports) -> PassReports:
    """What all processes told."""
    sums = ranks.sum({name: value.double() for name, value in told.sums.items()})
    largest = {name: ranks.largest(value) for name, value in told.largest.items()}
    return PassReports(summed_loads(ranks, told.loads), sums, largest)


def first_trouble(found: Sequence[str]) -> str:
    """What is not finite, of what a process found in its own part: the first that is more than `NOWHERE`."""
    rank = next((rank for rank, where in enumerate(found) if where != NOWHERE), 0)
    return found[rank] + (f", on rank {rank}" if len(found) > 1 else "")


@torch.no_grad()
def locate(model: Transformer, micro_batches: Sequence[Examples]) -> str:
    """The weight, or else the first module output with its micro-batch, or else the gradient, that is not finite, in words."""
    broken: list[str] = []
    found: list[str] = []
    found += [f"the weight {name} is not finite" for name, weight in model.named_parameters() if not _is_finite(weight)]

    def watch(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, Tensor) and not broken and not output.isfinite().all():
                broken.append(name)

        return hook

    leaves = [(name, module) for name, module in model.named_modules() if name]
    handles = [module.register_forward_hook(watch(name)) for name, module in leaves]
    try:
        with autocast(model.plan, model.device):
            for number, examples in enumerate(micro_batches, 1):
                model(
                    examples.tokens, examples.decoder_tokens, documents=examples.documents, prefix=examples.prefix,
                    padding=examples.padding, decoder_padding=examples.decoder_padding,
                    noise=Noise.fresh(len(examples.tokens), examples.tokens.device),
                )  # fmt: skip
                if broken and not found:
                    samples = f"samples {int(examples.rows.min())} to {int(examples.rows.max())}"
                    where = f"in micro-batch {number} of {len(micro_batches)} ({samples})"
                    found.append(f"the first output that is not finite is that of {broken[0]}, {where}")
    finally:
        for handle in handles:
            handle.remove()
    # Every process computes all of its part, since the others wait for it.
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not _is_finite(parameter.grad):
            found.append(f"every forward output is finite, and the gradient of {name} is not")
    return next(iter(found), NOWHERE)


def _is_finite(tensor: Tensor) -> bool:
    """Whether all numbers of this process's part are; torch cannot ask those of e4m3."""
    own = local(tensor)
    return bool((own.float() if own.dtype == torch.float8_e4m3fn else own).isfinite().all())
