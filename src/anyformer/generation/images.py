"""Images in prompts: the tokens that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.model.transformer import Transformer
from anyformer.parts.images.encoder_module import Images
from anyformer.parts.images.placeholder import each


def with_images(model: Transformer, prompts: Sequence[Sequence[int]], images: Images | None) -> Sequence[Sequence[int]]:
    """The prompts with as many tokens per image as it takes, where a prompt has one token for each.

    Prompts that already have them all are left as they are.
    """
    if images is None:
        return prompts
    tower = model.architecture.images
    if tells_of_images(model):
        if len(images) != len(prompts):
            raise InputError(
                f"{len(images)} images are given and {len(prompts)} prompts: this model tells of one per prompt, which "
                f"may be empty"
            )
        return prompts
    if tower is None:
        raise InputError("this model reads no images: leave them out, or load a composite with its tower (images=True)")
    tower.check_images(images)
    sizes = tower.sizes(images)
    found = sum(list(prompt).count(tower.token) for prompt in prompts)
    if found == sum(sizes):
        return prompts
    if found != len(sizes):
        raise InputError(
            f"{len(sizes)} images are given, and the prompts have {found} tokens {tower.token}, which stand for images: write "
            f"one where an image stands, or as many as it takes ({each(sizes)})"
        )
    left = iter(tower.written(images))
    return [[piece for token in prompt for piece in (next(left) if token == tower.token else [token])] for prompt in prompts]


def begun(prompts: Sequence[Sequence[int]], start: int | None) -> list[list[int]]:
    """The beginnings of what is told of images: the prompts behind the first token of every text, if it is known."""
    return [list(prompt) if start is None or list(prompt[:1]) == [start] else [start, *prompt] for prompt in prompts]


def of_prompts(model: Transformer, prompts: Sequence[Sequence[int]], images: Images | None) -> list[Images | None]:
    """The images of each prompt, which has all of their tokens; None for one without any."""
    tower = model.architecture.images
    if images is not None and tells_of_images(model):
        return [images[number : number + 1] for number in range(len(prompts))]
    if images is None or tower is None:
        return [None] * len(prompts)
    sizes, counts, number = tower.sizes(images), list[int](), 0
    for prompt in prompts:
        tokens, first = list(prompt).count(tower.token), number
        while tokens > 0:
            tokens, number = tokens - sizes[number], number + 1
        counts.append(number - first)
    ends = list(accumulate(counts))
    return [images[end - count : end] if count else None for end, count in zip(ends, counts, strict=True)]


def tells_of_images(model: Transformer) -> bool:
    """Whether its source is an image, which its target tells of."""
    return model.architecture.two_inputs and model.architecture.embedding.rank == 4


def as_source(model: Transformer, source: Tensor | None, images: Images | None) -> tuple[Tensor | None, Images | None]:
    """The source of a call and the images among its tokens, of a model whose source the images may be."""
    if images is None or source is not None or not tells_of_images(model):
        return source, images
    assert isinstance(images, Tensor), "they have one size"
    return images, None


def joined(images: Sequence[Images]) -> Images | None:
    """The images of several prompts; None without any."""
    if not images:
        return None
    if all(isinstance(some, Tensor) for some in images):
        return torch.cat([torch.as_tensor(some) for some in images])
    return tuple(image for some in images for image in some)


def on(device: torch.device, images: Images) -> Images:
    """The images on a device."""
    return images.to(device) if isinstance(images, Tensor) else tuple(image.to(device) for image in images)
