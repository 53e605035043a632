"""Value embeddings: a table of tokens whose rows are added to the values of a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anyformer.describe import Count, Positive
from anyformer.operations import Dimension, Shape, Tally, Weight, total
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.call.shared import TOKENS, Read
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.slot import HeadSizes, Side, Way

if TYPE_CHECKING:
    from torch import Tensor


class ValueEmbedding(Adjustment):
    """v'_t = v_t + scale * g(x_t) * table[token_t], table (V, K * U): a row has a part per head of values, (B, T, K, U).

    Large tables cost memory and no products. modded-nanogpt (Jordan et al. 2024) has them without a gate in some layers,
    nanochat (Karpathy 2025) in every other one with a gate per head and scale 2, so that a gate of one half changes nothing.
    """

    name: ClassVar[str] = "value_embedding"
    order: ClassVar[int] = 2
    rules_out: ClassVar[frozenset[Way]] = frozenset({"source", "two inputs", "latent"})
    needs_own_keys: ClassVar[bool] = True
    vocab: Count
    """V."""
    gate: Gate | None = None
    """g, from what the values read; None: 1."""
    scale: Positive = 1.0

    @property
    def words(self) -> tuple[str, ...]:
        return (f"values plus a row of {self.vocab:,} per token",)

    @property
    def technique(self) -> str:
        return "value embedding"

    def reads(self, groups: int) -> tuple[Read, ...]:
        return (TOKENS,)

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.value_embedding_module import ValueEmbeddingModule

        return {"value_embedding": ValueEmbeddingModule(self, sizes)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        groups, value_width = sizes.groups, sizes.value_width
        tokens: Dimension = (("vocab", self.vocab),)
        values: Dimension = (("kv_heads", groups), ("features", value_width))
        table = Weight((self.vocab, groups * value_width), "row", "embedding", linear=False, axes=(tokens, values))
        gate = {} if self.gate is None else {"gate": self.gate.work(sizes.inputs, groups, value_width, key_rows, of="kv_heads")}
        return total({"value_embedding": Tally({"table": table}) + total(gate)})

    def split(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        return call.built("value_embedding")(y_BTHE, call.x, call.context.tokens) if side == "value" else y_BTHE
