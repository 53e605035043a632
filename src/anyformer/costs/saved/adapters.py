"""Low-rank adapters beside the matrices of a model on paper (LoRA)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def add_adapters(model: nn.Module, ranks: Mapping[str, int]) -> list[Tensor]:
    """Add y = x W^T + x A^T B^T at every W of these paths, and return all A and B."""
    made: list[Tensor] = []
    for path, rank in ranks.items():
        linear = model.get_submodule(path.removesuffix(".weight"))
        assert isinstance(linear, nn.Linear), "adapters stand beside linear maps"
        down = nn.Parameter(torch.empty(rank, linear.in_features))
        up = nn.Parameter(torch.empty(linear.out_features, rank))
        linear.register_forward_hook(_adapted(down, up))
        made += [down, up]
    return made


def _adapted(down: Tensor, up: Tensor):  # type: ignore[no-untyped-def]
    def hook(linear: nn.Module, inputs: tuple[Tensor], y: Tensor) -> Tensor:
        return y + F.linear(F.linear(inputs[0], down), up)

    return hook
