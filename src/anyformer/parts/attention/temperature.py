"""Query temperatures: a factor of the queries that grows slowly with their position, so that long contexts stay sharp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Count, Positive, Registry
from anyformer.parts.positions.place import Place, Positioned
from anyformer.parts.sketch import words
from anyformer.parts.slot import Way

if TYPE_CHECKING:
    from torch import Tensor


class Temperature(Place):
    """The base of factors of the queries that depend on their positions."""

    name: ClassVar[str] = "temperature"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"latent"})
    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def words(self) -> tuple[str, ...]:
        return (words(self),)

    @property
    def technique(self) -> str:
        return "query temperature"

    def scaled(self, q_BTHE: Tensor, context: Positioned) -> Tensor:
        return q_BTHE * self.factor(context.positions)[..., None, None].to(q_BTHE.dtype)

    def factor(self, positions_BT: Tensor) -> Tensor:
        """The factor of each query, (B, T) in fp32."""
        raise NotImplementedError


class LogTemperature(Temperature):
    """q_t * (1 + strength * log(1 + floor((t + shift) / span))): 1 within the first span (Llama 4: shift 1; Ministral 3: 0)."""

    kind: Literal["log_temperature"] = "log_temperature"
    strength: Positive = 0.1
    span: Count = 8192
    shift: Annotated[int, Field(ge=0)] = 1

    def factor(self, positions_BT: Tensor) -> Tensor:
        steps = (positions_BT.clamp(min=0) + self.shift) // self.span
        return 1 + self.strength * steps.float().log1p()


class LateTemperature(Temperature):
    """q_t * (1 + strength * log(max((t + 1) / floor, 1))): 1 up to the floor, then a logarithm without steps (Inkling 2)."""

    kind: Literal["late_temperature"] = "late_temperature"
    strength: Positive = 0.1
    floor: Count = 8192

    def factor(self, positions_BT: Tensor) -> Tensor:
        return 1 + self.strength * ((positions_BT + 1).float() / self.floor).clamp(min=1.0).log()


class PowerTemperature(Temperature):
    """q_t * (1 + (t + shift) / span)^power, beside layers without positions (Beam: power 0.1, span 2048, shift 1)."""

    kind: Literal["power_temperature"] = "power_temperature"
    power: Positive = 0.1
    span: Count = 2048
    shift: Annotated[int, Field(ge=0)] = 1

    def factor(self, positions_BT: Tensor) -> Tensor:
        spans = (positions_BT.clamp(min=0) + self.shift).float() / self.span
        return (self.power * spans.log1p()).exp()


class LengthTemperature(Temperature):
    """q_t * max(1, log_n(t + 1)), n the trained length (Su 2021; Qwen 1's logn attention)."""

    kind: Literal["length_temperature"] = "length_temperature"
    trained: Annotated[int, Field(ge=2)] = 2048

    def factor(self, positions_BT: Tensor) -> Tensor:
        length = (positions_BT.clamp(min=0) + 1).float()
        return (length.log() / length.new_full((), float(self.trained)).log()).clamp(min=1)
