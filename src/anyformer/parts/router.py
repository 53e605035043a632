"""The router: how much each token wants each expert, which experts it gets, and how they are weighed."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.parts.context import Context
from anyformer.parts.noise import Draws, uniform
from anyformer.parts.selection import Selection, TopK
from anyformer.tally import Tally, Weight, matrix

SCORES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "softmax": lambda logits: logits.softmax(-1),
        "sigmoid": torch.sigmoid,
        "sqrt_softplus": lambda logits: F.softplus(logits).sqrt(),
    }
)
"""Name -> scores (Z, X) from logits."""


class Renormalise(Value):
    """w / (sum of w + eps) over the experts chosen (Mixtral, DeepSeek-V3 with eps 1e-20, LFM2 with 1e-6)."""

    eps: Annotated[float, Field(ge=0)] = 1e-20


class Router(Value):
    """One linear map per layer from a token to a score for every expert (Shazeer et al. 2017, arXiv 1701.06538).

        logits = x W^T + b: (Z, X), in fp32; scores = softmax(logits), sigmoid, or sqrt(softplus)
        chosen: the k experts that `choice` prefers; weights: their scores, renormalised or not, times `scale`

    W: (X, D). Switch's p_i and GShard's g are our scores; DeepSeek's s_{i,t} and g_{i,t} our scores and weights.
    """

    score: Literal["softmax", "sigmoid", "sqrt_softplus", "equal"] = "softmax"
    """`equal`: no linear map; each of the experts chosen weighs 1 / k (Hash Layers)."""
    over: Literal["all", "chosen"] = "all"
    """What a softmax sums over: all experts, or those chosen (gpt-oss, Granite)."""
    bias: bool = False
    choice: Selection = TopK()
    renormalise: Renormalise | None = None
    scale: Annotated[float, Field(gt=0)] = 1.0
    """Factor of the weights (DeepSeek's routed_scaling_factor)."""
    jitter: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """In training the router reads x * u, u uniform in 1 +- jitter (Switch Transformer, arXiv 2101.03961)."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Router:
        if self.over == "chosen" and self.score != "softmax":
            raise ValueError(f"over = 'chosen' says what a softmax sums over, and score is {self.score!r}")
        if self.over == "chosen" and self.renormalise is not None:
            raise ValueError("renormalise: a softmax over the experts chosen sums to 1 already; leave it out")
        if self.score == "equal":
            if self.choice.reads_scores:
                raise ValueError(f"score = 'equal' gives no scores, and choice {self.choice.kind!r} chooses by them")
            if self.bias or self.jitter or self.renormalise is not None:
                raise ValueError("score = 'equal' has no linear map: leave bias, jitter and renormalise out")
        return self

    def build(self, experts: int, chosen: int, width: int, name: str) -> RouterModule:
        return RouterModule(self, experts, chosen, width, name)

    def cost(self, experts: int, width: int, rows: int) -> Tally:
        if self.score == "equal":
            return Tally()
        weight = matrix("router", width, experts, rows, role="replicate", bias=self.bias)
        correction = {"router.correction": Weight((experts,), "replicate", "zeros")} if self.choice.correction_rule else {}
        return weight + Tally(correction)


@dataclass(frozen=True)
class Routing:
    """What the router says of Z = B * T tokens, (Z, X) each: `preference` orders the experts, without gradient.

    `logits` and `scores` are None where all weights are equal.
    """

    logits: Tensor | None
    scores: Tensor | None
    preference: Tensor

    @property
    def probabilities(self) -> Tensor | None:
        """The scores of all experts, as shares of their sum (Z, X)."""
        return None if self.scores is None else self.scores / self.scores.sum(-1, keepdim=True)


class RouterModule(Draws):
    """(B, T, D) -> what each token wants. `correction`, (X,), is a parameter without gradient: see `rebalance`."""

    def __init__(self, router: Router, experts: int, chosen: int, width: int, name: str) -> None:
        super().__init__()
        self.router, self.experts, self.chosen = router, experts, chosen
        scored = router.score != "equal"
        self.weight = nn.Parameter(torch.empty(experts, width)) if scored else None
        self.bias = nn.Parameter(torch.empty(experts)) if router.bias else None
        rule = router.choice.correction_rule
        self.correction = nn.Parameter(torch.empty(experts), requires_grad=False) if rule else None
        self.draws = router.jitter > 0 or router.choice.draws
        self._sites = {what: zlib.crc32(f"{name}.{what}".encode()) for what in ("jitter", "choice")}

    def extra_repr(self) -> str:
        return repr(self.router)

    def forward(self, x_BTD: Tensor, context: Context) -> Routing:
        logits, scores = None, None
        if self.weight is not None:
            logits = self._logits(self._jittered(x_BTD, context).flatten(0, 1))
            scores = SCORES[self.router.score](logits)
        with torch.no_grad():
            noise_ZX: Tensor | None = None
            if self.training and self.router.choice.draws:
                noise_ZX = self._uniform("choice", x_BTD.shape[:2], self.experts, context)
            preference = self.router.choice.preference(scores, self.experts, self.correction, noise_ZX, context.tokens)
        return Routing(logits, scores, preference)

    def weigh(self, routing: Routing, chosen_ZJ: Tensor, taken_ZJ: Tensor | None) -> Tensor:
        """The weights (Z, k) of the experts chosen; where `taken` is false there is none, and the others share."""
        if routing.scores is None or routing.logits is None:
            return torch.full(chosen_ZJ.shape, self.router.scale / self.chosen, device=chosen_ZJ.device)
        if self.router.over == "chosen":
            picked = routing.logits.gather(-1, chosen_ZJ)
            if taken_ZJ is not None:
                picked = picked.masked_fill(~taken_ZJ, torch.finfo(picked.dtype).min)
            weights = picked.softmax(-1)
        else:
            weights = routing.scores.gather(-1, chosen_ZJ)
            if taken_ZJ is not None:
                weights = weights * taken_ZJ
            if self.router.renormalise is not None:
                weights = weights / (weights.sum(-1, keepdim=True) + self.router.renormalise.eps)
        return weights * self.router.scale

    def _logits(self, x_ZD: Tensor) -> Tensor:
        """(Z, X), in fp32 at least whatever the plan's precision: a rounded logit chooses another expert."""
        assert self.weight is not None
        exact = torch.promote_types(x_ZD.dtype, torch.float32)
        bias = None if self.bias is None else self.bias.to(exact)
        with _without_autocast(x_ZD.device.type):
            return F.linear(x_ZD.to(exact), self.weight.to(exact), bias)

    def _jittered(self, x_BTD: Tensor, context: Context) -> Tensor:
        rate = self.router.jitter
        if not self.training or rate == 0:
            return x_BTD
        u_BTD = self._uniform("jitter", x_BTD.shape[:2], x_BTD.shape[2], context).view(x_BTD.shape)
        return x_BTD * (1 - rate + 2 * rate * u_BTD).to(x_BTD.dtype)

    def _uniform(self, what: str, rows: torch.Size, features: int, context: Context) -> Tensor:
        """(Z, features) numbers in (0, 1)."""
        assert context.noise is not None, "the model draws noise whenever it trains with a router that needs it"
        return uniform(context.noise, self._sites[what], torch.Size((*rows, features))).flatten(0, 1)


def _without_autocast(device: str) -> contextlib.AbstractContextManager[object]:
    available = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if available else contextlib.nullcontext()


def corrected(correction_X: Tensor, counts_X: Tensor, rate: float) -> Tensor:
    """The next correction: b + rate * sign(mean(c) - c), c the tokens each expert was chosen by in a step, (X,)

    (Wang et al. 2024, arXiv 2408.15664, algorithm 1; DeepSeek-V3, arXiv 2412.19437, section 2.1.2, whose gamma is the rate).
    """
    counts = counts_X.to(correction_X.dtype)
    return correction_X + rate * torch.sign(counts.mean() - counts)


@torch.no_grad()
def rebalance(model: nn.Module, counts: Mapping[str, Tensor]) -> None:
    """Move every correction of `model` after a step. `counts`: by path of the layer, how many choices of the whole step fell
    on each expert, (X,)."""
    for path, counts_X in counts.items():
        module = model.get_submodule(f"{path}.router")
        assert isinstance(module, RouterModule)
        rule = module.router.choice.correction_rule
        if rule is not None and module.correction is not None:
            module.correction.copy_(corrected(module.correction, counts_X, rule.rate))
