"""Parametrisations: initial scales, rates and factors that follow width and depth, so that what is good at one is at others."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count, Positive, Registry, Value
from anyformer.operations import Weight


class Parametrisation(Value):
    """Rules of how initial values, rates and factors follow the sizes of an architecture."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def width_of_base(self) -> int | None:
        """The width at which nothing changes; None of one that is relative to a single input and a single output."""
        return None

    @property
    def depth_of_base(self) -> int | None:
        """The layers of a stack at which nothing changes; None where initial values are the same at any."""
        return None

    def branch(self, depth: int) -> float:
        """The factor of every branch of a stack of L = `depth` layers."""
        return 1.0

    def share(self, depth: int) -> float:
        """The factor of the rates of its branches' weights, by steps that are as large whatever the gradient."""
        return 1.0

    def share_of(self, weight: Weight) -> float:
        """The factor of the rate of a weight by itself, beside what follows from its inputs and outputs."""
        return 1.0

    def ratio(self, *, mixes: bool) -> float:
        """The factor of a branch beside that of the depth; `mixes`: whether it mixes positions."""
        return 1.0

    def score_scale(self, head_width: int) -> float:
        """The factor of the scores of heads that have none, where nothing is relative to a base."""
        return 1 / head_width

    def logit_scale(self, features: int) -> float:
        """The factor of the logits, where nothing is relative to a base."""
        return 1 / features

    def averaged(self, head_width: int) -> float:
        """The factor that undoes what attention's average takes of the deviation of values."""
        return 1.0

    @property
    def follows_depth(self) -> bool:
        """Whether branches have factors that follow the depth."""
        return False


class MaximalUpdate(Parametrisation):
    """The maximal update parametrisation, relative to a base width (muP, Yang et al. 2022, arXiv 2203.03466, table 8).

    At `base_width` nothing changes. With m the times that a weight has more inputs than at the base, and of Adam:

        inputs and outputs grow     std / sqrt(m), rate / m      matrices of layers
        inputs grow                 std / m, rate / m            routers and other projections to a fixed number of features
        outputs grow, or a vector   as at the base               tables, projections from a fixed number, gains, biases
        a head                      as at the base, logits / m   (also if it is the table of the embedding)
        scores of attention         times E_base / E             1 / d in the place of 1 / sqrt(d)

    with std the initial deviation at the base's shape. The base is the same architecture with D = `base_width`, its networks in
    proportion and its number of heads as it is: a size that is written out, as a head width or a rank, is the same at all
    widths. Weight decay takes the same share at all widths. Adam's eps is not scaled.

    With `base_depth`, L0, a stack of L = l L0 layers has besides, a = `depth_exponent`:

        every branch of a layer     output times l^-a            x + l^-a f(norm(x))
        its weights, of Adam        rate times l^(a - 1)         all of them, gains and biases too; of SGD l^(2a - 1)

    so that L branches together move the stream as much at every depth. a = 1/2 is depth-muP (Tensor Programs VI, Yang et al.
    2023, arXiv 2310.02244: branches and Adam's rate / sqrt(L)), which keeps branches as different as they can be; a = 1 is
    CompleteP (Dey et al. 2025, arXiv 2505.01618: branches / L, rates as they are), who find that of the two a = 1 alone lets
    rates hold between depths of transformers; Yang et al. too find limits of a = 1/2 where a branch has several layers. Rates
    of other optimisers are ours, by the same argument. Neither scales embeddings, head and final norm with the depth.
    """

    kind: Literal["maximal_update"] = "maximal_update"
    base_width: Count
    """D at which initial values, rates and factors are those that are written."""
    base_depth: Count | None = None
    """L0, layers of a stack at which branches and rates are those that are written; None: at any number."""
    depth_exponent: Annotated[float, Field(ge=0.5, le=1)] = 1.0
    """a: 1 of CompleteP, 1/2 of depth-muP."""

    @model_validator(mode="after")
    def _exponent_of_a_depth(self) -> MaximalUpdate:
        if self.base_depth is None and self.depth_exponent != 1.0:
            raise ValueError(f"depth_exponent = {self.depth_exponent:g} scales relative to a number of layers: set base_depth")
        return self

    @property
    def width_of_base(self) -> int | None:
        return self.base_width

    @property
    def depth_of_base(self) -> int | None:
        return self.base_depth

    @property
    def follows_depth(self) -> bool:
        return self.base_depth is not None

    def branch(self, depth: int) -> float:
        return 1.0 if self.base_depth is None else float((depth / self.base_depth) ** -self.depth_exponent)

    def share(self, depth: int) -> float:
        return 1.0 if self.base_depth is None else float((depth / self.base_depth) ** (self.depth_exponent - 1))


