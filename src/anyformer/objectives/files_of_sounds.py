"""Files of sound as a model that was trained on sounds here hears them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anyformer.data import SoundTexts
from anyformer.describe import UserError
from anyformer.generation.sounds import SoundFrames
from anyformer.model import Architecture
from anyformer.objectives.recorded import recorded
from anyformer.objectives.sound_to_text import SoundToTextObjective
from anyformer.objectives.sounds import SoundObjective, samples_of
from anyformer.sound import read_whole
from anyformer.text import Tokenizer


def trained_on(run: Mapping[str, Any] | None) -> tuple[SoundToTextObjective, SoundTexts] | None:
    """The objective and the data of a run as plain data, if it was trained on sounds among tokens; of a mixture the first."""
    return recorded(run, SoundToTextObjective, SoundTexts)


def heard_alone(
    sounds: Sequence[np.ndarray], objective: SoundObjective, architecture: Architecture, longest: int
) -> SoundFrames:
    """Sounds without texts as features, as in an evaluation, filled up to so many samples at least."""
    frames_BTI, padding = objective.frames_of([torch.from_numpy(sound) for sound in sounds], architecture, longest)
    return SoundFrames(objective.heard_as(frames_BTI, architecture), padding)


def sounds_in(
    files: Sequence[str | Path],
    objective: SoundToTextObjective,
    data: SoundTexts,
    architecture: Architecture,
    hears: str,
) -> SoundFrames:
    """The sounds of some files as the model hears them: filled up as in its training."""
    longest = samples_of(data)
    sounds = [read_whole(file, objective.features.rate, longest, hears) for file in files]
    return heard_alone(sounds, objective, architecture, longest)


def sound_prompt(objective: SoundToTextObjective, architecture: Architecture, tokenizer: Tokenizer | None) -> str:
    """The beginning of a text with a sound in it: nothing, or where text stands around the sound's tokens, that."""
    if tokenizer is None or architecture.audio is None or not (objective.before_sound or objective.behind_sound):
        return ""
    spelled = tokenizer.token(architecture.audio.token)
    if spelled is None:
        raise UserError(
            f"the tokenizer has no token {architecture.audio.token}, which stands for a sound, so no text has it between "
            "objective.before_sound and objective.behind_sound: give the prompt as --tokens"
        )
    return f"{objective.before_sound}{spelled}{objective.behind_sound}"
