"""ActivationInput of another model as the input: the stream itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count
from anyformer.operations import Tally
from anyformer.parts.embedding.embedding import Input
from anyformer.parts.embedding.features import vectors
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.embedding.activations_module import ActivationsModule


class ActivationInput(Input):
    """x_t = a_t, a (B, T, D): vectors of another model's stream, heads or network, as they are."""

    kind: Literal["activations"] = "activations"
    rank: ClassVar[int] = 3
    features: Count
    """Numbers at every position, D of the stream."""

    def sketch(self, width: int) -> Sketch:
        return Sketch("ActivationInput", (f"{number(self.features)} of another model",))

    def fitting(self, width: int) -> str:
        both = "set width and embedding.features to"
        return f"{both} {width}, or both to {self.features}, whichever the path has whose values are read"

    def given(self, width: int) -> int:
        return self.features

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        return vectors(name, given, self.features)

    def build(self, width: int) -> ActivationsModule:
        from anyformer.parts.embedding.activations_module import ActivationsModule

        return ActivationsModule()

    def cost(self, width: int, batch: int, length: int) -> Tally:
        return Tally()

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        import torch

        return torch.randn(batch, length, self.features, generator=torch.Generator().manual_seed(seed)).to(device)
