"""Images and sounds in chats: `data:` URLs and base64 alone, never an address to fetch from."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyformer.generation.images import with_images
from anyformer.generation.sounds import SoundFrames, with_sounds
from anyformer.model.transformer import Transformer
from anyformer.parts.images.encoder_module import Images
from anyformer.serving.protocol_error import ProtocolError
from anyformer.text import Tokenizer

MOST = 16
"""Images, and sounds, of one chat."""
_URL = re.compile(r"data:(?:image|audio)/[\w.+-]+;base64,")
KINDS = {"image_url": "image", "image": "image", "input_audio": "audio", "audio_url": "audio"}
"""What a part of a message is called, and what a template calls it."""


@dataclass(frozen=True)
class MediaReaders:
    """How the model reads files of images and of sounds; None where it does not."""

    images: Callable[[Sequence[Path]], Images] | None = None
    sounds: Callable[[Sequence[Path]], SoundFrames] | None = None


@dataclass(frozen=True)
class ReadMedia:
    """What a chat shows a model beside its text, and the prompt with tokens for it."""

    tokens: list[int]
    images: Images | None = None
    sounds: SoundFrames | None = None


def part_of(part: Mapping[str, Any], where: str) -> tuple[str, bytes] | None:
    """The kind and the bytes of a part that is an image or a sound; None of any other."""
    kind = KINDS.get(part.get("type", ""))
    if kind is None:
        return None
    value = part.get(part["type"], part.get("data"))
    if isinstance(value, Mapping):
        value = value.get("url", value.get("data"))
    if not isinstance(value, str):
        raise ProtocolError(f"{where}: has no data: give a URL that begins with data:, or base64", param="messages")
    begun = _URL.match(value)
    if begun is None and ":" in value[:20]:
        raise ProtocolError(
            f"{where}: {value[:40]!r} is no data: URL of an image or a sound in base64, and nothing is fetched: send its bytes",
            param="messages",
        )
    try:
        return kind, base64.b64decode(value[begun.end() :] if begun else value, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError(f"{where}: is no base64", param="messages") from None


def read_media(
    readers: MediaReaders,
    model: Transformer,
    tokenizer: Tokenizer,
    tokens: list[int],
    files: Sequence[tuple[str, bytes]],
) -> ReadMedia:
    """The images and sounds of a chat as the model reads them, in order, and its prompt, which has a token for each."""
    if not files:
        return ReadMedia(tokens)
    read: dict[str, Any] = {}
    for kind, reader in (("image", readers.images), ("audio", readers.sounds)):
        given = [content for named, content in files if named == kind]
        if not given:
            continue
        noun = "images" if kind == "image" else "sounds"
        if reader is None:
            raise ProtocolError(f"messages: the model is shown no {noun} here: leave them out", param="messages")
        if len(given) > MOST:
            raise ProtocolError(f"messages: {len(given)} {noun}, and {MOST} are the most of a chat", param="messages")
        with TemporaryDirectory() as folder:
            places = [Path(folder, f"{noun}-{number}") for number in range(len(given))]
            for place, content in zip(places, given, strict=True):
                place.write_bytes(content)
            read[kind] = reader(places)
    images, sounds = read.get("image"), read.get("audio")
    first = len(tokenizer.frame.single.before)
    (found,) = with_sounds(model, with_images(model, [tokens], images, first), sounds, first)
    return ReadMedia(list(found), images, sounds)
