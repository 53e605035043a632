"""The tokens of a text as embeddings, with those of images and sound at their places."""

from __future__ import annotations

from torch import Tensor

from anyformer.model.inputs import NONE_ADDED, Call
from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.images.encoder_module import ImageEncoderModule
from anyformer.parts.images.sound_module import SoundTowerModule


def embedded(
    text: InputModule, images: ImageEncoderModule | None, audio: SoundTowerModule | None, given: Tensor, call: Call
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The input of a call, or its source, as `text` embeds it, with what the towers make of its images and sounds; and what is
    added behind the first layers, of the same shape."""
    heard = None if call.audio is None else audio
    plain = given if heard is None else heard.plain(given)
    if images is None or call.images is None:
        given_with = plain, call.padding, call.types
        x_BTD, added = text(*given_with) if call.kept is None else text.some(*given_with, call.kept), NONE_ADDED
    else:
        x_BTD, added = images.among(text, plain, call.images, call.padding, call.types)
    if heard is not None and call.audio is not None:
        x_BTD = heard.among(x_BTD, given, call.audio, call.audio_padding)
    return x_BTD, added
