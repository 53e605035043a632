"""Rotary scaling: changed frequencies, so that a model can read longer texts than it was trained on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Moderate, Registry, Value
from anyformer.operations import Limit
from anyformer.parts.sketch import number

if TYPE_CHECKING:
    from torch import Tensor


Trained = Annotated[int, Field(ge=2)]
LEAST_THETA = 1.01
"""The smallest base whose logarithm YaRN divides by: that of 1 is 0."""


class RotaryScaling(Value):
    """The base of scalings; `frequencies` maps the R / 2 base frequencies, fastest first, to the scaled ones."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def words(self) -> str:
        """Its description in words: `yarn × 40`."""
        return self.kind

    @property
    def wave_factor(self) -> float:
        """Factor of the cosines and sines (YaRN's attention temperature)."""
        return 1.0

    @property
    def limits(self) -> tuple[Limit, ...]:
        return ()

    @property
    def trained_length(self) -> int | None:
        """Positions of the texts for which the unscaled frequencies were made; None where the scaling does not ask."""
        return None

    def check(self, pairs: int) -> None:
        """Refuse a number of pairs, R / 2, that does not fit."""

    def check_theta(self, theta: float) -> None:
        """Refuse a base of the frequencies that does not fit."""

    def frequencies(self, base: Tensor, theta: float, length: Tensor) -> Tensor:
        """The scaled frequencies; `length`: a 0-d tensor, the positions of the longest row of the call."""
        raise NotImplementedError


def _depends_on_length(trained: int, *, read_again: bool) -> tuple[Limit, ...]:
    """`read_again`: whether the frequencies beyond the trained length are the same for every length."""
    reason = f"rotary frequencies depend on the length of the text once it passes {trained}"
    others = Limit.each(reason, "causal", "chunked", "packed", "padded", beyond=trained)
    return (Limit("cached", reason, beyond=trained, read_again=read_again), *others)


class Stretched(RotaryScaling):
    """A scaling by one factor."""

    factor: Moderate

    @property
    def words(self) -> str:
        return f"{self.kind} × {number(self.factor)}"


class LinearScaling(Stretched):
    """Every frequency divided by `factor`, which squeezes positions (Chen et al. 2023, arXiv 2306.15595)."""

    kind: Literal["linear"] = "linear"

    def frequencies(self, base: Tensor, theta: float, length: Tensor) -> Tensor:
        return base / self.factor


class DynamicScaling(Stretched):
    """Theta grows with a text longer than `trained`: theta * (factor * n / trained - factor + 1)^(R / (R - 2)).

    Dynamic NTK (transformers' `dynamic`). A token's angles change with every token that follows: keys stay in a decode state as
    they were when they were read, as in transformers, and differ from recomputed ones.
    """

    kind: Literal["dynamic"] = "dynamic"
    trained: Trained

    @property
    def limits(self) -> tuple[Limit, ...]:
        return _depends_on_length(self.trained, read_again=False)

    @property
    def trained_length(self) -> int:
        return self.trained

    def check(self, pairs: int) -> None:
        if pairs < 2:
            raise ValueError("dynamic scaling leaves the fastest pair as it is: rotate at least 4 features of a head")

    def frequencies(self, base: Tensor, theta: float, length: Tensor) -> Tensor:
        import torch

        dims = 2 * len(base)
        # At least 1, also where a large factor rounds it to 0.
        grown = (self.factor * length.clamp(min=self.trained) / self.trained - (self.factor - 1)).float().clamp(min=1)
        index = torch.arange(0, dims, 2, device=base.device, dtype=torch.float32)
        return (theta * grown ** (dims / (dims - 2))) ** (-index / dims)


