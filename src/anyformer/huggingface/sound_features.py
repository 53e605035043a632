"""Files of sound as the frames that a composite's tower reads, by its own preprocessor_config.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from anyformer.huggingface.config import read_config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.hearing import published_hearing
from anyformer.huggingface.sound.models import hearing_of
from anyformer.sound import read_whole
from anyformer.text.beside import Beside


def sounds(files: Sequence[str | Path], directory: str | Path) -> tuple[Tensor, Tensor | None]:
    """Frames (n, F, I) of files of sound, and which of them (n, F) only fill a window; None where its class hears these too.

    A sound is followed by silence up to the window that the directory's feature extractor has, as 30 s; a longer one is
    refused.
    """
    place = Path(directory)
    hearing, found = hearing_of(read_config(place)), published_hearing(Beside.read(place))
    if found is None:
        raise HuggingFaceError(
            f"{place}: has no preprocessor_config.json, which says how sounds become frames: copy it there from where the "
            "model was published, or give the model frames"
        )
    rate = found.features.rate
    samples = int(found.seconds * rate)
    read = [torch.from_numpy(read_whole(file, rate, samples, str(place))) for file in files]
    filled = torch.stack([torch.nn.functional.pad(sound, (0, samples - len(sound))) for sound in read])
    frames = found.features.spectrum(filled).mT
    if not hearing.masked:
        return frames, None
    own = torch.tensor([[-(-len(sound) // found.features.hop)] for sound in read])
    return frames, torch.arange(frames.shape[1]) >= own
