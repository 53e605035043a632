"""Initial values of weights, by rules of the description: a value depends on seed, name and shape, and on nothing else."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from anyformer.describe import NotNegative, Positive, Registry, Value, with_kind
from anyformer.operations import Extent, Weight
from anyformer.parts.derived import DepthFactor, of_depth
from anyformer.parts.parametrisation import Parametrisation

if TYPE_CHECKING:
    import torch
    from torch import Tensor


BLOCK = 2**20
"""Numbers of a weight that are drawn at once, at most, but for a row of more."""


class InitialisationRule(Value):
    """A distribution of the initial values of a matrix."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def spread(self, shape: tuple[int, ...]) -> float:
        """The standard deviation of a matrix of this shape, before it is cut off anywhere."""
        raise NotImplementedError

    def fill(self, weight: Tensor, scale: float, generator: torch.Generator) -> None:
        """Fill `weight` in place, its standard deviation `scale` times that of the rule."""
        raise NotImplementedError


class Normal(InitialisationRule):
    """N(0, std^2) (GPT-2)."""

    kind: Literal["normal"] = "normal"
    std: NotNegative = 0.02

    def spread(self, shape: tuple[int, ...]) -> float:
        return self.std

    def fill(self, weight: Tensor, scale: float, generator: torch.Generator) -> None:
        weight.normal_(0, self.std * scale, generator=generator)


class TruncatedNormal(InitialisationRule):
    """N(0, std^2), redrawn beyond `cut` standard deviations."""

    kind: Literal["truncated_normal"] = "truncated_normal"
    std: NotNegative = 0.02
    cut: Positive = 3.0

    def spread(self, shape: tuple[int, ...]) -> float:
        return self.std

    def fill(self, weight: Tensor, scale: float, generator: torch.Generator) -> None:
        from torch import nn

        std = self.std * scale
        nn.init.trunc_normal_(weight, 0, std, -self.cut * std, self.cut * std, generator=generator)


class FanIn(InitialisationRule):
    """N(0, gain^2 / inputs): products keep the variance of their inputs (LeCun et al. 1998)."""

    kind: Literal["fan_in"] = "fan_in"
    gain: NotNegative = 1.0

    def spread(self, shape: tuple[int, ...]) -> float:
        return float(self.gain * shape[-1] ** -0.5)

    def fill(self, weight: Tensor, scale: float, generator: torch.Generator) -> None:
        weight.normal_(0, self.spread(tuple(weight.shape)) * scale, generator=generator)


class Xavier(InitialisationRule):
    """Uniform within gain * sqrt(6 / (inputs + outputs)) (Glorot & Bengio 2010)."""

    kind: Literal["xavier"] = "xavier"
    gain: NotNegative = 1.0

    def spread(self, shape: tuple[int, ...]) -> float:
        # Of stacked matrices the last two dimensions count; torch's own rule takes the others for a convolution's.
        return self.gain * math.sqrt(2.0 / sum(shape[-2:]))

    def fill(self, weight: Tensor, scale: float, generator: torch.Generator) -> None:
        bound = math.sqrt(3.0) * scale * self.spread(tuple(weight.shape))
        weight.uniform_(-bound, bound, generator=generator)


