"""Small adjustments of projections: what a layer adds to shared weights, a bound, and norm and factor of the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anyformer.describe import Positive
from anyformer.operations import Shape, Tally, total
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.layer_lora import LayerLoRA
from anyformer.parts.sketch import Cell, number
from anyformer.parts.slot import HeadSizes, Side, Way

if TYPE_CHECKING:
    from torch import Tensor


class ProjectionLoRA(Adjustment, LayerLoRA):
    """Low-rank matrices beside the projections of queries, keys and values, of each layer that shares these."""

    name: ClassVar[str] = "lora"
    short: ClassVar[str] = "rank"
    order: ClassVar[int] = -3
    rules_out: ClassVar[frozenset[Way]] = frozenset({"two inputs", "latent"})

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.beside,)

    @classmethod
    def given(cls, item: Any) -> Any:
        return item.plain() if type(item) is LayerLoRA else super().given(item)

    @property
    def sharers(self) -> int:
        return self.layers

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {f"{side}_lora": self.module(sizes.read(side), {"up": sizes.features(side)}) for side in sizes.projected}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        rows = {side: shape.rows if side == "query" else key_rows for side in sizes.projected}
        return total({f"{n}_lora": self.work(sizes.read(n), {"up": sizes.features(n)}, rows[n]) for n in sizes.projected})

    def projected(self, y: Tensor, x: Tensor, side: Side, call: AttentionCall) -> Tensor:
        added: Tensor = call.built(f"{side}_lora")(x, call.context.turn)[0]
        return y + added


class Clip(Adjustment):
    """The entries of queries, keys and values, right after their projections, kept within [-c, c] (OLMo 1, DBRX)."""

    name: ClassVar[str] = "clip"
    order: ClassVar[int] = -2
    short: ClassVar[str] = "bound"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"latent"})
    bound: Positive
    """c."""

    @property
    def words(self) -> tuple[str, ...]:
        return (f"clip {number(self.bound)}",)

    @property
    def technique(self) -> str:
        return "QKV clip"

    def projected(self, y: Tensor, x: Tensor, side: Side, call: AttentionCall) -> Tensor:
        return y.clamp(-self.bound, self.bound)


class ValueNorm(Adjustment):
    """A norm over the U features of each value head (Gemma 4)."""

    name: ClassVar[str] = "value_norm"
    short: ClassVar[str] = "norm"
    through: ClassVar[tuple[str, ...]] = ("norm",)
    rules_out: ClassVar[frozenset[Way]] = frozenset({"latent"})
    needs_own_keys: ClassVar[bool] = True
    norm: Norm

    @property
    def cell(self) -> Cell:
        return Cell("V-norm", "norm")

    @property
    def cell_at(self) -> Literal["values"]:
        return "values"

    @property
    def technique(self) -> str:
        return "V-norm"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"value_norm": self.norm.build(sizes.value_width)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return total({"value_norm": self.norm.cost(sizes.value_width, key_rows * sizes.groups)})

    def split(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        return call.built("value_norm")(y_BTHE) if side == "value" else y_BTHE


class ValueScale(Adjustment):
    """The values times a number, after their norm (MiMo-V2: 0.707)."""

    name: ClassVar[str] = "value_scale"
    order: ClassVar[int] = 1
    short: ClassVar[str] = "factor"
    factor: Positive

    @property
    def value_factor(self) -> float:
        return self.factor

    def split(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        return y_BTHE * self.factor if side == "value" else y_BTHE
