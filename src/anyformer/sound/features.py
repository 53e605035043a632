"""`SoundFeatures`: what a model hears of a sound, as a frozen value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from anyformer.describe import Count, Registry, Value

if TYPE_CHECKING:
    from torch import Tensor


class SoundFeatures(Value):
    """From samples to features over time. The base of every kind of features."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    rate: Count = 16_000
    """Samples per second."""

    @property
    def inputs(self) -> int:
        """I, numbers of a frame."""
        raise NotImplementedError

    @property
    def least(self) -> int:
        """Samples of the shortest sound that has features."""
        raise NotImplementedError

    def frames(self, samples: int) -> int:
        """T, frames of a sound of so many samples."""
        raise NotImplementedError

    def spectrum(self, sound_BY: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Sounds (B, Y) as features (B, I, T) float32; `lengths_B`: the samples of sounds that zeros follow."""
        self.check(sound_BY)
        return self._spectrum(sound_BY.float(), lengths_B)

    def check(self, sound_BY: Tensor) -> None:
        """Refuse sounds that are no rows of samples, or too short."""
        if sound_BY.dim() != 2 or sound_BY.shape[1] < self.least:
            raise ValueError(
                f"sounds of shape {tuple(sound_BY.shape)}: {self.kind} takes (batch, samples) of at least {self.least} "
                "samples; put zeros behind shorter ones"
            )

    def _spectrum(self, sound_BY: Tensor, lengths_B: Tensor | None) -> Tensor:
        raise NotImplementedError
