"""The tokens of a text as embeddings, with those of images and sound at their places."""

from __future__ import annotations

from torch import Tensor

from anyformer.model.inputs import Call
from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.images.encoder_module import ImageEncoderModule
from anyformer.parts.images.sound_module import SoundTowerModule


def embedded(
    text: InputModule, images: ImageEncoderModule | None, audio: SoundTowerModule | None, given: Tensor, call: Call
) -> Tensor:
    """The input of a call, or its source, as `text` embeds it, with what the towers make of its images and sounds."""
    heard = None if call.audio is None else audio
    plain = given if heard is None else heard.plain(given)
    if images is None or call.images is None:
        x_BTD: Tensor = text(plain, call.padding, call.types)
    else:
        x_BTD = images.among(text, plain, call.images, call.padding, call.types)
    return x_BTD if heard is None or call.audio is None else heard.among(x_BTD, given, call.audio, call.audio_padding)
