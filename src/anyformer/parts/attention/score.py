"""The slot of attention that scores keys, per query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator

from anyformer.describe import PartSet, Positive, with_kind
from anyformer.operations import Shape, Tally, total
from anyformer.parts.attention.block_choice import BlockChoice
from anyformer.parts.attention.slots import AttentionCall, Term
from anyformer.parts.masks.mask import Mask
from anyformer.parts.sketch import number
from anyformer.parts.slot import HeadSizes, SlotPart, Way
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.call.context import Memory, Visible
    from anyformer.parts.call.ring_state import RingState
    from anyformer.parts.call.state import FullState


class Score(SlotPart):
    """s = cap(q k^T * scale + terms), (B, H, T, S), of all keys that a query sees, or of those that a choice picks."""

    name: ClassVar[str] = "score"
    through: ClassVar[tuple[str, ...]] = ("terms",)
    scale: Positive | None = None
    """Factor of the scores; E^-0.5 by default."""
    softcap: Positive | None = None
    """Bound c of the scores: c * tanh(s / c)."""
    terms: PartSet[Term] = PartSet()
    """What is added to scores."""
    choice: Annotated[BlockChoice | None, BeforeValidator(with_kind("block_indexer"))] = None
    """How the keys of a query are chosen among those that it sees, a table without a kind by a `BlockIndexer`; None: all."""

    if TYPE_CHECKING:  # a slot takes a part, None, or a tuple of these

        def __init__(self, **fields: Any) -> None: ...

    @property
    def technique(self) -> str | None:
        return None if self.softcap is None else "score soft-cap"

    def in_the_way(self, way: Way) -> tuple[str, ...]:
        capped = self.softcap is not None and way in ("chosen keys", "latent")
        ruled_out = ("divided heads", "divided positions", "source", "two inputs", "outside", "layout")
        chosen = self.choice is not None and way in ruled_out
        return (*(("softcap",) if capped else ()), *(("choice",) if chosen else ()))

    @property
    def words(self) -> tuple[str, ...]:
        numbers = {"scale": self.scale, "soft-cap": self.softcap}
        said = tuple(f"{name} {number(value)}" for name, value in numbers.items() if value is not None)
        return said if self.choice is None else (*said, f"best {self.choice.keep} blocks of {self.choice.block}")

    def of_width(self, head_width: int) -> float:
        """The factor of the scores."""
        return head_width**-0.5 if self.scale is None else self.scale

    def beside(self, sizes: HeadSizes) -> int:
        """Numbers in fp32 per position that the decode state holds for terms."""
        return sum(term.beside(sizes) for term in self.terms.values())

    def check(self, sizes: HeadSizes) -> None:
        if self.choice is not None:
            self.choice.check(sizes.width)

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {} if self.choice is None else {"choice": self.choice.build(sizes)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return Tally() if self.choice is None else total({"choice": self.choice.cost(sizes, shape)})

    def kept(self, mask: Mask, sizes: HeadSizes, shape: Shape, plan: Plan) -> tuple[int, int]:
        """Numbers of a row, of the width of activations, that the decode state holds, and those that its queries read."""
        K, features = sizes.groups, sizes.groups * (sizes.head_width + sizes.value_width)
        if self.choice is None:
            return features * mask.cache_length(shape.cache_length), features * mask.pairs(shape)
        held = features * shape.cache_length + self.choice.held(sizes, shape.cache_length)
        chosen = self.choice.choosing(sizes.heads, K) * features // K * self.pairs(mask, shape, plan)[1]
        return held, chosen + self.choice.read(sizes, shape)

    def pairs(self, mask: Mask, shape: Shape, plan: Plan) -> tuple[int, int]:
        """The (query, key) pairs of a head and row that are computed, and those that are allowed."""
        if self.choice is None:
            return shape.length * shape.keys, mask.pairs(shape)
        return self.choice.pairs(shape, plan)

    def state(self, state: FullState | RingState, sizes: HeadSizes, capacity: int) -> FullState | RingState:
        """The state of keys and values, with what terms and the choice hold beside them."""
        import torch

        from anyformer.parts.call.annotated_state import AnnotatedState
        from anyformer.parts.call.state import FullState

        if self.choice is not None:
            assert isinstance(state, FullState), "a ring holds fewer positions than its capacity"
            return self.choice.state(state, capacity)
        if not (numbers := self.beside(sizes)):
            return state
        shape = (len(state.key), numbers, capacity, 1)
        return AnnotatedState(state.key, state.value, torch.zeros(shape, dtype=torch.float32, device=state.key.device))

    def attended(
        self,
        q_BHTE: Tensor,
        memory: Memory,
        visible: Visible,
        bias_BHTS: Tensor | None,
        call: AttentionCall,
    ) -> Tensor:
        """The mixed values of the keys that are scored, (B, H, T, U)."""
        from anyformer.parts.attention.attend_choice import attend_choice
        from anyformer.parts.attention.slots_module import AttentionInputs

        if self.choice is not None:
            return attend_choice(self.choice, q_BHTE, memory, visible, call)
        k, v = memory.key.to(q_BHTE.dtype), memory.value.to(q_BHTE.dtype)
        mixed: Tensor = call.attention.heads.weigh.attended(AttentionInputs(q_BHTE, k, v, visible, bias_BHTS), call)
        return mixed

    def bias(self, shared: Tensor | None, q_BHTE: Tensor, memory: Memory, call: AttentionCall) -> Tensor | None:
        """All terms, and what the stack adds to the scores of its layers: (B or 1, H, T or 1, S); None without any."""
        bias = shared
        for term in self.terms.values():
            own = term.term(q_BHTE, memory, call)
            bias = own if bias is None else bias + own
        return bias
