"""LoRA: a low-rank matrix that learns beside a frozen one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Weight
from anyformer.tuning.adapter import DOWN, UP, LowRankAdapter

if TYPE_CHECKING:
    from torch import Tensor, nn

    from anyformer.tuning.adapter_module import AdaptedLinear


class Lora(LowRankAdapter):
    """y = x W^T + s x A^T B^T with W frozen, A (rank, inputs), B (outputs, rank), s = alpha / rank.

    B starts at zero, so the first outputs are those of W. Hu et al. 2021, arXiv 2106.09685; the paper's r is `rank`.
    """

    follows: ClassVar[bool] = False
    kind: Literal["lora"] = "lora"

    def linear(self, frozen: nn.Linear) -> AdaptedLinear:
        from anyformer.tuning.lora_module import LoraLinear

        return LoraLinear(frozen, self.beside(Weight(tuple(frozen.weight.shape), "replicate", "matrix")), self.scale)

    def matrix(self, weight: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """W + s B A."""
        return weight + self.scale * (own[UP] @ own[DOWN])
