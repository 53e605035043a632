"""The tokens of several prompts as they come: all together, or some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anyformer.generation.decode import continuations
from anyformer.generation.drafting import Draft, Drafter
from anyformer.generation.images import on
from anyformer.generation.places import served
from anyformer.generation.sampling import Sampling
from anyformer.generation.speculative import Acceptance, check_verifies, speculated
from anyformer.generation.steps import stepper
from anyformer.model import InputError, Transformer
from anyformer.parts.images.encoder import Images

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
    images: Images | None,
    batch: int | None,
    draft: Drafter | Transformer | None,
    acceptance: Acceptance | None,
    ended: Callable[[int], bool],
) -> Given:
    """The tokens of every prompt; targets of a model with two inputs start with `end`.

    `batch`: prompts at a time, all if None. `draft`: what proposes tokens for one prompt after the other; `acceptance` counts
    them. `ended`: whether a row has ended, asked when its token was given; it may get more tokens, which mean nothing.
    """
    step, multiple = stepper(max_tokens, compile)
    how: dict[str, Any] = {
        "sampling": sampling or Sampling(), "max_tokens": max_tokens, "step": step, "multiple": multiple,
        "start": end if model.architecture.two_inputs else None,
        "images": None if images is None else on(model.device, images),
    }  # fmt: skip
    if draft is not None:
        if how.pop("images") is not None:
            raise InputError("tokens are proposed for text alone: leave the images or the draft out")
        if batch not in (None, 1):
            raise InputError(f"with a draft one prompt is computed at a time: leave batch = {batch} out")
        drafter = Draft(draft) if isinstance(draft, Transformer) else draft
        check_verifies(model, max(map(len, prompts), default=0) + max_tokens)
        drafter.check(model, prompts, max_tokens, how["start"])
        return speculated(model, prompts, drafter, ended=ended, acceptance=acceptance, **how)
    if batch is not None and batch < len(prompts):
        return served(model, prompts, batch, ended=ended, **how)
    return (list(enumerate(next_B.tolist())) for next_B in continuations(model, prompts, end=end, **how))
