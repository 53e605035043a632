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
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Draws, uniform
from anyformer.parts.experts.selection import Known, Selection, TopK
from anyformer.parts.norms.norm import Norm
from anyformer.tally import Tally, Weight, matrix
from anyformer.tape import Held, Tape

SCORES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "softmax": lambda logits: logits.softmax(-1),
        "sigmoid": torch.sigmoid,
        "sqrt_softplus": lambda logits: F.softplus(logits).sqrt(),
    }
)
"""Name -> scores (Z, X) from logits."""


class Renormalise(Value):
    """w / max(sum of w + eps, least) over the experts chosen (Mixtral, DeepSeek-V3 with eps 1e-20, LFM2 with 1e-6).

    DBRX divides by the L1 norm, which is the sum: eps = 0. Ernie 4.5 has eps = 0 and least = 1e-12.
    """

    eps: Annotated[float, Field(ge=0)] = 1e-20
    least: Annotated[float, Field(ge=0)] = 0.0
    """What a smaller sum counts as."""


class Router(Value):
    """One linear map per layer from a token to a score for every expert (Shazeer et al. 2017, arXiv 1701.06538).

        logits = softcap(multiplier * norm(x) W^T + b): (Z, X), in fp32; scores = softmax(logits), sigmoid, or sqrt(softplus)
        chosen: the k experts that `choice` prefers; weights: their scores, renormalised or not, times `scale`

    W: (X, D). Switch's p_i and GShard's g are our scores; DeepSeek's s_{i,t} and g_{i,t} our scores and weights.
    """

    score: Literal["softmax", "sigmoid", "sqrt_softplus", "equal"] = "softmax"
    """`equal`: no linear map; each of the experts chosen weighs 1 / k (Hash Layers)."""
    over: Literal["all", "chosen"] = "all"
    """What a softmax sums over: all experts, or those chosen (gpt-oss, Granite)."""
    norm: Norm | None = None
    """Norm of what the router reads, and of nothing else (Gemma 4: an RMSNorm, whose gain is its learned scale)."""
    multiplier: float = 1.0
    """Factor of what the router reads (Gemma 4: D ** -0.5)."""
    bias: bool = False
    softcap: Annotated[float, Field(gt=0)] | None = None
    """Cap c of the logits: c * tanh(logit / c) (Laguna)."""
    choice: Selection = TopK()
    renormalise: Renormalise | None = None
    scale: Annotated[float, Field(gt=0)] = 1.0
    """Factor of the weights (DeepSeek's routed_scaling_factor)."""
    expert_scale: bool = False
    """A learned factor of each expert's weights, (X,), starting at 1 (Gemma 4's per_expert_scale)."""
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
            given = [name for name, there in self._of_the_map.items() if there]
            if given:
                raise ValueError(f"score = 'equal' has no linear map, and all weigh the same: leave {', '.join(given)} out")
        if self.choice.weighs and (self.score, self.over, self.renormalise) != ("softmax", "all", None):
            raise ValueError(
                f"choice {self.choice.kind!r} weighs by softmaxes of its own: leave score, over and renormalise out"
            )
        return self

    @property
    def _of_the_map(self) -> dict[str, bool]:
        """What is there that needs logits, by name."""
        return {
            "norm": self.norm is not None, "multiplier": self.multiplier != 1.0, "bias": self.bias,
            "softcap": self.softcap is not None, "renormalise": self.renormalise is not None,
            "expert_scale": self.expert_scale, "jitter": self.jitter > 0,
        }  # fmt: skip

    def build(self, experts: int, chosen: int, width: int, name: str) -> RouterModule:
        return RouterModule(self, experts, chosen, width, name)

    def cost(self, experts: int, width: int, rows: int) -> Tally:
        if self.score == "equal":
            return Tally()
        tally = matrix("router", width, experts, rows, role="replicate", bias=self.bias)
        if self.norm is not None:
            tally += self.norm.cost(width).within("router.norm")
        if self.expert_scale:
            tally += Tally({"router.expert_scale": Weight((experts,), "replicate", "ones")})
        if self.choice.correction_rule is not None:
            tally += Tally({"router.correction": Weight((experts,), "replicate", "zeros")})
        return tally

    def keeps(self, tape: Tape, x: Held, width: int, experts: int, chosen: Held, each: int, taken: Held | None) -> Held:
        """What logits, scores and weights keep, all in fp32; gives the weights. `chosen`: the k = `each` experts of a token."""
        Z = tape.rows
        if self.score == "equal":
            return tape.new(Z * each, "fp32", learns=False)
        if tape.training and self.jitter:
            x = tape.times("jitter", x, tape.new(x.elements, x.number, learns=False))
        x = self.norm.keeps(tape.within("norm"), x, width) if self.norm else x
        tape.keep("logits.input", tape.cast(x if self.multiplier == 1 else tape.like(x), "fp32"))
        logits = tape.gives("logits", tape.new(Z * experts, "fp32"))
        if self.softcap is not None:
            tape.keep("softcap", tape.like(logits))
        return self._weights_keep(tape, logits, chosen, Z * each, taken)

    def _weights_keep(self, tape: Tape, logits: Held, chosen: Held, count: int, taken: Held | None) -> Held:
        """As `RouterModule.weigh`: scores that only choose have no gradient."""
        Z, shares = tape.rows, tape.new(count, "fp32")
        if self.choice.weighs:
            for _ in range(count // Z):
                masks = (tape.new(logits.elements, "bool", learns=False) for _ in range(2))
                tape.keep("shares", chosen, tape.like(logits), *masks)
        elif self.over == "chosen":
            tape.keep("chosen", chosen, logits, *([] if taken is None else [tape.new(count, "bool", learns=False)]))
            tape.keep("shares", shares)
        else:
            scores = tape.like(logits)
            tape.keep("scores", scores, *([logits] if self.score == "sqrt_softplus" else []))
            tape.keep("chosen", chosen)
            shares = shares if taken is None else tape.times("taken", shares, taken)
            if self.renormalise is not None:
                tape.keep("renormalised", shares, tape.new(Z, "fp32"), tape.new(Z, "fp32"))
        weights = tape.like(shares)
        if not self.expert_scale:
            return weights
        tape.keep("expert_scale", chosen)
        return tape.times("expert_scale", weights, tape.new(count, "fp32"))


@dataclass(frozen=True)
class Routing:
    """What the router says of Z = B * T tokens: `preference` (Z, X) orders the experts, without gradient; and what it knew."""

    known: Known
    preference: Tensor

    @property
    def probabilities(self) -> Tensor | None:
        """The scores of all experts, as shares of their sum (Z, X); None where all weights are equal."""
        scores = self.known.scores
        return None if scores is None else scores / scores.sum(-1, keepdim=True)


class RouterModule(Draws):
    """(B, T, D) -> what each token wants. `correction`, (X,), is a parameter without gradient: see `rebalance`."""

    def __init__(self, router: Router, experts: int, chosen: int, width: int, name: str) -> None:
        super().__init__()
        self.router, self.experts, self.chosen = router, experts, chosen
        scored = router.score != "equal"
        self.norm = router.norm.build(width) if router.norm else nn.Identity()
        self.weight = nn.Parameter(torch.empty(experts, width)) if scored else None
        self.bias = nn.Parameter(torch.empty(experts)) if router.bias else None
        self.expert_scale = nn.Parameter(torch.empty(experts)) if router.expert_scale else None
        rule = router.choice.correction_rule
        self.correction = nn.Parameter(torch.empty(experts), requires_grad=False) if rule else None
        self.rounds = router.choice.rounds(chosen)
        self.draws = router.jitter > 0 or self.rounds > 0
        self._sites = {what: zlib.crc32(f"{name}.{what}".encode()) for what in ("jitter", "choice")}

    def extra_repr(self) -> str:
        return repr(self.router)

    def forward(self, x_BTD: Tensor, context: Context) -> Routing:
        logits, scores, noise_ZRX = None, None, None
        if self.weight is not None:
            logits = self._logits(self._read(x_BTD, context).flatten(0, 1))
            scores = SCORES[self.router.score](logits)
        if self.training and self.rounds:
            noise = self._uniform("choice", x_BTD.shape[:2], self.rounds * self.experts, context)
            noise_ZRX = noise.view(-1, self.rounds, self.experts)
        known = Known(self.experts, self.chosen, logits, scores, self.correction, noise_ZRX, context.tokens)
        with torch.no_grad():
            return Routing(known, self.router.choice.preference(known))

    def weigh(self, routing: Routing, chosen_ZJ: Tensor, taken_ZJ: Tensor | None) -> Tensor:
        """The weights (Z, k) of the experts chosen; where `taken` is false there is none, and the others share."""
        known = routing.known
        if known.scores is None:
            return torch.full(chosen_ZJ.shape, self.router.scale / self.chosen, device=chosen_ZJ.device)
        weights = self._shares(known, chosen_ZJ, taken_ZJ) * self.router.scale
        if self.expert_scale is None:
            return weights
        # A look-up whose gradient is added up in a fixed order.
        return weights * F.embedding(chosen_ZJ, self.expert_scale[:, None])[..., 0].to(weights.dtype)

    def _shares(self, known: Known, chosen_ZJ: Tensor, taken_ZJ: Tensor | None) -> Tensor:
        """(Z, k): the weights before any factor."""
        assert known.logits is not None
        assert known.scores is not None
        if self.router.over == "chosen":
            picked = known.logits.gather(-1, chosen_ZJ)
            if taken_ZJ is not None:
                picked = picked.masked_fill(~taken_ZJ, torch.finfo(picked.dtype).min)
            return picked.softmax(-1)
        choice, rule = self.router.choice, self.router.renormalise
        shares = choice.weights(known, chosen_ZJ) if choice.weighs else known.scores.gather(-1, chosen_ZJ)
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
        """What the linear map reads of the token."""
        rate = self.router.jitter
        if self.training and rate > 0:
            u_BTD = self._uniform("jitter", x_BTD.shape[:2], x_BTD.shape[2], context).view(x_BTD.shape)
            x_BTD = x_BTD * (1 - rate + 2 * rate * u_BTD).to(x_BTD.dtype)
        x_BTD = self.norm(x_BTD)
        return x_BTD if self.router.multiplier == 1.0 else x_BTD * self.router.multiplier

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
