"""The router: scores of every expert per token, the choice of experts, and their weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from anyformer.describe import NotNegative, Positive, Probability, Value
from anyformer.operations import Tally, Watchables, Weight, matrix, value
from anyformer.parts.derived import WidthFactor
from anyformer.parts.experts.selection import RouterInputs, Selection, TopK
from anyformer.parts.norms.norm import Norm

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.experts.router_module import RouterModule


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
        from anyformer.parts.experts.router_module import RouterModule

        return RouterModule(self, experts, chosen, width, name)

    @property
    def by_scores(self) -> bool:
        """Whether experts are chosen or weighed by scores; else by logits or by tokens alone."""
        weighed = self.over != "chosen" and not self.choice.weighs
        return self.score != "equal" and (weighed or self.choice.orders_by_scores)

    def watchable(self, experts: int, chosen: int) -> Watchables:
        """The values that are seen of it, choosing `chosen` of X experts."""
        logits = value("BTX", "logits of the experts", X=experts)
        scores = replace(logits, about=f"{self.score.replace('_', ' ')} of the logits")
        return {
            **({"logits": logits} if self.score != "equal" else {}),
            **({"scores": scores} if self.by_scores else {}),
            "chosen": value("BTJ", "the numbers of the experts chosen, best first", J=chosen),
            "weights": value("BTJ", "the weights of the experts chosen", J=chosen),
        }

    def cost(self, experts: int, chosen: int, width: int, rows: int) -> Tally:
        tally = Tally() if self.score == "equal" else self._cost_of_map(experts, width, rows)
        if self.choice.tabled is None:
            return tally
        table = Weight((self.choice.tabled, chosen), "replicate", -1.0, sensitive=True, linear=False, learnt=False)
        return tally + Tally({"router.table": table})

    def _cost_of_map(self, experts: int, width: int, rows: int) -> Tally:
        tally = matrix("router", width, experts, rows, role="replicate", bias=self.bias, sensitive=True)
        if self.norm is not None:
            tally += self.norm.cost(width, rows).within("router.norm")
        if self.expert_scale:
            tally += Tally({"router.expert_scale": Weight((experts,), "replicate", "ones")})
        if self.choice.correction_rule is not None:
            tally += Tally({"router.correction": Weight((experts,), "replicate", "zeros", learnt=False)})
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
