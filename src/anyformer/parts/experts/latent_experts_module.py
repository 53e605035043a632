"""The module of experts in a latent."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.experts.dispatch import Placement
from anyformer.parts.experts.experts_module import ExpertsModule
from anyformer.parts.experts.latent_experts import LatentExperts
from anyformer.parts.experts.router import RouterScores
from anyformer.plan import Plan


class LatentExpertsModule(ExpertsModule):
    """(B, T, D) -> (B, T, D), by way of (B, T, P)."""

    def __init__(self, description: LatentExperts, width: int, plan: Plan, name: str) -> None:
        super().__init__(description.but(norm=None), width, plan, name)
        latent, bias = description.latent, description.latent_bias
        self.latent_in, self.latent_out = nn.Linear(width, latent, bias=bias), nn.Linear(latent, width, bias=bias)
        self.latent_norm = description.norm.build(latent) if description.norm else nn.Identity()
        self.output_norm = description.output_norm.build(latent) if description.output_norm else nn.Identity()

    def _mixed(self, x_BTD: Tensor, routing: RouterScores, placement: Placement, context: Context) -> Tensor:
        z_BTP = self.latent_norm(context.see("latent", self.latent_in(x_BTD)))
        mixed: Tensor = self.latent_out(super()._mixed(z_BTP, routing, placement, context))
        return mixed

    def _computed(self, rows_QD: Tensor, placement: Placement, shows: Callable[[Tensor], Tensor]) -> Tensor:
        return self.output_norm(super()._computed(rows_QD, placement, shows))  # type: ignore[no-any-return]
