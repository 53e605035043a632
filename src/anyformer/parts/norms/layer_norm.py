"""Norms over the features of one position: RMSNorm and LayerNorm, of all features or of each group of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count, Positive
from anyformer.operations import Elementwise, Tally, Watchables, sized, value
from anyformer.operations.elementwise import normalised
from anyformer.parts.norms.norm import GainKind, Norm, gain_and_bias

if TYPE_CHECKING:
    from anyformer.parts.norms.layer_norm_module import NormModule


class FeatureNorm(Norm):
    """The base of norms over the features of one position: statistics in fp32, then a gain and a bias per feature."""

    centres: ClassVar[bool] = True
    pieces: ClassVar[int | None] = None
    """Equal pieces of the features that are each divided by the root of their mean square; None of another formula."""
    eps: Positive = 1e-5
    gain: GainKind = "weight"
    """`weight`: w, starting at 1; `one_plus_weight`: 1 + w, w starting at 0 (Gemma); `none`: no gain."""
    bias: bool = True
    cast: Literal["before_gain", "after_gain"] = "after_gain"
    """When the result returns to the input's type: before the gain (Llama) or after it (Gemma)."""

    def build(self, width: int) -> NormModule:
        from anyformer.parts.norms.layer_norm_module import NormModule, normalise

        return NormModule(self, width, partial(normalise, eps=self.eps, centre=self.centres), self.pieces)

    def watchable(self, width: int, lead: str = "BT", features: str = "D") -> Watchables:
        found = {"normalized": sized(lead + features, "before gain and bias", {features: width})}
        if self.pieces is None:
            return found
        about = f"the {'standard deviation' if self.centres else 'root of the mean square'}, by which it divides"
        return {"scale": value(f"{lead}n", about, written_out=True, n=self.pieces), **found}

    def cost(self, width: int, vectors: int) -> Tally:
        self.check(width)
        return gain_and_bias(self.gain, self.bias, width, self.work(width, vectors))

    def work(self, width: int, vectors: int, groups: int = 1) -> Elementwise:
        """Its work on `vectors` vectors, each of `groups` pieces that are normalised by themselves."""
        return normalised(width, vectors, (3 + 2 * self.centres + (self.gain != "none") + self.bias) * width + 2 * groups)


class RMSNorm(FeatureNorm):
    """Divide by the root mean square: y = x / sqrt(mean(x^2) + eps) * gain, over D (Zhang & Sennrich 2019, arXiv 1910.07467).

    The paper's g is our gain.
    """

    centres: ClassVar[bool] = False
    pieces: ClassVar[int | None] = 1
    kind: Literal["rms_norm"] = "rms_norm"
    bias: bool = False
    cast: Literal["before_gain", "after_gain"] = "before_gain"


class LayerNorm(FeatureNorm):
    """Centre and scale: y = (x - mean(x)) / sqrt(var(x) + eps) * gain + bias, over D (Ba et al. 2016, arXiv 1607.06450).

    The paper's g and b are our gain and bias.
    """

    pieces: ClassVar[int | None] = 1
    kind: Literal["layer_norm"] = "layer_norm"


class _Groups(Norm):
    """The field `groups` alone: as a second base, it comes before the fields of `FeatureNorm` in saved files."""

    groups: Count


class _GroupedNorm(FeatureNorm, _Groups):
    """The base of norms of equal groups of features."""

    @property
    def pieces(self) -> int:  # type: ignore[override]
        return self.groups

    def build(self, width: int) -> NormModule:
        from anyformer.parts.norms.layer_norm_module import NormModule, normalise_groups

        self.check(width)
        normalised = partial(normalise_groups, groups=self.groups, eps=self.eps, centre=self.centres)
        return NormModule(self, width, normalised, self.pieces)

    def check(self, width: int) -> None:
        if width % self.groups:
            raise ValueError(f"groups must divide the width it normalises, got groups = {self.groups} and width = {width}")

    def work(self, width: int, vectors: int, groups: int = 1) -> Elementwise:
        return super().work(width, vectors, self.groups * groups)


class GroupedRMSNorm(_GroupedNorm):
    """RMSNorm of each of `groups` equal groups of features of one position, then one gain over all of them.

    Of the heads of Mamba-2 (Dao & Gu 2024, arXiv 2405.21060, section 8.2), so that processes that share the heads need not sum.
    """

    centres: ClassVar[bool] = False
    kind: Literal["grouped_rms_norm"] = "grouped_rms_norm"
    bias: bool = False
    cast: Literal["before_gain", "after_gain"] = "before_gain"


class GroupedLayerNorm(_GroupedNorm):
    """LayerNorm of each of `groups` equal groups of features of one position, then one gain and bias over all of them.

    Not GroupNorm (Wu & He 2018, arXiv 1803.08494), whose statistics run over a group's channels and all pixels: over text a
    token would see later ones.
    """

    kind: Literal["grouped_layer_norm"] = "grouped_layer_norm"
