"""What stands in the place of a layer's own keys and values, or beside them: those of an earlier layer, learned ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anyformer.describe import Count
from anyformer.operations import Dimension, Shape, Tally, Weight
from anyformer.parts.attention.slots import AttentionCall, Remembered
from anyformer.parts.call.shared import MEMORY, Read
from anyformer.parts.sketch import Cell
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.call.context import Memory, Visible


VIRTUAL = ("virtual_key", "virtual_value")


class KeysFrom(Remembered):
    """The keys and values of an earlier layer, so that this one has none of its own (Gemma 3n)."""

    name: ClassVar[str] = "keys_from"
    short: ClassVar[str] = "variant"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"chosen keys", "two inputs", "outside", "latent"})
    replaces: ClassVar[bool] = True
    variant: str
    """Those of the latest layer of this variant before it are read."""

    @property
    def cell(self) -> Cell:
        return Cell(f"K, V of the latest {self.variant} layer", "memory")

    def reads(self, groups: int) -> tuple[Read, ...]:
        return (Read(MEMORY, self.variant, size=groups, state=True),)

    def recalled(self, call: AttentionCall) -> Memory:
        memory: Memory = call.context.shared[self.variant, MEMORY]
        return memory


class VirtualTokens(Remembered):
    """Learned keys and values that every query sees, without a position (prefix tuning, Li & Liang 2021, arXiv 2101.00190)."""

    name: ClassVar[str] = "virtual_tokens"
    short: ClassVar[str] = "count"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"bands", "chosen keys", "outside", "latent"})
    count: Count

    @property
    def words(self) -> tuple[str, ...]:
        return (f"{self.count} virtual tokens",)

    def shapes(self, sizes: HeadSizes) -> dict[str, tuple[int, int, int]]:
        """(K, P, E) of the keys and (K, P, U) of the values."""
        features = (sizes.head_width, sizes.value_width)
        return {name: (sizes.groups, self.count, of) for name, of in zip(VIRTUAL, features, strict=True)}

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.slots_module import parameters

        return parameters(self.shapes(sizes))

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        axes: tuple[Dimension, ...] = ((("kv_heads", sizes.groups),), (), ())
        return Tally({name: Weight(of, "column", "matrix", axes=axes) for name, of in self.shapes(sizes).items()})

    def more(self) -> int:
        return self.count

    def extended(
        self, memory: Memory, visible: Visible, bias: Tensor | None, call: AttentionCall
    ) -> tuple[Memory, Visible, Tensor | None]:
        from anyformer.parts.attention.memory_module import behind, padded

        key, value = map(call.built, VIRTUAL)
        return behind(key, value, memory), visible.after(self.count, call.x.shape[1], call.x.device), padded(bias, self.count)