class Initialisation(Value):
    """A rule per role of weight; gains start at their neutral value, biases at zero.

    Learned decays start as in Mamba-2 (Dao & Gu 2024, arXiv 2405.21060): log-rates at ln U(1, 16), time steps where their
    softplus is log-uniform in [0.001, 0.1].
    """

    matrix: InitialisationRule = Normal()
    embedding: InitialisationRule = Normal()
    """Token and position tables."""
    head: InitialisationRule | None = None
    """An untied head; as `matrix` by default."""
    residual_scale: DepthFactor = 1.0
    """Extra factor for matrices that write to the residual stream (GPT-2: `inverse_sqrt_2_depth`)."""
    version: Literal[1, 2] = 1
    """Of the draws: 1, a weight is drawn at once; 2, in blocks of whole rows (or experts) of up to 2^20 numbers, each of which
    has a key of its own, so that a process of several draws the blocks of its part alone. The values of the two are others."""
    mup: Annotated[Parametrisation | None, BeforeValidator(with_kind("maximal_update"))] = None
    """How initial values, rates, logits and scores follow the width, and branches the depth; absent, they are the same at
    any."""

    @model_validator(mode="after")
    def _starts_at_unit_scale(self) -> Initialisation:
        if self.mup is None or self.mup.width_of_base is not None:
            return self
        one = (1, 1)
        for name, rule in (("matrix", self.matrix), ("embedding", self.embedding)):
            if rule.spread(one) != 1:
                raise ValueError(
                    f"{name} has a deviation of {rule.spread(one):g} at one input, and mup.kind = {self.mup.kind!r} starts "
                    f'at 1: set {name} = {{ kind = "normal", std = 1.0 }}'
                )
        if self.residual_scale != 1.0:
            raise ValueError(
                f"residual_scale = {self.residual_scale!r}: mup.kind = {self.mup.kind!r} scales branches: leave it out"
            )
        return self

    def of_depth(self, depth: int) -> Initialisation:
        """A copy whose `residual_scale` is the number for L = `depth`; with muP that follows the depth, that of its base."""
        base = None if self.mup is None else self.mup.depth_of_base
        return self.but(residual_scale=of_depth(self.residual_scale, depth if base is None else base))

    def fill(self, weight: Weight, name: str, seed: int, part: Extent | None = None) -> Tensor:
        """The starting value of a declared weight in fp32, or of a part of it: a pure function of (seed, name, full shape)."""
        import torch

        part = part or Extent.all_of(weight.shape)
        if weight.transposes is not None:
            beside = replace(weight, shape=weight.shape[::-1], transposes=None, base=weight.base and weight.base[::-1])
            return self.fill(beside, _beside(name, weight.transposes), seed).mT[part.slices]
        key = f"{seed}/{name}/{weight.shape}"
        if self.version == 1 or len(weight.shape) < 2:
            return self._drawn(weight, torch.empty(weight.shape), key)[part.slices]
        value = torch.empty(part.size)
        for number, rows in enumerate(_blocks(weight.shape)):
            block = Extent((rows.start, *(0,) * (len(weight.shape) - 1)), (len(rows), *weight.shape[1:]))
            common = block.common(part)
            if common.count:
                drawn = self._drawn(weight, torch.empty(block.size), f"{key}/{number}")
                value[common.within(part).slices] = drawn[common.within(block).slices]
        return value

    def _drawn(self, weight: Weight, value: Tensor, key: str) -> Tensor:
        """Values of a weight, or of a block of its rows, by the rule of its role."""
        import torch

        generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1)
        match weight.fill:
            case "ones":
                return value.fill_(1)
            case "zeros":
                return value.zero_()
            case float(number):
                return value.fill_(number)
            case "log_rate":
                return value.uniform_(1, 16, generator=generator).log_()
            case "time_step":
                step = value.uniform_(math.log(1e-3), math.log(1e-1), generator=generator).exp_()
                return step + torch.log(-torch.expm1(-step))  # the inverse of softplus
            case "embedding":
                rule, scale = self.embedding, 1.0
            case "head":
                rule, scale = self.head or self.matrix, 1.0
            case "residual":
                assert not isinstance(self.residual_scale, str), "resolved by `of_depth`"
                rule, scale = self.matrix, self.residual_scale
            case "matrix":
                rule, scale = self.matrix, 1.0
        scale *= _of_base(rule, weight)
        if tuple(value.shape) != weight.shape and (own := rule.spread(tuple(value.shape))):
            scale *= rule.spread(weight.shape) / own  # the deviation is that of the whole matrix
        rule.fill(value, scale, generator)
        return value


def _beside(name: str, other: str) -> str:
    """The name of another weight of the same part: both have as many dots within it."""
    return ".".join([*name.split(".")[: -other.count(".") - 1], other])


def _blocks(shape: tuple[int, ...]) -> Iterator[range]:
    """Rows of a weight, or experts, that are drawn together: one at least."""
    rows = max(1, BLOCK // max(1, math.prod(shape[1:])))
    yield from (range(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows))


def _of_base(rule: InitialisationRule, weight: Weight) -> float:
    """The factor of a rule's deviation that makes it what `MaximalUpdate` says; 1 for a weight without a base."""
    if weight.base is None or (own := rule.spread(weight.shape)) == 0:
        return 1.0
    wider = weight.wider
    kept = 1.0 if weight.fill == "head" else wider.inputs ** (-0.5 if wider.outputs != 1 else -1.0)
    return kept * rule.spread(weight.base) / own
