"""Images in prompts: the tokens that stand for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.model.transformer import Transformer
from anyformer.parts.images.encoder_module import Images
from anyformer.parts.images.placeholder import PlaceholderEncoder, each


def source_of(model: Transformer, images: Images | None, prompts: int) -> Tensor | None:
    """The images as the sources of a model that reads them apart from its text, one per prompt; None of any other model."""
    architecture = model.architecture
    if images is None or architecture.images is not None or not architecture.two_inputs:
        return None
    if architecture.embedding.symbols is not None or architecture.embedding.sound is not None:
        return None
    if not isinstance(images, Tensor) or len(images) != prompts:
        raise InputError(f"{len(images)} images are given, and {prompts} prompts: this model reads one image beside each text")
    return images


def with_images(
    model: Transformer, prompts: Sequence[Sequence[int]], images: Images | None, first: int = 0
) -> Sequence[Sequence[int]]:
    """The prompts with as many tokens per image as it takes, where a prompt has one token for each.

    Prompts that already have them all are left as they are; where none has a token for images, and there is one image for
    each, it stands in front, behind the `first` tokens.
    """
    if images is None:
        return prompts
    tower = model.architecture.images
    if tower is None:
        raise InputError("this model reads no images: leave them out, or load a composite with its tower (images=True)")
    tower.check_images(images)
    return in_place(prompts, tower, tower.sizes(images), tower.written(images), first)


def in_place(
    prompts: Sequence[Sequence[int]],
    tower: PlaceholderEncoder,
    sizes: Sequence[int],
    written: Iterable[Sequence[int]],
    first: int,
) -> Sequence[Sequence[int]]:
    """The prompts with `written` where they have a token for each of what a tower reads, which takes `sizes` of its tokens."""
    found = sum(list(prompt).count(tower.token) for prompt in prompts)
    if found == sum(sizes):
        return prompts
    if found == 0 and len(sizes) == len(prompts):
        shown = zip(prompts, sizes, strict=True)
        return [[*prompt[:first], *[tower.token] * size, *prompt[first:]] for prompt, size in shown]
    if found != len(sizes):
        raise InputError(
            f"{len(sizes)} {tower.noun} are given, and the prompts have {found} tokens {tower.token}, which stand for "
            f"{tower.noun}: write one where one of them stands, or as many as it takes ({each(sizes)})"
        )
    left = iter(written)
    return [[piece for token in prompt for piece in (next(left) if token == tower.token else [token])] for prompt in prompts]


def parts_of(prompts: Sequence[str], kind: str, count: int, token: str) -> list[str | list[dict[str, str]]]:
    """The contents of a user's turns, each with its images (`kind` "image"), or sounds ("audio"), before its text, from which a
    chat template writes their tokens.

    `token`: that of one of them; prompts that spell it say themselves where they stand, and stay as they are. All of one
    prompt's are its own; several prompts have equally many, in their order.
    """
    if count % len(prompts) or any(token in prompt for prompt in prompts):
        return list(prompts)
    shown = [{"type": kind}] * (count // len(prompts))
    return [[*shown, {"type": "text", "text": prompt}] for prompt in prompts]


def begun(prompts: Sequence[Sequence[int]], start: int | None) -> list[list[int]]:
    """The beginnings of what is told of images: the prompts behind the first token of every text, if it is known."""
    return [list(prompt) if start is None or list(prompt[:1]) == [start] else [start, *prompt] for prompt in prompts]


def of_prompts(model: Transformer, prompts: Sequence[Sequence[int]], images: Images | None) -> list[Images | None]:
    """The images of each prompt, which has all of their tokens; None for one without any."""
    tower = model.architecture.images
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
