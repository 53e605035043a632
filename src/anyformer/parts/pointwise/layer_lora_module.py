"""The module of low-rank matrices beside shared weights."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from anyformer.parts.pointwise.layer_lora import LayerLoRA


class LayerLoRAModule(nn.Module):
    """(B, T, I) -> what is added to each output, (B, T, O)."""

    def __init__(self, lora: LayerLoRA, inputs: int, outputs: Mapping[str, int]) -> None:
        super().__init__()
        self.outputs = tuple(outputs)
        self.down = nn.ModuleList(nn.Linear(inputs, lora.rank, bias=False) for _ in range(lora.layers))
        for name, features in outputs.items():
            self.add_module(name, nn.ModuleList(nn.Linear(lora.rank, features, bias=False) for _ in range(lora.layers)))

    def forward(self, x_BTI: Tensor, turn: int) -> list[Tensor]:
        """`turn`: the number of the layer among those that share the weights."""
        narrow_BTP = self.down[turn](x_BTI)
        return [self.get_submodule(f"{name}.{turn}")(narrow_BTP) for name in self.outputs]
