"""Feature maps phi of linear attention: phi(q) . phi(k) takes the place of exp(q . k)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Count, Positive, Registry, Value
from anyformer.operations.elementwise import ACTIVATED, SCORE

if TYPE_CHECKING:
    from torch import Tensor


class FeatureMap(Value):
    """phi: (..., E) -> (..., M), element-wise unless a map's formula is not."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    signed: ClassVar[bool] = False
    """Whether a sum of phi(q) . phi(k) can vanish or be negative, so that it cannot be a denominator."""
    each: ClassVar[int] = ACTIVATED
    """Operations on one of the M features, counted as in `operations/elementwise.py`."""

    def features(self, head_width: int) -> int:
        """M."""
        return head_width

    def directions(self, head_width: int) -> Tensor | None:
        """The random directions of the map, in float64: a pure function of the description, so they need not be stored."""
        return None

    def flops(self, vectors: int, head_width: int) -> int:
        """Matrix-product FLOPs for `vectors` vectors."""
        return 0

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        raise NotImplementedError


class Identity(FeatureMap):
    """phi(x) = x: attention without softmax."""

    kind: Literal["identity"] = "identity"
    signed: ClassVar[bool] = True
    each: ClassVar[int] = 0

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        return x


class UnitLength(FeatureMap):
    """phi(x) = x / sqrt(|x|^2 + eps): the cosine of the angle between query and key (Bolya et al. 2022, arXiv 2209.07484)."""

    kind: Literal["unit_length"] = "unit_length"
    signed: ClassVar[bool] = True
    eps: Positive = 1e-6

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        return x * (x.square().sum(-1, keepdim=True) + self.eps).rsqrt()


class EluPlusOne(FeatureMap):
    """phi(x) = elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236)."""

    kind: Literal["elu_plus_one"] = "elu_plus_one"

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        from anyformer.parts.recurrence.feature_map_module import elu

        return elu(x) + 1


class Rectified(FeatureMap):
    """phi(x) = relu(x)^power (Kasai et al. 2021, arXiv 2103.13076, with power 1)."""

    kind: Literal["rectified"] = "rectified"
    power: Literal[1, 2] = 1

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        return x.relu() if self.power == 1 else x.relu().square()


class Exponential(FeatureMap):
    """phi(x) = exp(scale * x), scale 1 / E by default."""

    kind: Literal["exponential"] = "exponential"
    scale: Positive | None = None

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        return (x * (1 / x.shape[-1] if self.scale is None else self.scale)).exp()


class ExponentialNormalised(FeatureMap):
    """phi(x) = softmax(scale * x) over the E features (Shen et al. 2018, arXiv 1812.01243, for queries)."""

    kind: Literal["exponential_normalised"] = "exponential_normalised"
    each: ClassVar[int] = SCORE
    scale: Positive = 1.0

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        return (x * self.scale).softmax(-1)


class RandomFeatures(FeatureMap):
    """The base of maps along `count` random directions w, N(0, I).

    Draws come from the seed by torch's CPU generator in float64: first `count` directions; `orthogonal` ones are the
    Gram-Schmidt of each E of them in order, with the lengths of `count` further draws (Yu et al. 2016, arXiv 1610.09072).
    """

    count: Count
    seed: Annotated[int, Field(ge=0)] = 0
    orthogonal: bool = False
    """Directions orthogonal within groups of E: the same expectation, less variance."""
    scale: Positive | None = None
    """Factor of the scores that the features stand for, exp(scale * q . k); E^-0.5 by default."""

    def directions(self, head_width: int) -> Tensor:
        from anyformer.parts.recurrence.feature_map_module import drawn

        return drawn(self, head_width)

    def flops(self, vectors: int, head_width: int) -> int:
        return 2 * vectors * head_width * self.count

    def projected(self, x: Tensor, directions: Tensor | None) -> tuple[Tensor, Tensor]:
        """w . x (..., count) and |x|^2 / 2 (..., 1), of x times the root of the scale."""
        from anyformer.parts.constant import constant

        assert directions is not None
        x = x * math.sqrt(x.shape[-1] ** -0.5 if self.scale is None else self.scale)
        own = constant((self, x.shape[-1]), lambda: directions, x.dtype, x.device)
        return x @ own.mT, x.square().sum(-1, keepdim=True) / 2


class RandomFourier(RandomFeatures):
    """phi(x) = [cos(w . x), sin(w . x)] / sqrt(count) * exp(|x|^2 / 2): softmax attention in expectation, M = 2 * count.

    Rahimi & Recht 2007; as attention Peng et al. 2021 (arXiv 2103.02143). `gaussian` leaves the last factor out: the kernel
    exp(-|q - k|^2 / 2). phi(q) . phi(k) is a mean of cos(w . (q - k)), times a positive number: for q and k that are not close
    it is as often negative as positive. Of queries and keys from N(0, I), E = 64, half of the causal denominators are negative
    at 8 and at 512 directions alike, so it is no denominator; `PositiveRandom` is the map that is.
    """

    kind: Literal["random_fourier"] = "random_fourier"
    signed: ClassVar[bool] = True
    kernel: Literal["softmax", "gaussian"] = "softmax"

    def features(self, head_width: int) -> int:
        return 2 * self.count

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        from anyformer.parts.recurrence.feature_map_module import waves

        along, half_square = self.projected(x, directions)
        turned = waves(along) / math.sqrt(self.count)
        return turned if self.kernel == "gaussian" else turned * half_square.exp()


class PositiveRandom(RandomFeatures):
    """phi(x) = exp(w . x - |x|^2 / 2) / sqrt(count): softmax attention in expectation, M = count (Performer, FAVOR+).

    Choromanski et al. 2020, arXiv 2009.14794. Positive, and so is the denominator; their m is our count.
    """

    kind: Literal["positive_random"] = "positive_random"

    def features(self, head_width: int) -> int:
        return self.count

    def apply(self, x: Tensor, directions: Tensor | None) -> Tensor:
        along, half_square = self.projected(x, directions)
        return (along - half_square).exp() / math.sqrt(self.count)
