"""The tokens of several prompts as they come: all together, or some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor

from anyformer.generation.decode import continuations
from anyformer.generation.places import served
from anyformer.generation.sampling import Sampling
from anyformer.generation.steps import stepper
from anyformer.model import Transformer

Given = Iterator[list[tuple[int, int]]]
"""(row, token) of the rows that get a token, step by step."""


def running(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    sampling: Sampling | None,
    end: int | None,
    compile: bool | None,
    images: Tensor | None,
    batch: int | None,
    ended: Callable[[int], bool],
) -> Given:
    """The tokens of every prompt; targets of a model with two inputs start with `end`.

    `batch`: prompts at a time, all if None. `ended`: whether a row has ended, asked when its token was given; a row that has
    ended may get more tokens, which mean nothing.
    """
    step, multiple = stepper(model, max_tokens, compile)
    how: dict[str, Any] = {
        "sampling": sampling or Sampling(), "max_tokens": max_tokens, "step": step, "multiple": multiple,
        "start": end if model.architecture.two_inputs else None,
        "images": None if images is None else images.to(model.device),
    }  # fmt: skip
    if batch is not None and batch < len(prompts):
        return served(model, prompts, batch, ended=ended, **how)
    return (list(enumerate(next_B.tolist())) for next_B in continuations(model, prompts, end=end, **how))