class UnitScaledUpdate(Parametrisation):
    """The unit-scaled maximal update parametrisation (u-muP, Blake et al. 2024, arXiv 2407.17465): muP without a base.

    The paper stores every weight as N(0, 1) and multiplies in the forward pass. With Adam a factor, a deviation and a rate of
    (a / t, b t, c t) are the same function as (a, b, c) but for eps: the matrices of layers here are t = 1 / sqrt(inputs) times
    the paper's.

        weight           paper: a, b, rate                        here: a, b, rate
        table (V, D)     1, 1, 1 / sqrt(D)                        the same
        matrix           1 / sqrt(inputs), 1, 1 / sqrt(inputs)    1, 1 / sqrt(inputs), 1 / inputs
        head             1 / inputs, 1, 1                         the same; a times `logits`
        gain, bias       rate 1                                   the same
        in a branch      rate / sqrt(L)                           the same, L the layers of the stack

    Scores of attention are times `scores` / E. What a nonlinearity does to the variance is undone by a factor of the branch,
    which a linear map between lets pass: of a network 1 / RMS of its activation over N(0, 1) (SwiGLU 1.68), and with `length` T
    of causal attention (T / ln T)^(s / 2), s = 4 E / (4 E + `scores`^2). The paper divides the stream by its growth at every
    branch (weights tau); norms before branches and the head undo that, so that the sum here is plain:

        x + r / sqrt(L) f(norm(x)), r = `residual` sqrt(2 / (1 + `attention`^2)), times `attention` where f mixes positions

    Left out, all for numbers of few bits: unit variance of stored matrices and of the stream, scales of their own for the
    gradients of inputs and weights, and those of the loss; experts and recurrences have no factor for their nonlinearity. The
    rates are the paper's for Adam; those of other optimisers are muP's, relative to a width of 1.
    """

    kind: Literal["unit_scaled"] = "unit_scaled"
    residual: Positive = 1.0
    """What all branches add, relative to the embedding; the paper's alpha_res."""
    attention: Positive = 1.0
    """What branches that mix positions add, relative to others; the paper's alpha_res-attn-ratio."""
    scores: Positive = 1.0
    """Factor of the scores; the paper's alpha_attn-softmax."""
    logits: Positive = 1.0
    """Factor of the logits; the paper's alpha_loss-softmax."""
    length: Annotated[int, Field(ge=2)] | None = None
    """T, positions of a row in training, over which attention averages; None: its output is left as it is."""

    @property
    def follows_depth(self) -> bool:
        return True

    def branch(self, depth: int) -> float:
        return float(depth**-0.5)

    def share(self, depth: int) -> float:
        return float(depth**-0.5)

    def share_of(self, weight: Weight) -> float:
        return float(weight.shape[-1] ** -0.5) if weight.fill == "embedding" else 1.0

    def score_scale(self, head_width: int) -> float:
        return self.scores / head_width

    def logit_scale(self, features: int) -> float:
        return self.logits / features

    def averaged(self, head_width: int) -> float:
        if self.length is None:
            return 1.0
        share = 4 * head_width / (4 * head_width + self.scores**2)
        return float((self.length / math.log(self.length)) ** (share / 2))

    def ratio(self, *, mixes: bool) -> float:
        other: float = self.residual * (2 / (1 + self.attention**2)) ** 0.5
        return other * self.attention if mixes else other
