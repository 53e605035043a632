"""Low-rank matrices of its own that each of several layers adds to weights that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anyformer.describe import Count, Value
from anyformer.operations import Product, Tally, Weight

if TYPE_CHECKING:
    from anyformer.parts.pointwise.layer_lora_module import LayerLoRAModule


class LayerLoRA(Value):
    """x W + x A_i B_i in the i-th of the layers that share W: (I, O), with A_i: (I, P) and B_i: (P, O) of its own.

    Layer-wise LoRA of relaxed recursive transformers (Bae et al. 2024, arXiv 2410.20672), learned from the start as in Zamba2
    (Glorioso et al. 2024, arXiv 2411.15242). Several W that read the same x may have one A_i.
    """

    rank: Count
    """Features (P) between A_i and B_i."""
    layers: Count
    """The most layers that share the weights."""

    @property
    def beside(self) -> str:
        """For pictures."""
        return f"rank {self.rank} of each layer's own"

    def module(self, inputs: int, outputs: Mapping[str, int]) -> LayerLoRAModule:
        from anyformer.parts.pointwise.layer_lora_module import LayerLoRAModule

        return LayerLoRAModule(self, inputs, outputs)

    def work(self, inputs: int, outputs: Mapping[str, int], rows: int) -> Tally:
        """The weights of all layers, and the work of one."""
        weights, P = dict[str, Weight](), self.rank
        for i in range(self.layers):
            weights[f"down.{i}.weight"] = Weight((P, inputs), "replicate", "matrix", sensitive=True)
            for name, features in outputs.items():
                weights[f"{name}.{i}.weight"] = Weight((features, P), "column", "matrix", sensitive=True)
        up = {f"{name}.0": Product(rows, P, features, "column") for name, features in outputs.items()}
        return Tally(weights, {"down.0": Product(rows, inputs, P, "replicate"), **up})
