"""What RMSNorm saves beside LayerNorm: by itself, and in a step of training."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from benchmarks.parts.race import race, ratio
from benchmarks.parts.sides import features

import anyformer as af
from anyformer.describe import change_all
from anyformer.measuring.trial import TrainingStep
from anyformer.operations import Shape
from anyformer.parts import LayerNorm, RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.plan import Plan

NORMS: dict[str, Norm] = {"LayerNorm": LayerNorm(), "RMSNorm": RMSNorm()}
BATCH, LENGTH, WIDTH = 8, 512, 768
STEP = Shape(batch=4, length=256)


def norms() -> dict[str, Any]:
    """Seconds of LayerNorm over those of RMSNorm, eager and compiled: by itself, and in a step of a GPT-2 of 4 layers."""
    found: dict[str, Any] = {"shape": f"{BATCH} x {LENGTH} x {WIDTH}; a step: GPT-2 of 4 layers, {STEP.batch} x {STEP.length}"}
    for name, compiled in (("eager", False), ("compiled", True)):
        torch.compiler.reset()
        alone = race({norm: _alone(part, compiled) for norm, part in NORMS.items()})
        whole = race({norm: _step(part, compiled) for norm, part in NORMS.items()})
        found[name] = {"alone": ratio(alone, *NORMS), "in a step": ratio(whole, *NORMS)}
    return found


def _alone(part: Norm, compiled: bool) -> partial[None]:
    module, x = part.build(WIDTH), features(BATCH, LENGTH, WIDTH).requires_grad_()
    call = torch.compile(module, dynamic=False) if compiled else module

    def both() -> None:
        call(x).sum().backward()

    both()
    return partial(both)


def _step(part: Norm, compiled: bool) -> partial[None]:
    paths = ("layer.attention.norm_before", "layer.feedforward.norm_before", "order", "final_norm")
    values = (part, part, "layer*4", part)
    changes = {f"decoder.{path}": value for path, value in zip(paths, values, strict=True)}
    plan = Plan(precision="fp32", compile="on" if compiled else "off")
    step = TrainingStep(change_all(af.architecture("gpt2"), changes), STEP, plan, torch.device("cpu"))
    step.update()
    return partial(step.update)
