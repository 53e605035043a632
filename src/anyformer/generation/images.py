"""Images in prompts: the tokens that stand for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyformer.model import InputError, Transformer


def with_images(model: Transformer, prompts: Sequence[Sequence[int]], images: Tensor | None) -> Sequence[Sequence[int]]:
    """The prompts with as many tokens for each image as it takes, where a prompt has one token for each.

    Prompts that already have them all are left as they are.
    """
    if images is None:
        return prompts
    tower = model.architecture.images
    if tower is None:
        raise InputError("this model reads no images: leave them out, or load a composite with its tower (images=True)")
    found = sum(list(prompt).count(tower.token) for prompt in prompts)
    if found == len(images) * tower.tokens:
        return prompts
    if found != len(images):
        raise InputError(
            f"{len(images)} images are given, and the prompts have {found} tokens {tower.token}, which stand for images: write "
            f"one where each image stands, or {tower.tokens}, as many as it takes"
        )
    times = {tower.token: tower.tokens}
    return [[token for token in prompt for _ in range(times.get(token, 1))] for prompt in prompts]


def of_prompts(model: Transformer, prompts: Sequence[Sequence[int]], images: Tensor | None) -> list[Tensor | None]:
    """The images of each prompt, which has all of their tokens; None for one without any."""
    tower = model.architecture.images
    if images is None or tower is None:
        return [None] * len(prompts)
    counts = [list(prompt).count(tower.token) // tower.tokens for prompt in prompts]
    return [each if len(each) else None for each in torch.split(images, counts)]
