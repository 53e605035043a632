"""Self-attention: multi-head, multi-query and grouped-query, of whatever stands in its slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from anyformer.describe import PartSet, upgrade
from anyformer.operations import Limit, Shape, StateBytes, Tally, Watchables
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads import Heads
from anyformer.parts.attention.heads_sketch import attention_sketch, heads_title
from anyformer.parts.attention.moved import in_slots
from anyformer.parts.attention.score_bias import SCORE_BIAS
from anyformer.parts.attention.slots import Remembered
from anyformer.parts.call.shared import MEMORY, VALUES, Read
from anyformer.parts.layout import HeadsLayout, OutsideAttention, WeightLayout
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Bidirectional, Causal
from anyformer.parts.positions.place import Place
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Sketch
from anyformer.parts.slot import SlotPart
from anyformer.parts.sublayer import Inputs, Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.attention.attention_module import AttentionModule
    from anyformer.parts.call.ring_state import RingState
    from anyformer.parts.call.state import FullState


class Attention(Heads):
    """Self-attention: softmax(q k^T * scale where mask) v, heads side by side, then the output projection.

    q = x W_q: (B, T, H, E); k, v = x W_k, x W_v: (B, T, K, E); query head h reads kv head h // (H / K). Multi-head:
    Vaswani et al. 2017 (arXiv 1706.03762), multi-query: Shazeer 2019 (1911.02150), grouped: Ainslie et al. 2023 (2305.13245).
    The papers' d_model is D, d_k and d_v are E, h is H.
    """

    through: ClassVar[tuple[str, ...]] = ("project", "place", "score", "weigh", "combine", "memory")
    kind: Literal["attention"] = "attention"
    mask: Mask = Causal()
    """The positions that a query may see."""
    place: PartSet[Place] = PartSet()
    """What positions do to queries and keys."""
    memory: PartSet[Remembered] = PartSet()
    """What stands in the place of its own keys and values, or beside them."""

    if TYPE_CHECKING:  # a slot takes a part, None, or a tuple of these

        def __init__(self, *, heads: int, **fields: Any) -> None: ...

    @model_validator(mode="after")
    def _makes_sense(self) -> Attention:
        if not self.own_keys:
            own = (*self.project.of_keys, *(part.name for part in self.parts if part.needs_own_keys))
            if without := " and ".join(dict.fromkeys(own)):
                raise ValueError(f"with keys_from this layer has no keys and values of its own: leave {without} out")
        for term in self.score.terms.values():
            if term.every_position and self.mask.window is not None:
                raise ValueError(
                    f"{term.name} adds up the gates of every position, and a window keeps its latest {self.mask.window} alone: "
                    f"leave {term.name} out, or give a mask without a window"
                )
        for part in self.combine.values():
            if part.looks_ahead and not isinstance(self.mask, Bidirectional):
                raise ValueError(f"{part.name} looks ahead: it needs a bidirectional mask, got {self.mask.kind}")
        if self.weigh.mixed(self.heads, 1)[0] != self.heads and (given := self.in_the_way("pairs of heads")):
            raise ValueError(f"{self.weigh.kind} mixes values in pairs of heads: leave {' and '.join(given)} out")
        if self.score.choice is not None:
            if not isinstance(self.mask, Causal):
                raise ValueError(f"a choice of blocks needs all of the past: leave the mask {self.mask.kind!r} out")
            if given := self.in_the_way("chosen keys"):
                raise ValueError(f"blocks are chosen of the layer's own keys, by plain scores: leave {' and '.join(given)} out")
        return self

    @property
    def parts(self) -> Iterator[SlotPart]:
        yield self.project
        yield from self.project.adjust.values()
        yield from self.place.values()
        yield from self.memory.values()
        yield self.score
        yield from self.score.terms.values()
        yield self.weigh
        yield from self.combine.values()

    @property
    def own_keys(self) -> bool:
        return not any(part.replaces for part in self.memory.values())

    @property
    def called(self) -> str:
        return self.weigh.called or ("attention" if self.score.choice is None else "block_sparse_attention")

    def sketch(self, width: int) -> Sketch:
        return attention_sketch(self, width, self.title, self.facts, self.place.values(), self.memory.values())

    @property
    def title(self) -> str:
        """The title of its picture."""
        return f"{heads_title(self)} attention" if self.called == "attention" else self.called.replace("_", " ").capitalize()

    @property
    def facts(self) -> tuple[str, ...]:
        """The rules of its scores in words, for pictures."""
        return (self.mask.words, *(word for part in self.parts if part is not self.weigh for word in part.words))

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        sizes = self.sizes(width)
        gates = shape.batch * self.score.beside(sizes) * SUM_BYTES
        held, read = self.score.kept(self.mask, sizes, shape, plan)
        number = shape.batch * plan.activation_bytes
        cached = self.mask.cache_length(shape.cache_length)
        sides = sum(part.state_elements(sizes, shape.batch) for part in self.project.adjust.values())
        state = StateBytes.of(
            shape,
            held * number + gates * cached + sides * plan.activation_bytes if self.own_keys else 0,
            read * number + gates * self.mask.pairs(shape) + sides * plan.activation_bytes,
            1 if self.score.choice else self.groups,
        )
        products = self.products(width, shape, *self.pairs(shape, plan))
        return self.declared(width, shape, shape.rows) + products + Tally(own_state=state, own_limits=self.limits)

    def watchable(self, width: int) -> Watchables:
        return self.seen(width, "T", placed=True)

    def pairs(self, shape: Shape, plan: Plan) -> tuple[int, int]:
        """The (query, key) pairs of a head and row that are computed, and those that are allowed."""
        pairs, seen = self.score.pairs(self.mask, shape, plan)
        beside = shape.length * sum(part.more() for part in self.memory.values())
        return pairs + beside, seen + beside

    def outside(self, width: int) -> OutsideAttention:
        sizes, past = self.sizes(width), self.mask.past
        unknown = (*self.in_the_way("outside"), *(() if past is not None else (f"the mask {self.mask.words}",)))
        return OutsideAttention(
            self.heads, self.groups, sizes.head_width, sizes.value_width, sizes.scale, past or None, self.score.softcap,
            self.weigh.dropped, self.in_the_way("divided heads"), unknown,
        )  # fmt: skip

    @property
    def traits(self) -> Traits:
        positions = [part.position for part in self.parts if part.position is not None]
        mixing = self.weigh.mixing or ("MHA" if self.groups == self.heads else "MQA" if self.groups == 1 else "GQA")
        beside = [part.mixing for part in self.combine.values() if part.mixing is not None]
        return Traits("+".join((mixing, *beside)), "+".join(positions) or "NoPE", stability=super().traits.stability)

    @property
    def reads(self) -> tuple[Read, ...]:
        unread = None if self.score.choice is None else "chooses its keys by plain scores"
        reads = [Read(SCORE_BIAS, size=self.heads, required=False, unread=unread)]
        for term in self.score.terms.values():
            reads += term.reads
        for recalled in self.memory.values():
            reads += recalled.reads(self.groups)
        for adjustment in self.project.adjust.values():
            reads += adjustment.reads(self.groups)
        return tuple(reads)

    @property
    def leaves(self) -> Mapping[str, int]:
        return {MEMORY: self.groups, VALUES: self.groups} if self.own_keys else {}

    def misfit(self, read: Read, of: Sublayer, width: int) -> str | None:
        if read.name not in (MEMORY, VALUES) or not isinstance(of, Attention):
            return None
        sides = {"value_width": (self.width_of_value(width), of.width_of_value(width))}
        if read.name == MEMORY:
            sides["head_width"] = self.width_of_head(width), of.width_of_head(width)
            kept, seen = of.mask.window, self.mask.window
            if kept is not None and (seen is None or seen > kept):
                sees = "all" if seen is None else f"{seen:,}"
                return f"sees {sees} keys of variant {read.variant!r}, which keeps the latest {kept:,}: give it that window"
        for name, (own, theirs) in sides.items():
            if own != theirs:
                where = f"reads {read.name!r} of variant {read.variant!r}, where it is {theirs}"
                return f"has {name} = {own} and {where}: set {name} = {theirs}"
        return None

    @property
    def inputs_of_depth(self) -> Inputs:
        return next((found for each in self.project.adjust.values() if (found := each.inputs_of_depth)), None)

    @property
    def reports_index(self) -> bool:
        return self.score.choice is not None and self.score.choice.learns

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.mask,)

    def gathers(self, width: int) -> int | None:
        if self.in_the_way("divided positions"):
            return None
        return self.groups * (self.width_of_head(width) + self.width_of_value(width)) if self.own_keys else 0

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        return (*self.mask.limits, *(limit for part in self.parts for limit in part.limits))

    def layout(self, width: int) -> WeightLayout:
        if self.in_the_way("layout") or not self.own_keys:
            return WeightLayout()
        rotary = next((part for part in self.place.values() if isinstance(part, Rotary)), None)
        scale = prod(part.value_factor for part in self.project.adjust.values())
        heads = HeadsLayout(
            self.heads, self.groups, self.width_of_head(width), self.width_of_value(width), self.scale_of(width), scale,
            rotary, "query.weight", "key.weight", "value.weight", "output.weight", self.in_the_way("latent"),
        )  # fmt: skip
        return WeightLayout(heads=heads)

    def build(self, width: int, plan: Plan, name: str) -> AttentionModule:
        from anyformer.parts.attention.attention_module import AttentionModule

        return AttentionModule(self, width, plan, name, **self.told)

    @property
    def told(self) -> dict[str, Any]:
        """What its module is told beside what every attention over heads is."""
        return {"mask": self.mask, "place": self.place.values(), "memory": self.memory.values()}

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState | None:
        """A ring for a mask with a window, else every position: B * K * min(window, C) * (E + U) elements, and what terms and
        the choice hold beside them; None if shared."""
        from anyformer.parts.call.ring_state import empty_keys_and_values

        if not self.own_keys:
            return None
        features, kept = (self.width_of_head(width), self.width_of_value(width)), self.mask.cache_length(capacity)
        state = empty_keys_and_values(batch, self.groups, features, kept, capacity, dtype, device)
        state = self.score.state(state, self.sizes(width), capacity)
        for part in self.project.adjust.values():
            state = part.state(state, self.sizes(width))
        return state


upgrade(in_slots)
