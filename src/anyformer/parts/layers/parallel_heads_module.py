"""The module of multi-token prediction by layers side by side on one trunk."""

from __future__ import annotations

from torch import Tensor

from anyformer.parts.layers.multi_token import Trunk
from anyformer.parts.layers.multi_token_module import PredictionsModule


class ParallelModule(PredictionsModule):
    """All predictions read the input of the main model's last layer."""

    def forward(self, trunk: Trunk) -> list[Tensor]:
        made = []
        for i in range(len(self.layers)):
            z_BTD = trunk.stream[:, : trunk.stream.shape[1] - i - 1]
            made.append(trunk.norm(self.layer(i, z_BTD, trunk.context.ahead(i + 1))))
        return made
