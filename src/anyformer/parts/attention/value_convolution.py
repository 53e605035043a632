"""A depthwise convolution of the values beside attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from anyformer.operations import Dimension, Shape, Tally, Weight, total
from anyformer.parts.attention.slots import AttentionCall, Combine
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor


class ValueConvolution(Combine):
    """y'_t = y_t + sum over j < n of w_j v_{t + j - (n - 1) / 2}: a filter over the values around a token beside attention.

    y (B, H, T, U): the mixed values; v (B, K, T, U): the values of y's group; w (K, n): one filter per head of values.
    Positions outside the row or the document, and padding, are zeros. Nyströmformer (Xiong et al. 2021, arXiv 2102.03902),
    n = 65; beside linear attention FLatten (Han et al. 2023, arXiv 2308.00442). It looks ahead, so the mask must too.
    """

    name: ClassVar[str] = "value_convolution"
    order: ClassVar[int] = -1
    rules_out: ClassVar[frozenset[Way]] = frozenset(
        {"pairs of heads", "source", "chosen keys", "divided positions", "outside", "latent"}
    )
    needs_own_keys: ClassVar[bool] = True
    looks_ahead: ClassVar[bool] = True
    kernel: Annotated[int, Field(ge=3)] = 65
    """n, an odd number of positions around a token."""

    @model_validator(mode="after")
    def _centred(self) -> ValueConvolution:
        if self.kernel % 2 == 0:
            raise ValueError(f"a kernel around a token has an odd number of positions, got kernel = {self.kernel}")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        return (f"values of the {self.kernel} positions around added",)

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.value_convolution_module import ValueConvolutionModule

        return {"value_convolution": ValueConvolutionModule(self, sizes.groups)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        """Weights only: a sum of n shifted products is no matrix product."""
        axes: Dimension = (("kv_heads", sizes.groups),)
        weight = Weight((sizes.groups, self.kernel), "column", "matrix", linear=False, axes=(axes, ()))
        return total({"value_convolution": Tally({"weight": weight})})

    def mixed(self, y_BHTU: Tensor, call: AttentionCall) -> Tensor:
        return call.built("value_convolution")(y_BHTU, call.values, call.context)  # type: ignore[no-any-return]
