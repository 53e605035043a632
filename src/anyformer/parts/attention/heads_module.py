"""The base module of attentions over heads: projections with what adjusts them, and what follows once heads are mixed."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from anyformer.parts.attention.attends import Attends
from anyformer.parts.attention.heads import Heads
from anyformer.parts.attention.named_values_module import by_position, put_out
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.call.noise import Dropout
from anyformer.parts.masks.mask import Mask
from anyformer.parts.pointwise.grouped_module import projection
from anyformer.parts.slot import Side
from anyformer.plan import Plan


class HeadsModule(Attends):
    """The projections, separate in storage, and what the parts of the slots built, under names of their own."""

    def __init__(self, heads: Heads, width: int, plan: Plan, name: str, *, mask: Mask | None = None) -> None:
        super().__init__(mask)
        self.heads, self.plan, self.path = heads, plan, name
        self.sizes = sizes = heads.sizes(width)
        self.head_width, self.value_width = sizes.head_width, sizes.value_width
        self.query = self._linear("query", sizes.inputs, sizes.features("query"))
        count, features = heads.read_by_output(width)
        self.output = self._linear("output", count * features, width)
        for side in sizes.projected[1:]:
            setattr(self, side, self._linear(side, sizes.read(side), sizes.features(side)))
        for part in heads.parts:
            for called, built in part.build(sizes).items():
                setattr(self, called, built)
        self.dropout = Dropout(heads.weigh.dropped, f"{name}.dropout", along=2)
        self.adjust, self.combine = tuple(heads.project.adjust.values()), tuple(heads.combine.values())

    def _linear(self, name: Any, inputs: int, outputs: int) -> nn.Module:
        project = self.heads.project
        return projection(inputs, outputs, bias=name in project.bias, groups=project.counts[name])

    def extra_repr(self) -> str:
        return f"heads={self.sizes.heads}, kv_heads={self.sizes.groups}, head_width={self.head_width}"

    @property
    def drops(self) -> bool:
        """Whether attention weights are dropped in this mode."""
        return self.training and self.dropout.rate > 0

    def scoring(self, call: AttentionCall) -> dict[str, Any]:
        """What the kernels are told of this attention."""
        return {
            "scale": self.sizes.scale, "softcap": self.heads.score.softcap, "drop": self.dropout.drop(call.context.noise),
            "kernel": self.plan.attention, "shown": call.shown,
        }  # fmt: skip

    def projected(self, side: Side, x: Tensor, call: AttentionCall) -> Tensor:
        """Queries, keys or values of x: (B, S, D) -> (B, S, heads, E), adjusted."""
        y: Tensor = getattr(self, side)(x)
        return self.split(side, self.adjusted(side, y, x, call), call)

    def adjusted(self, side: Side, y: Tensor, x: Tensor, call: AttentionCall) -> Tensor:
        """A projection y of x with what belongs to it alone, such as low-rank matrices beside its weight."""
        for part in self.adjust:
            y = part.projected(y, x, side, call)
        return y

    def split(self, side: Side, y: Tensor, call: AttentionCall) -> Tensor:
        """(B, S, heads * E) -> (B, S, heads, E), adjusted while heads stand side by side, then head by head."""
        for part in self.adjust:
            y = part.side_by_side(y, side, call)
        width = self.value_width if side == "value" else self.head_width
        y = y.view(*y.shape[:-1], y.shape[-1] // width, width)  # of no positions too
        for part in self.adjust:
            y = part.split(y, side, call)
        return y

    def keys_and_values(self, of_keys: Tensor, of_values: Tensor, call: AttentionCall) -> tuple[Tensor, Tensor]:
        """(B, S, K, E) and (B, S, K, U)."""
        if self.sizes.own_values:
            k, v = self.projected("key", of_keys, call), self.projected("value", of_values, call)
        else:
            # The values are the projected keys, before their norm.
            y = self.adjusted("key", self.get_submodule("key")(of_keys), of_keys, call)
            k, v = self.split("key", y, call), self.split("value", y, call)
        return call.context.see("key", k), call.context.see("value", v)

    def finished(self, mixed_BHTU: Tensor, call: AttentionCall) -> Tensor:
        """What follows once heads are mixed: the combination, then the output projection of the heads side by side."""
        mixed_BHTU = by_position(mixed_BHTU, call.context)
        for part in self.combine:
            mixed_BHTU = part.mixed(mixed_BHTU, call)
        rows = mixed_BHTU.transpose(1, 2)  # a part may leave other heads
        for part in self.combine:
            rows = part.rows(rows, call)
        return put_out(self.output, rows, call.context)
