"""Pictures by a model of flow: its velocity, followed from noise to data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.model.transformer import Transformer
from anyformer.parts.call.noise import Noise, normal
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.embedding.patches_module import pasted

Velocity = Callable[[Tensor, float], Tensor]
"""Images (B, I, height, width) and their time -> their velocity."""


def velocity(
    model: Transformer,
    images: Tensor,
    times_B: Tensor,
    classes_B: Tensor | None,
    noise: Noise | None = None,
    auxiliary: Auxiliary | None = None,
) -> Tensor:
    """The velocity of images (B, I, height, width) at their times, as the model says it, of the same shape in fp32.

    A model with twice as many outputs gives a variance behind it, which nothing reads (Ma et al. 2024, SiT, arXiv 2401.08740).
    """
    _, channels, height, width = images.shape
    outputs_BTO = model(images, times=times_B, classes=classes_B, noise=noise, auxiliary=auxiliary)
    numbers = channels * height * width // outputs_BTO.shape[1]
    return pasted(outputs_BTO[..., :numbers].float(), channels, height, width)


def guided(model: Transformer, classes_B: Tensor | None, guidance: float) -> Velocity:
    """v = v(null class) + guidance * (v(class) - v(null class)): classifier-free guidance (Ho & Salimans 2022, 2207.12598).

    A guidance of 1, or no classes, is the model's own velocity, of one call.
    """
    if classes_B is None or guidance == 1.0:
        return lambda images, time: velocity(model, images, images.new_full((len(images),), time), classes_B)
    null = number_of_classes(model)
    both = torch.cat([classes_B, torch.full_like(classes_B, null)])

    def follow(images: Tensor, time: float) -> Tensor:
        found = velocity(model, images.repeat(2, 1, 1, 1), images.new_full((2 * len(images),), time), both)
        of_class, of_none = found.chunk(2)
        return of_none + guidance * (of_class - of_none)

    return follow


def euler(at: Velocity, images: Tensor, time: float, later: float) -> Tensor:
    """x + (t' - t) v(x, t): one call of the model."""
    return images + (later - time) * at(images, time)


def heun(at: Velocity, images: Tensor, time: float, later: float) -> Tensor:
    """x + (t' - t) (v(x, t) + v(x', t')) / 2, x' that of Euler: two calls, and an error of second order in the step."""
    first = at(images, time)
    second = at(images + (later - time) * first, later)
    return images + (later - time) * (first + second) / 2


SOLVERS: Mapping[str, Callable[[Velocity, Tensor, float, float], Tensor]] = MappingProxyType({"euler": euler, "heun": heun})
"""Steps of a solver by its name: the velocity, images, their time, and the time after the step."""


def flowed(
    model: Transformer,
    shape: torch.Size,
    classes_B: Tensor | None = None,
    *,
    steps: int = 50,
    guidance: float = 1.0,
    solver: str = "euler",
    seed: int = 0,
) -> Tensor:
    """Images of `shape` (B, I, height, width) in fp32, from noise at time 1 to time 0 in equal steps.

    dx / dt = v(x, t) (Lipman et al. 2022, arXiv 2210.02747). The noise of row i follows from the seed and i alone, so that a
    batch may be cut anywhere. Raises `InputError` for settings that cannot be.
    """
    check_flow(model, classes_B, steps=steps, guidance=guidance, solver=solver)
    rows = torch.arange(shape[0], device=model.device)
    images, at = normal(Noise.at(seed, 0, rows), 0, shape), guided(model, classes_B, guidance)
    with torch.inference_mode():
        for step in range(steps):
            images = SOLVERS[solver](at, images, 1 - step / steps, 1 - (step + 1) / steps)
    return images


def number_of_classes(model: Transformer) -> int:
    """The classes that a model's condition tells apart, and so the number of the null class; 0 without any."""
    condition = model.architecture.output_stack.condition
    return 0 if condition is None else condition.classes or 0


def check_flow(model: Transformer, classes_B: Tensor | None, *, steps: int, guidance: float, solver: str) -> None:
    """Refuse settings that `flowed` cannot follow."""
    if model.architecture.output_stack.condition is None:
        raise InputError("a picture is made from noise by a model that reads its time, and this one has no condition")
    if steps < 1:
        raise InputError(f"steps = {steps} should be at least 1")
    if solver not in SOLVERS:
        raise InputError(f"solver = {solver!r} should be one of {', '.join(SOLVERS)}")
    if not 0 <= guidance <= 1000:
        raise InputError(f"guidance = {guidance:g} should be from 0 (no class) to 1000; 1 is the model as it was trained")
    if classes_B is not None and not number_of_classes(model):
        raise InputError("this model was trained without classes: leave them out")
