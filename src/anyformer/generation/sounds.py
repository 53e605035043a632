"""Sounds in prompts: their frames, and the tokens that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.images import in_place
from anyformer.model.transformer import Transformer


class SoundArguments(TypedDict):
    """Arguments of a model's call."""

    audio: Tensor | None
    audio_padding: Tensor | None


@dataclass(frozen=True)
class SoundFrames:
    """The frames (n, F, I) of the sounds of all prompts, in order, and `padding` (n, F), which only fills a window."""

    audio: Tensor
    padding: Tensor | None = None

    def on(self, device: torch.device) -> SoundFrames:
        """The same on a device."""
        return SoundFrames(self.audio.to(device), None if self.padding is None else self.padding.to(device))


def arguments_of(sounds: SoundFrames | None) -> SoundArguments:
    """What a model's call is given of sounds."""
    if sounds is None:
        return {"audio": None, "audio_padding": None}
    return {"audio": sounds.audio, "audio_padding": sounds.padding}


def with_sounds(
    model: Transformer, prompts: Sequence[Sequence[int]], sounds: SoundFrames | None, first: int = 0
) -> Sequence[Sequence[int]]:
    """The prompts with as many tokens per sound as it takes, as `with_images` has those of images."""
    if sounds is None:
        return prompts
    tower = model.architecture.audio
    if tower is None:
        raise InputError("this model reads no sound: leave it out, or load a composite with its tower (audio=True)")
    tokens = torch.tensor([tower.token])
    try:
        sizes = tower.sizes(sounds.audio, sounds.padding)
    except (IndexError, ValueError):
        sizes = []
    tower.check(sounds.audio, sounds.padding, tokens.expand(sum(sizes))[None])
    return in_place(prompts, tower, sizes, [[tower.token] * size for size in sizes], first)
