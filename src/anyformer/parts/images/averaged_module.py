"""The module of a projector that averages neighbouring positions."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.averaged import AveragedProjector
from anyformer.parts.pointwise.activation_module import built_activation


class AveragedModule(nn.Module):
    """(n, S, I) -> (n, floor(S / count), D)."""

    def __init__(self, part: AveragedProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.count = part.count
        self.norm = part.norm.build(inputs) if part.norm else nn.Identity()
        self.first = nn.Linear(inputs, width, bias=part.bias)
        one = part.activation is None
        self.activation = nn.Identity() if part.activation is None else built_activation(part.activation, width)
        self.second = nn.Identity() if one else nn.Linear(width, width, bias=part.bias)

    def forward(self, x_nSI: Tensor) -> Tensor:
        whole = x_nSI.shape[1] // self.count * self.count
        means = x_nSI[:, :whole].reshape(len(x_nSI), -1, self.count, x_nSI.shape[2]).mean(2)
        return self.second(self.activation(self.first(self.norm(means))))  # type: ignore[no-any-return]
