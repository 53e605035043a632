"""Transcripts of files of sound by a trained model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from anyformer.describe import UserError
from anyformer.evaluation.published_objective import published_objective
from anyformer.evaluation.subject import Subject
from anyformer.generation import GREEDY, authors_decoding
from anyformer.generation.settings import has_authors, within
from anyformer.objectives import Objective, default_objective
from anyformer.objectives.files_of_sounds import heard_alone
from anyformer.objectives.sounds import samples_of
from anyformer.objectives.transcripts import TranscriptObjective
from anyformer.sound import read_whole
from anyformer.training.run import load_run


@dataclass(frozen=True)
class Listener:
    """A model that writes transcripts: how it hears (`objective`), and samples of the longest sound that it hears."""

    subject: Subject
    objective: TranscriptObjective
    longest: int

    def transcripts(self, files: Sequence[str | Path], *, batch: int = 16, most: int | None = None) -> Iterator[str]:
        """The text of every file, in order, `batch` of them at a time: the likeliest token at each place, or the best path.

        `most`: tokens of a transcript at most, by default as many as in training. All files are read and checked first.
        """
        sounds = [self._sound(file) for file in files]
        for first in range(0, len(sounds), batch):
            with torch.inference_mode():
                yield from self._texts(sounds[first : first + batch], most)

    def _sound(self, file: str | Path) -> np.ndarray:
        return read_whole(file, self.objective.features.rate, self.longest, str(self.subject.path))

    def _texts(self, sounds: Sequence[np.ndarray], most: int | None) -> list[str]:
        model, tokenizer = self.subject.model, self.subject.text
        # Silence reaches as far as in training; what is hidden need not.
        samples = self.longest if self.objective.padding == "silence" else 0
        heard = heard_alone(sounds, self.objective, model.architecture, samples).on(model.device)
        chosen = authors_decoding(tokenizer, manners=True).sampling if has_authors(tokenizer) else GREEDY
        sampling = within(chosen, model, tokenizer)
        return self.objective.transcripts(
            model, heard.audio, heard.padding, tokenizer, most=most or self.subject.length, sampling=sampling
        )


def listener(subject: Subject) -> Listener:
    """A model with how it hears, as its run says, or the files beside its weights; `UserError` for one without transcripts."""
    if subject.run is not None:
        run = load_run(subject.run / "run.toml")
        return Listener(subject, _writing(run.objective, subject.path), samples_of(next(iter(run.data.components.values()))))
    architecture = subject.model.architecture
    published = published_objective(subject.path, architecture)
    objective = _writing(published or default_objective(architecture), subject.path)
    if published is None:
        raise UserError(
            f"{subject.path}: has no preprocessor_config.json, which says how it hears sounds: put the file of the published "
            "model beside its weights"
        )
    return Listener(subject, objective, samples_of(objective.usual.data(architecture, ("sounds",))))


def _writing(objective: Objective, path: Path) -> TranscriptObjective:
    """The objective, if its model writes transcripts."""
    if isinstance(objective, TranscriptObjective):
        return objective
    raise UserError(
        f"{path}: is a model for {objective.kind}, and a model for speech_to_text or ctc writes transcripts: leave --audio out"
    )
