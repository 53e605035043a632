"""Classes of transformers as their authors' code computes, where transformers' own is another computation by mistake."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.models.nllb_moe.modeling_nllb_moe import NllbMoeExperts


def experts_that_the_router_chose(self: NllbMoeExperts, x_ZD: Tensor, first_ZX: Tensor, weights_ZX: Tensor) -> Tensor:
    """Each token through the experts of which its router gives a weight.

    transformers 5.23 takes `first_ZX`, which says for every expert whether it is a token's first, for the numbers of experts:
    so all tokens go to experts 0 and 1. facebook/nllb-moe-54b was trained with its two best (fairseq, moe_layer.py).
    """
    y_ZD = torch.zeros_like(x_ZD)
    for number in range(self.num_experts):
        (chosen,) = torch.where(weights_ZX[:, number] > 0)
        y_ZD[chosen] += self[f"expert_{number}"](x_ZD[chosen]) * weights_ZX[chosen, number, None]
    return y_ZD if self.training else y_ZD * (1 - self.moe_token_dropout)


def correct() -> None:
    """Put them in the place of transformers' own."""
    NllbMoeExperts.forward = experts_that_the_router_chose