class YaRN(Stretched):
    """High frequencies as trained, low ones divided by `factor`, a ramp between them (Peng et al. 2023, arXiv 2309.00071).

    The ramp goes from the pair that turns `beta_fast` times within the trained length to the one that turns `beta_slow`
    times. The paper's temperature is `attention_factor`, a factor of the cosines and sines: 0.1 ln(factor) + 1 by default.
    """

    kind: Literal["yarn"] = "yarn"
    factor: Annotated[Moderate, Field(ge=1)]
    trained: Trained
    beta_fast: Moderate = 32.0
    beta_slow: Moderate = 1.0
    truncate: bool = True
    """Round the ends of the ramp to whole pairs."""
    attention_factor: Moderate | None = None

    @property
    def trained_length(self) -> int:
        return self.trained

    @property
    def wave_factor(self) -> float:
        return 0.1 * math.log(self.factor) + 1 if self.attention_factor is None else self.attention_factor

    def check_theta(self, theta: float) -> None:
        if theta < LEAST_THETA:
            raise ValueError(
                f"yarn finds by logarithms to the base theta which pairs turn how often, so theta must be {LEAST_THETA} or "
                f"more, got {theta}"
            )

    def frequencies(self, base: Tensor, theta: float, length: Tensor) -> Tensor:
        import torch

        dims = 2 * len(base)
        low, high = (
            dims * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(theta))
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dims - 1)
        pair = torch.arange(len(base), device=base.device, dtype=torch.float32)
        squeezed = ((pair - low) / max(high - low, 0.001)).clamp(0, 1)
        return base / self.factor * squeezed + base * (1 - squeezed)


class Llama3Scaling(Stretched):
    """Wavelengths above trained / low times `factor`, those below trained / high as trained, a blend between (Llama 3.1)."""

    kind: Literal["llama3"] = "llama3"
    factor: Moderate = 8.0
    low: Moderate = 1.0
    high: Moderate = 4.0
    trained: Trained = 8192

    @property
    def trained_length(self) -> int:
        return self.trained

    @model_validator(mode="after")
    def _ordered(self) -> Llama3Scaling:
        if self.low >= self.high:
            raise ValueError(f"low must be smaller than high, got low = {self.low} and high = {self.high}")
        return self

    def frequencies(self, base: Tensor, theta: float, length: Tensor) -> Tensor:
        turns = self.trained * base / (2 * math.pi)
        share = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return base / self.factor * (1 - share) + base * share


class LongRoPE(RotaryScaling):
    """A divisor per pair: a list for short texts, one for texts longer than `trained` (Ding et al. 2024, 2402.13753).

    A text that comes to be longer is read again from its start, as Phi-3 is in transformers.
    """

    kind: Literal["longrope"] = "longrope"
    short: tuple[Moderate, ...] = Field(min_length=1)
    long: tuple[Moderate, ...] = Field(min_length=1)
    trained: Trained
    attention_factor: Moderate = 1.0
    """Factor of the cosines and sines; Phi-3: sqrt(1 + ln(longest / trained) / ln(trained))."""

    @property
    def trained_length(self) -> int:
        return self.trained

    @property
    def wave_factor(self) -> float:
        return self.attention_factor

    @property
    def limits(self) -> tuple[Limit, ...]:
        return () if self.short == self.long else _depends_on_length(self.trained, read_again=True)

    def check(self, pairs: int) -> None:
        for name, divisors in (("short", self.short), ("long", self.long)):
            if len(divisors) != pairs:
                raise ValueError(f"longrope's {name} needs {pairs} divisors, one per pair, got {len(divisors)}")

    def frequencies(self, base: Tensor, theta: float, length: Tensor) -> Tensor:
        import torch

        from anyformer.parts.constant import listed

        short, long = (listed(divisors, torch.float32, base.device) for divisors in (self.short, self.long))
        return base / torch.where(length > self.trained, long, short)


class Proportional(RotaryScaling):
    """The fastest `fraction` of the pairs rotate; the others have frequency 0 (Gemma 4's global layers)."""

    kind: Literal["proportional"] = "proportional"
    fraction: Annotated[float, Field(gt=0, le=1)]
    factor: Moderate = 1.0

    def frequencies(self, base: Tensor, theta: float, length: Tensor) -> Tensor:
        import torch

        pair = torch.arange(len(base), device=base.device)
        return torch.where(pair < int(self.fraction * len(base)), base / self.factor, 0.0)
