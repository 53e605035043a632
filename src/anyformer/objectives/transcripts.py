"""The base of objectives whose model writes the transcript of a sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from torch import Tensor

from anyformer.data import IGNORED, Data, Speech
from anyformer.generation.sampling import GREEDY, Sampling
from anyformer.generation.transcribing import spoken_text
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Totals
from anyformer.objectives.sounds import SoundObjective
from anyformer.objectives.transcript_rates import edit_sums, error_rates
from anyformer.text import Tokenizer


class TranscriptObjective(SoundObjective):
    """An objective on sounds and what is said in them, told by the errors of transcripts too."""

    reads: ClassVar[type[Data]] = Speech

    def transcripts(
        self,
        model: Transformer,
        sounds: Tensor,
        padding: Tensor | None,
        tokenizer: Tokenizer,
        *,
        most: int,
        sampling: Sampling = GREEDY,
    ) -> list[str]:
        """What the model writes of sounds as `heard` gives them; `most`: tokens of a transcript at most."""
        raise NotImplementedError

    def times(self, tokenizer: Tokenizer) -> int | None:
        """The first token of times, which are no part of a text; None without them."""
        return None

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, answers=self._answers)

    def _answers(self, model: Transformer, examples: Examples, tokenizer: Tokenizer) -> dict[str, Tensor]:
        """Edits of the transcripts of sounds in which something is said, by the likeliest token at each place, T at most."""
        said_B = (examples.targets != IGNORED).any(1)
        padding = None if examples.padding is None else examples.padding[said_B]
        sounds, most = examples.tokens[said_B], examples.targets.shape[1]
        found = self.transcripts(model, sounds, padding, tokenizer, most=most) if len(sounds) else []
        targets = examples.targets[said_B]
        return edit_sums(
            found, [spoken_text(tokenizer, row[row != IGNORED].tolist(), self.times(tokenizer)) for row in targets]
        )

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """The error rates of transcripts in words and characters, beside what else the objective tells."""
        return {**super().metrics(totals, names), **error_rates(totals)}
