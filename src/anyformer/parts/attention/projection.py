"""The slot of attention that makes queries, keys and values of its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import model_validator

from anyformer.describe import PartSet
from anyformer.operations import Dimension, Fill, Role, Tally, matrix
from anyformer.parts.attention.slots import Adjustment
from anyformer.parts.pointwise.grouped import HeadGroups
from anyformer.parts.slot import HeadSizes, Side, SlotPart, Way
from anyformer.parts.sublayer import each_once

Projected = Literal["query", "key", "value", "output"]
PROJECTIONS: tuple[Projected, ...] = ("query", "key", "value", "output")


class Projection(SlotPart):
    """q = x W_q: (B, T, H, E); k, v = x W_k, x W_v: (B, T, K, E) and (B, T, K, U); after the heads are combined, y W_o."""

    name: ClassVar[str] = "project"
    through: ClassVar[tuple[str, ...]] = ("adjust",)
    bias: Annotated[tuple[Projected, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""
    grouped: HeadGroups | None = None
    """Projections whose features are in groups, each of which reads its own inputs alone."""
    values: Literal["own", "keys"] = "own"
    """`keys`: the values are the projected keys, before norm and rotation (Gemma 4's global layers)."""
    adjust: PartSet[Adjustment] = PartSet()
    """What changes queries, keys and values after, or x before."""

    if TYPE_CHECKING:  # a slot takes a part, None, or a tuple of these

        def __init__(self, **fields: Any) -> None: ...

    @model_validator(mode="after")
    def _own_values(self) -> Projection:
        for given, what in (("value" in self.bias, "a bias on 'value'"), (self.counts["value"] > 1, "grouped.value")):
            if self.values == "keys" and given:
                raise ValueError(f"{what} needs values = 'own': here the keys are the values")
        return self

    @property
    def counts(self) -> dict[str, int]:
        """The number of groups of each projection."""
        return dict.fromkeys(PROJECTIONS, 1) if self.grouped is None else self.grouped.counts

    def in_the_way(self, way: Way) -> tuple[str, ...]:
        given = {
            "grouped": self.grouped is not None and way in ("divided heads", "two inputs", "layout"),
            "values": self.values == "keys" and way in ("two inputs", "layout"),
            "bias": way == "latent" and not {"query", "key", "value"}.isdisjoint(self.bias),
        }
        return tuple(name for name, found in given.items() if found)

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.grouped is None else (self.grouped.words,)

    def check_groups(self, sizes: HeadSizes, read: int) -> None:
        """Refuse groups that do not divide the sides of a projection; the output reads `read` features."""
        if self.grouped is not None:
            D = sizes.width
            own = {side: (D, sizes.features(side)) for side in ("query", "key", "value")}
            self.grouped.check({**own, "output": (read, D)})

    @property
    def of_keys(self) -> tuple[str, ...]:
        """What it says about keys and values of the layer's own, in words."""
        said = {
            "values": self.values == "keys",
            "grouped.key and grouped.value": self.counts["key"] > 1 or self.counts["value"] > 1,
            "the bias on 'key' or 'value'": not {"key", "value"}.isdisjoint(self.bias),
        }
        return tuple(name for name, given in said.items() if given)

    def inputs(self, width: int) -> int:
        """Features of what queries, and self-attention's keys and values, are projected from."""
        for part in self.adjust.values():
            width = part.inputs(width)
        return width

    def products(self, sizes: HeadSizes, rows: int, key_rows: int, read: int, mixed: Dimension) -> Tally:
        """Weights and work of the projections; the output reads `read` features, which are `mixed`."""
        heads: dict[Side, Dimension] = {
            "query": (("heads", sizes.heads), ("features", sizes.head_width)),
            "key": (("kv_heads", sizes.groups), ("features", sizes.head_width)),
            "value": (("kv_heads", sizes.groups), ("features", sizes.value_width)),
        }
        parts = self._matrix("query", sizes.inputs, sizes.features("query"), rows, outputs_as=heads["query"])
        parts += self._matrix("output", read, sizes.width, rows, role="row", fill="residual", inputs_as=mixed)
        for side in sizes.projected[1:]:
            parts += self._matrix(side, sizes.read(side), sizes.features(side), key_rows, outputs_as=heads[side])
        return parts

    def _matrix(
        self,
        name: Projected,
        inputs: int,
        outputs: int,
        rows: int,
        *,
        role: Role = "column",
        fill: Fill = "matrix",
        outputs_as: Dimension = (),
        inputs_as: Dimension = (),
    ) -> Tally:
        """The weight and the work of a projection. A grouped one is whole in every process of tensor parallelism."""
        groups = self.counts[name]
        return matrix(
            name, inputs, outputs, rows, role=role if groups == 1 else "replicate", bias=name in self.bias, fill=fill,
            outputs_as=outputs_as, inputs_as=inputs_as, groups=groups,
        )  # fmt: skip
