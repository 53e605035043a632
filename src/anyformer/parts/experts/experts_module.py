"""The module of mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.choices import ChoosesExperts
from anyformer.parts.call.context import Context
from anyformer.parts.call.opened import check_whole
from anyformer.parts.call.state import EMPTY
from anyformer.parts.experts.capacity import CapacityRequest
from anyformer.parts.experts.dispatch import ExpertRows, Placement
from anyformer.parts.experts.exchange import HoldsExperts, here
from anyformer.parts.experts.experts import Experts
from anyformer.parts.experts.report import report
from anyformer.parts.experts.router import RouterScores
from anyformer.parts.experts.selection_module import best
from anyformer.parts.experts.shared import SharedExpert
from anyformer.parts.feedforward.feedforward import Projection
from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.plan import Plan


def seen_by_choice(name: str, x_QF: Tensor, placement: Placement, rows: torch.Size, context: Context) -> Tensor:
    """What the rows of experts have, (Q, F), seen by the choices of each token, (B, T, J, F)."""
    if not context.wants(name):
        return x_QF
    return placement.arrange(context.see_rows(name, placement.combine(x_QF), rows))


class ExpertsModule(HoldsExperts, ChoosesExperts):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, description: Experts, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.description, self.name, self.chosen = description, name, description.chosen
        experts = description.experts
        self.activation = built_activation(description.activation, description.width)
        self.router = description.router.build(description.choices, description.chosen, width, name)
        self.norm = description.norm.build(width) if description.norm else nn.Identity()
        for projection in description.projections:
            outputs, inputs = description.sides(projection, width)
            self.register_parameter(projection, nn.Parameter(torch.empty(experts, outputs, inputs)))
            if projection in description.bias:
                self.register_parameter(f"{projection}_bias", nn.Parameter(torch.empty(experts, outputs)))
        shared = description.shared
        self.shared = shared.feedforward.build(width, plan, f"{name}.shared") if shared else None
        self.shared_gate = nn.Linear(width, 1, bias=False) if shared and shared.gate else None

    def extra_repr(self) -> str:
        d = self.description
        return f"experts={d.experts}, chosen={d.chosen}, width={d.width}, activation={d.activation}"

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        real_BT = (context.positions != EMPTY).expand(x_BTD.shape[:2])
        check_whole(context.opened, None if self.exchange is here else self.exchange)
        rows, of_router = x_BTD.shape[:2], context.inside("router")
        routing = self.router(x_BTD, of_router)
        own_ZJ = context.chosen(self.name, best(routing.preference, self.chosen))
        wanted_ZJ = of_router.see_rows("chosen", own_ZJ, rows)
        placement = self._place(routing, wanted_ZJ, real_BT)
        if context.auxiliary is not None:
            context.auxiliary.reports[self.name] = report(self.router, routing, wanted_ZJ, placement.taken, context)
        x_BTD = self.norm(x_BTD)
        y_BTD = self._mixed(x_BTD, routing, placement, context).view(x_BTD.shape)
        y_BTD = context.see("mixed", y_BTD)
        return y_BTD if self.description.shared is None else self._joined(y_BTD, x_BTD, self.description.shared, context)

    def _joined(self, y_BTD: Tensor, x_BTD: Tensor, rule: SharedExpert, context: Context) -> Tensor:
        """The output of the experts joined with that of the shared expert."""
        assert self.shared is not None
        shared_BTD: Tensor = self.shared(x_BTD, context.inside("shared"))
        if self.shared_gate is not None:
            shared_BTD = shared_BTD * torch.sigmoid(self.shared_gate(x_BTD))
        return y_BTD + shared_BTD if rule.join == "sum" else (y_BTD + shared_BTD) / 2

    def _place(self, routing: RouterScores, wanted_ZJ: Tensor, real_BT: Tensor) -> Placement:
        """The rows in which experts compute the tokens, within the capacity if it holds."""
        experts, capacity = self.description.experts, self.description.capacity
        if capacity is None or not capacity.holds(self.training):
            return self.placed(wanted_ZJ, experts)
        candidates = self.description.router.choice.candidates(experts)
        return capacity.place(CapacityRequest(wanted_ZJ, real_BT, experts, lambda: best(routing.preference, candidates)))

    def _mixed(self, x_BTD: Tensor, routing: RouterScores, placement: Placement, context: Context) -> Tensor:
        """The chosen experts' outputs, weighed and added: (Z, D)."""
        capacity, rows, x_ZD = self.description.capacity, x_BTD.shape[:2], x_BTD.flatten(0, 1)
        among = placement.taken if capacity is not None and capacity.reroutes else None
        weights_ZJ = self.router.weigh(routing, placement.chosen, among).to(x_ZD.dtype)
        weights_ZJ = context.inside("router").see_rows("weights", weights_ZJ, rows)
        rows_QD = placement.dispatch(x_ZD)
        of_input = self.description.weigh == "input"
        rows_QD = rows_QD * placement.spread(weights_ZJ) if of_input else rows_QD
        shows = partial(seen_by_choice, "hidden", placement=placement, rows=rows, context=context)
        y_ZJD = placement.combine(self._computed(rows_QD, placement, shows))
        y_ZJD = context.see_rows("expert_outputs", y_ZJD, rows)
        return y_ZJD.sum(1) if of_input else (y_ZJD * weights_ZJ[..., None]).sum(1)

    def _computed(self, rows_QD: Tensor, placement: Placement, shows: Callable[[Tensor], Tensor]) -> Tensor:
        """The output of each row's expert: (Q, D) -> (Q, D). `shows`: gives the features inside experts, (Q, F), as seen."""
        identities = self.description.identity_experts > 0
        y_QD = self.exchange(partial(self._experts, shows), rows_QD, placement.groups(whole=not identities))
        return torch.where((placement.expert >= self.description.experts)[:, None], rows_QD, y_QD) if identities else y_QD

    def _experts(self, shows: Callable[[Tensor], Tensor], rows_QD: Tensor, groups: ExpertRows) -> Tensor:
        """The same, of the experts held here; rows of others become 0."""
        up_QF = self._project("up", rows_QD, groups)
        gate_QF = self._project("gate", rows_QD, groups) if self.description.gated else None
        return self._project("down", shows(self.description.between(self.activation, gate_QF, up_QF)), groups)

    def _project(self, name: Projection, rows_QI: Tensor, groups: ExpertRows) -> Tensor:
        y_QO = self.own_product(name, rows_QI, groups)
        if name not in self.description.bias:
            return y_QO
        bias = self.get_parameter(f"{name}_bias")
        # Rows of identity experts look up a bias too; their result is not used.
        expert_Q = groups.expert if groups.whole else groups.expert.clamp(max=len(bias) - 1)
        # A look-up, because its gradient is summed in a fixed order.
        return y_QO + F.embedding(expert_Q, bias).to(y_QO.dtype)
