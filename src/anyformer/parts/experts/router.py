"""The router: scores of every expert for each token, the choice of experts, and their weights."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from anyformer.describe import NotNegative, Positive, Probability, Value
from anyformer.operations import Tally, Weight, matrix
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import DrawsNoise, uniform
from anyformer.parts.derived import WidthFactor, of_width
from anyformer.parts.experts.selection import RouterInputs, Selection, TopK
from anyformer.parts.norms.norm import Norm

SCORES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "softmax": lambda logits: logits.softmax(-1),
        "sigmoid": torch.sigmoid,
        "sqrt_softplus": lambda logits: F.softplus(logits).sqrt(),
    }
)
"""Name of a score -> function from logits to scores (Z, X)."""


class Renormalise(Value):
    """Weights that sum to 1 over the experts chosen: w / max(sum of w + eps, least). Configurations call it norm_topk_prob.

    Mixtral and DBRX (whose L1 norm is the sum) have eps = 0, DeepSeek-V3 1e-20, LFM2 1e-6; Ernie 4.5 eps = 0, least = 1e-12.
    """

    eps: NotNegative = 1e-20
    least: NotNegative = 0.0
    """Lower bound of the sum."""


class Router(Value):
    """One linear map per layer from a token to a score for every expert (Shazeer et al. 2017, arXiv 1701.06538).

        logits = softcap(multiplier * norm(x) W^T + b): (Z, X), in fp32; scores = softmax(logits), sigmoid, or sqrt(softplus)
        chosen: the k experts that `choice` prefers; weights: their scores, renormalised or not, times `scale`

    W: (X, D). Switch's p_i and GShard's g are our scores; DeepSeek's s_{i,t} and g_{i,t} our scores and weights.
    """

    score: Literal["softmax", "sigmoid", "sqrt_softplus", "equal"] = "softmax"
    """`equal`: no linear map; each of the experts chosen weighs 1 / k (Hash Layers)."""
    over: Literal["all", "chosen"] = "all"
    """Whether a softmax sums over all experts or over the chosen ones (gpt-oss, Granite)."""
    norm: Norm | None = None
    """Norm of the router's input alone (Gemma 4: an RMSNorm, whose gain is its learned scale)."""
    multiplier: WidthFactor = 1.0
    """Factor of the router's input (Gemma 4: `inverse_sqrt_width`)."""
    bias: bool = False
    softcap: Positive | None = None
    """Cap c of the logits: c * tanh(logit / c) (Laguna)."""
    choice: Selection = TopK()
    renormalise: Renormalise | None = None
    scale: Positive = 1.0
    """Factor of the weights (DeepSeek's routed_scaling_factor)."""
    expert_scale: bool = False
    """A learned factor of each expert's weights, (X,), starting at 1 (Gemma 4's per_expert_scale)."""
    jitter: Probability = 0.0
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
            superfluous = [name for name, is_set in self._of_the_map.items() if is_set]
            if superfluous:
                names = ", ".join(superfluous)
                raise ValueError(f"score = 'equal' has no linear map, and all experts weigh the same: leave {names} out")
        if self.choice.weighs and (self.score, self.over, self.renormalise) != ("softmax", "all", None):
            raise ValueError(
                f"choice {self.choice.kind!r} weighs by softmaxes of its own: leave score, over and renormalise out"
            )
        return self

    @property
    def _of_the_map(self) -> dict[str, bool]:
        """The options that need logits, by name: whether each is set."""
        return {
            "norm": self.norm is not None, "multiplier": self.multiplier != 1.0, "bias": self.bias,
            "softcap": self.softcap is not None, "renormalise": self.renormalise is not None,
            "expert_scale": self.expert_scale, "jitter": self.jitter > 0,
        }  # fmt: skip

    @property
    def uneven(self) -> str | None:
        """Why the weights of the experts chosen do not sum to 1, with the remedy; None if they do."""
        if self.scale != 1:
            return "weights with a factor: set router.scale = 1"
        whole = self.score == "equal" or self.over == "chosen" or self.renormalise is not None
        return None if whole else "weights that do not sum to 1: set router.renormalise = {eps = 0.0}"

    def build(self, experts: int, chosen: int, width: int, name: str) -> RouterModule:
        return RouterModule(self, experts, chosen, width, name)

    def cost(self, experts: int, chosen: int, width: int, rows: int) -> Tally:
        tally = Tally() if self.score == "equal" else self._cost_of_map(experts, width, rows)
        if self.choice.tabled is None:
            return tally
        table = Weight((self.choice.tabled, chosen), "replicate", -1.0, sensitive=True, linear=False)
        return tally + Tally({"router.table": table})

    def _cost_of_map(self, experts: int, width: int, rows: int) -> Tally:
        tally = matrix("router", width, experts, rows, role="replicate", bias=self.bias, sensitive=True)
        if self.norm is not None:
            tally += self.norm.cost(width, rows).within("router.norm")
        if self.expert_scale:
            tally += Tally({"router.expert_scale": Weight((experts,), "replicate", "ones")})
        if self.choice.correction_rule is not None:
            tally += Tally({"router.correction": Weight((experts,), "replicate", "zeros")})
        return tally


@dataclass(frozen=True)
class RouterScores:
    """A router's scores for Z = B * T tokens: the `inputs` of the choice, and by them the `preference` (Z, X), no gradient."""

    inputs: RouterInputs
    preference: Tensor

    @property
    def probabilities(self) -> Tensor | None:
        """The scores of all experts as shares of their sum, (Z, X); None if all weights are equal."""
        scores = self.inputs.scores
        return None if scores is None else scores / scores.sum(-1, keepdim=True)


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
        noise_ZAX, scores = None, None if logits is None else SCORES[self.router.score](logits)
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
