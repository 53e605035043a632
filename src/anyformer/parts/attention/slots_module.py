"""What the slots of attention pass to one another in tensors, and the parameters that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Visible


@dataclass(frozen=True)
class AttentionInputs:
    """What is weighed: queries (B, H, T, E), keys (B, K, S, E), values (B, K, S, U), the keys that a query sees, what is
    added to scores, and which heads of the attention these are."""

    query: Tensor
    key: Tensor
    value: Tensor
    visible: Visible
    bias: Tensor | None = None
    heads: slice = field(default_factory=lambda: slice(None))

    @property
    def all(self) -> tuple[Tensor, Tensor, Tensor, Visible, Tensor | None]:
        """As the kernels take them."""
        return self.query, self.key, self.value, self.visible, self.bias

    @property
    def halves(self) -> tuple[AttentionInputs, AttentionInputs]:
        """Those of the first half of the heads and those of the second, with the values of both side by side."""
        half, value = self.query.shape[1] // 2, torch.cat(self.value.chunk(2, 1), -1)
        (q, other_q), (k, other_k) = self.query.chunk(2, 1), self.key.chunk(2, 1)
        bias, other = (None, None) if self.bias is None else self.bias.chunk(2, 1)
        return (
            AttentionInputs(q, k, value, self.visible, bias, slice(half)),
            AttentionInputs(other_q, other_k, value, self.visible, other, slice(half, None)),
        )


def parameters(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, nn.Parameter]:
    """Parameters of these shapes by name, without values yet."""
    return {name: nn.Parameter(torch.empty(shape)) for name, shape in shapes.items()}
