"""What the losses of tokens are divided by: which tokens and rows count alike."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.describe import Count, Registry, Value


class Normaliser(Value):
    """The base of normalisers: a step's loss is sum(weights * losses) / sum(counts), however its samples are cut into
    micro-batches. Rows without a token that learns count for nothing."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def weights(self, mask_RT: Tensor) -> Tensor:
        """(R, T), or (R, 1): the factor of a token's loss, in fp32."""
        raise NotImplementedError

    def counts(self, mask_RT: Tensor, group: int) -> Tensor:
        """(B,) float64: the share of every sample in what the sum is divided by; a sample has `group` rows."""
        raise NotImplementedError


class TokenNormaliser(Normaliser):
    """1 / (sum_i |y_i|): every token of the step counts alike, so long answers count more (DAPO, Yu et al. 2025, arXiv
    2503.14476, section 3.3; TRL's `dapo`, and `bnpo` where a step is one batch)."""

    kind: Literal["token"] = "token"

    def weights(self, mask_RT: Tensor) -> Tensor:
        return torch.ones_like(mask_RT, dtype=torch.float32)

    def counts(self, mask_RT: Tensor, group: int) -> Tensor:
        return mask_RT.sum(1).view(-1, group).sum(1).double()


class SequenceNormaliser(Normaliser):
    """1 / (rows |y_i|): every answer counts alike, so the tokens of long ones count less (GRPO, Shao et al. 2024, arXiv
    2402.03300, equation 3)."""

    kind: Literal["sequence"] = "sequence"

    def weights(self, mask_RT: Tensor) -> Tensor:
        return 1 / mask_RT.sum(1, keepdim=True).clamp(min=1).float()

    def counts(self, mask_RT: Tensor, group: int) -> Tensor:
        return _rows(mask_RT, group)


class ConstantNormaliser(Normaliser):
    """1 / (rows * length): a token counts alike whatever the length of its answer and of others (Dr. GRPO, Liu et al. 2025,
    arXiv 2503.20783, with length = the most tokens of an answer). length = 1 sums the tokens of an answer, as
    grad log pi(y) does."""

    kind: Literal["constant"] = "constant"
    length: Count = 1
    """The tokens that an answer is held to have."""

    def weights(self, mask_RT: Tensor) -> Tensor:
        return torch.full_like(mask_RT, 1 / self.length, dtype=torch.float32)

    def counts(self, mask_RT: Tensor, group: int) -> Tensor:
        return _rows(mask_RT, group)


def _rows(mask_RT: Tensor, group: int) -> Tensor:
    """(B,) float64: the rows of every sample in which a token learns."""
    return mask_RT.any(1).view(-1, group).sum(1).double()
