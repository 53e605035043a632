"""The module of the router."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import DrawsNoise, uniform
from anyformer.parts.derived import of_width
from anyformer.parts.experts.router import Router, RouterScores
from anyformer.parts.experts.selection import RouterInputs

SCORES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "softmax": lambda logits: logits.softmax(-1),
        "sigmoid": torch.sigmoid,
        "sqrt_softplus": lambda logits: F.softplus(logits).sqrt(),
    }
)
"""Name of a score -> function from logits to scores (Z, X)."""


class RouterModule(DrawsNoise):
    """(B, T, D) -> the `RouterScores` of each token. `correction`, (X,), is a parameter without gradient: see `rebalance`.

    So is `table`, (V, k), of whole numbers.
    """

    def __init__(self, router: Router, experts: int, chosen: int, width: int, name: str) -> None:
        super().__init__()
        self.router, self.experts, self.chosen = router, experts, chosen
        self.multiplier = of_width(router.multiplier, width)
        scored = router.score != "equal"
        self.norm = router.norm.build(width) if router.norm else nn.Identity()
        self.weight = nn.Parameter(torch.empty(experts, width)) if scored else None
        self.bias = nn.Parameter(torch.empty(experts)) if router.bias else None
        self.expert_scale = nn.Parameter(torch.empty(experts)) if router.expert_scale else None
        rule = router.choice.correction_rule
        self.correction = nn.Parameter(torch.empty(experts), requires_grad=False) if rule else None
        size = None if router.choice.tabled is None else (router.choice.tabled, chosen)
        self.table = nn.Parameter(torch.empty(size, dtype=torch.int64), requires_grad=False) if size else None
        self.rounds = router.choice.rounds(chosen)
        self.draws = router.jitter > 0 or self.rounds > 0
        self._sites = {use: zlib.crc32(f"{name}.{use}".encode()) for use in ("jitter", "choice")}

    def extra_repr(self) -> str:
        return repr(self.router)

    def forward(self, x_BTD: Tensor, context: Context) -> RouterScores:
        logits = None if self.weight is None else self._logits(self._read(x_BTD, context).flatten(0, 1))
        return self.routing(logits, x_BTD.shape[:2], context)

    def routing(self, logits: Tensor | None, rows: torch.Size, context: Context) -> RouterScores:
        """The routing of `rows`, (B, T), with these logits, (Z, X)."""
        noise_ZAX, scores = None, None
        if logits is not None:
            logits = context.see_rows("logits", logits, rows)
            scores = SCORES[self.router.score](logits)
            scores = context.see_rows("scores", scores, rows) if self.router.by_scores else scores
        if self.training and self.rounds:
            noise = self._uniform("choice", rows, self.rounds * self.experts, context)
            noise_ZAX = noise.view(-1, self.rounds, self.experts)
        inputs = RouterInputs(self.experts, self.chosen, logits, scores, self.correction, noise_ZAX, context.tokens, self.table)
        with torch.no_grad():
            return RouterScores(inputs, self.router.choice.preference(inputs))

    def weigh(self, routing: RouterScores, chosen_ZJ: Tensor, taken_ZJ: Tensor | None) -> Tensor:
        """The weights (Z, J) of the experts chosen; a renormalisation leaves out those with `taken` false."""
        inputs = routing.inputs
        if inputs.scores is None:
            return torch.full(chosen_ZJ.shape, self.router.scale / self.chosen, device=chosen_ZJ.device)
        weights = self._shares(inputs, chosen_ZJ, taken_ZJ) * self.router.scale
        if self.expert_scale is None:
            return weights
        # A look-up, because its gradient is summed in a fixed order.
        return weights * F.embedding(chosen_ZJ, self.expert_scale[:, None])[..., 0].to(weights.dtype)

    def _shares(self, inputs: RouterInputs, chosen_ZJ: Tensor, taken_ZJ: Tensor | None) -> Tensor:
        """(Z, J): the weights before any factor."""
        assert inputs.logits is not None
        assert inputs.scores is not None
        if self.router.over == "chosen":
            picked = inputs.logits.gather(-1, chosen_ZJ)
            if taken_ZJ is not None:
                picked = picked.masked_fill(~taken_ZJ, torch.finfo(picked.dtype).min)
            return picked.softmax(-1)
        choice, rule = self.router.choice, self.router.renormalise
        shares = choice.weights(inputs, chosen_ZJ) if choice.weighs else inputs.scores.gather(-1, chosen_ZJ)
        if taken_ZJ is not None:
            shares = shares * taken_ZJ
        if rule is None:
            return shares
        return shares / (shares.sum(-1, keepdim=True) + rule.eps).clamp(min=rule.least)

    def _logits(self, x_ZD: Tensor) -> Tensor:
        """(Z, X), in fp32 at least whatever the plan's precision: a rounded logit chooses another expert."""
        assert self.weight is not None
        exact = torch.promote_types(x_ZD.dtype, torch.float32)
        bias = None if self.bias is None else self.bias.to(exact)
        with _without_autocast(x_ZD.device.type):
            logits = F.linear(x_ZD.to(exact), self.weight.to(exact), bias)
        cap = self.router.softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def _read(self, x_BTD: Tensor, context: Context) -> Tensor:
        """The input of the linear map: jitter, norm and multiplier applied."""
        rate = self.router.jitter
        if self.training and rate > 0:
            u_BTD = self._uniform("jitter", x_BTD.shape[:2], x_BTD.shape[2], context).view(x_BTD.shape)
            x_BTD = x_BTD * (1 - rate + 2 * rate * u_BTD).to(x_BTD.dtype)
        x_BTD = self.norm(x_BTD)
        return x_BTD if self.multiplier == 1.0 else x_BTD * self.multiplier

    def _uniform(self, use: str, rows: torch.Size, features: int, context: Context) -> Tensor:
        """(Z, features) uniform numbers in (0, 1)."""
        assert context.noise is not None, "the model draws noise whenever it trains with a router that needs it"
        return uniform(context.noise, self._sites[use], torch.Size((*rows, features))).flatten(0, 1)


def _without_autocast(device: str) -> contextlib.AbstractContextManager[object]:
    available = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if available else contextlib.nullcontext()


def corrected(correction_X: Tensor, counts_X: Tensor, rate: float) -> Tensor:
    """The next correction: b + rate * sign(mean(c) - c), c the tokens that chose each expert in a step, (X,)

    (Wang et al. 2024, arXiv 2408.15664, algorithm 1; DeepSeek-V3, arXiv 2412.19437, section 2.1.2, whose gamma is the rate).
    """
    counts = counts_X.to(correction_X.dtype)
    return correction_X + rate * torch.sign(counts.mean() - counts)


@torch.no_grad()
def rebalance(model: nn.Module, counts: Mapping[str, Tensor]) -> None:
    """Move every correction of `model` after a step. `counts`: by path of the layer, the choices of each expert in the whole
    step, (X,)."""
    for path, counts_X in counts.items():
        module = model.get_submodule(f"{path}.router")
        assert isinstance(module, RouterModule)
        rule = module.router.choice.correction_rule
        if rule is not None and module.correction is not None:
            module.correction.copy_(corrected(module.correction, counts_X, rule.rate))
