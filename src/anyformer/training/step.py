"""One update: the passes of its micro-batches, clip, step. And the search for the origin of a loss that is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.model import Transformer
from anyformer.model.divided import local, norm_of
from anyformer.objectives import Examples
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Load
from anyformer.parts.experts.router import rebalance
from anyformer.training.loss_scale import LossScale
from anyformer.training.parallel.ranks import ALONE, Ranks
from anyformer.training.passes import Passes
from anyformer.training.precision import autocast
from anyformer.training.within import Within, directly

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


def update(
    passes: Passes,
    model: Transformer,
    optimiser: torch.optim.Optimizer,
    micro_batches: Sequence[Examples],
    *,
    count: float,
    seed: int,
    step: int,
    rate: float,
    clip: float | None,
    hold: Callable[[], None] = lambda: None,
    others: Sequence[torch.optim.Optimizer] = (),
    scale: LossScale | None = None,
    ranks: Ranks = ALONE,
    within: Within = directly,
) -> Outcome:
    """One update from `micro_batches` of `count` targets in all: the loss is the mean over these, and those of all `ranks`.

    `rate`: of the optimiser, which a group of parameters has times its own factor.
    `hold` is called before the first weight changes: until then the update may be abandoned, afterwards it must be finished.
    `others`: optimisers of second models that learn from the same loss; the gradient's norm is that of all.
    `scale`: the loss is multiplied by it before the backward pass, and an update whose gradient overflows is skipped.
    """

    def passed() -> tuple[float, dict[str, Load]]:
        return passes(micro_batches, lambda examples: Noise.at(seed, step, examples.rows), count, scale)

    total, loads = passed()
    optimisers = (optimiser, *others)
    parameters = [p for one in optimisers for group in one.param_groups for p in group["params"] if p.grad is not None]
    if scale is not None:
        scale.undo(parameters)
    total, loads = ranks.total(total), summed_loads(ranks, loads)
    norm = clipped(model, parameters, clip if clip is not None else math.inf, ranks)
    if scale is not None and math.isfinite(total) and not (math.isfinite(norm) or scale.exhausted):
        hold()
        _forget(optimisers)
        scale.overflowed()
        return Outcome(total, norm, rate, loads, skipped=True)
    if not (math.isfinite(total) and math.isfinite(norm)):
        at = "" if scale is None else f" at a loss scale of {scale.value:g}"
        what = f"step {step}: the loss is {total} and the gradient's norm {norm}{at}"
        where = first_trouble(ranks.every(within(lambda: locate(model, micro_batches))))
        _forget(optimisers)
        remedy = _remedy(model, ranks, passed, narrow=scale is not None)
        _forget(optimisers)
        raise _not_finite(model, ranks, f"{what}; {where}", remedy)
    hold()
    for one in optimisers:
        for group in one.param_groups:
            group["lr"] = rate * group["factor"]
        one.step()
    _forget(optimisers)
    if scale is not None:
        scale.passed()
    here = dict(model.named_modules()) if loads else {}
    rebalance(model, {path: load.counts for path, load in loads.items() if path in here})
    return Outcome(total, norm, rate, loads)


def clipped(model: Transformer, parameters: Sequence[nn.Parameter], most: float, ranks: Ranks) -> float:
    """The norm of all gradients before they are scaled down to a norm of `most` (Pascanu et al. 2013, arXiv 1211.5063)."""
    if ranks.size == 1:
        return nn.utils.clip_grad_norm_(parameters, most).item()
    staged = {parameter for name, parameter in model.named_parameters() if name in model.stage_of}
    stages = 1 + max(model.stage_of.values(), default=0)
    gradients = [(each.grad, stages if each in staged else 1) for each in parameters if each.grad is not None]
    norm = norm_of(gradients)
    factor = min(1.0, most / (norm + 1e-6))
    for gradient, _ in gradients:
        local(gradient).mul_(factor)
    return norm


def summed_loads(ranks: Ranks, loads: Mapping[str, Load]) -> dict[str, Load]:
    """The loads of the experts over all processes."""
    counts = ranks.of_stages(ranks.sum({path: load.counts for path, load in loads.items()}))
    dropped = ranks.of_stages(ranks.sum({path: load.dropped for path, load in loads.items()}))
    return {path: Load(counts[path], dropped[path]) for path in counts}


def first_trouble(found: Sequence[str]) -> str:
    """What is not finite, of what each process found in its own part: the first that is more than `NOWHERE`."""
    rank = next((rank for rank, where in enumerate(found) if where != NOWHERE), 0)
    return found[rank] + (f", on rank {rank}" if len(found) > 1 else "")


def _forget(optimisers: Sequence[torch.optim.Optimizer]) -> None:
    """Free the gradients."""
    for one in optimisers:
        one.zero_grad(set_to_none=True)


def _not_finite(model: Transformer, ranks: Ranks, what: str, remedy: str) -> NonFiniteError:
    """The error about an update."""
    error = NonFiniteError(f"{what}. Nothing was updated. {remedy}")
    finite = all(bool(local(parameter).isfinite().all()) for parameter in model.parameters())
    error.lasting = not all(ranks.every(finite))
    return error


def _remedy(model: Transformer, ranks: Ranks, passed: Callable[[], tuple[float, object]], *, narrow: bool) -> str:
    """What to do, in words. `passed`: the passes of the update; `narrow`: the precision's range is, so the loss is scaled.

    A model without gradients may have some afterwards.
    """
    if model.plan.compile == "on":
        with torch.compiler.set_stance("force_eager"):
            total = ranks.total(passed()[0])
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        if all(ranks.every(math.isfinite(total) and all(bool(local(each).isfinite().all()) for each in gradients))):
            return "Computed without torch.compile both are finite, so compiled code is at fault: set plan.compile = 'off'"
    wider = "'bf16', whose range is that of fp32" if narrow else "'fp32'"
    return (
        "Remedies: a lower optimiser.learning_rate, a longer schedule.warmup, clip, "
        f"plan.precision = {wider}, or non_finite = {{kind = 'skip'}}, which leaves such batches out"
    )


@torch.no_grad()
def locate(model: Transformer, micro_batches: Sequence[Examples]) -> str:
    """The weight, or else the first module output with its micro-batch, or else the gradient, that is not finite, in words."""
    broken: list[str] = []
    found: list[str] = []
    weights = {name: local(parameter) for name, parameter in model.named_parameters()}
    found += [f"the weight {name} is not finite" for name, weight in weights.items() if not weight.isfinite().all()]

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
        if parameter.grad is not None and not local(parameter.grad).isfinite().all():
            found.append(f"every forward output is finite, and the gradient of {name} is not")
    return next(iter(found), NOWHERE)
