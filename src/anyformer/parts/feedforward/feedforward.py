"""Feed-forward networks, gated or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import lcm
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import model_validator

from anyformer.describe import Choice, Count, Positive, Probability, Value
from anyformer.operations import Dimension, Role, Shape, Tally, Watchables, matrix, total, value
from anyformer.operations.elementwise import gated
from anyformer.parts.layout import NetworkLayout, WeightLayout
from anyformer.parts.norms.norm import Norm
from anyformer.parts.parametrisation import Parametrisation
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.pointwise.grouped import NetworkGroups
from anyformer.parts.pointwise.layer_lora import LayerLoRA
from anyformer.parts.pointwise.scaled_gain import ScaledGain
from anyformer.parts.pointwise.sparse import StatisticalTopK
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Network, Resizing, Sublayer, Traits, each_once
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.feedforward.feedforward_module import FeedForwardModule


Projection = Literal["gate", "up", "down"]
PROJECTIONS: tuple[Projection, ...] = ("gate", "up", "down")


class SoftCaps(Value):
    """act(gate) * cap_g(gate) * cap_u(up), cap_c(z) = c tanh(z / c): with `sigmoid` a SwiGLU whose linear sides are bounded,
    and whose sigmoid reads the gate as it is (Inkling 2, Thinking Machines 2026)."""

    gate: Positive = 4.0
    up: Positive = 25.0


class PositionwiseNetwork(Sublayer):
    """The base of feed-forward networks and of mixtures of experts: projections around a nonlinearity."""

    width: Count
    """F, features between the projections."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "silu"
    gated: bool = True
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""
    clamp: Positive | None = None
    """Bound c: gate <= c, -c <= up <= c; without a gate up <= c (gpt-oss: 7; DeepSeek-V4, GLM-5: 10)."""
    clamp_at: Literal["before_activation", "after_activation"] = "before_activation"
    """Whether the gate is bounded, or act(gate) (Step-3.7)."""
    up_offset: float = 0.0
    """Added to the up projection of a gated network: act(gate) * (up + offset) (gpt-oss: 1)."""
    caps: SoftCaps | None = None
    """Bounds of the gate and of up that bend: act(gate) * cap(gate) * cap(up)."""
    gate_multiplier: Positive = 1.0
    """Factor of the gate before the activation: act(multiplier * gate) * up (Falcon-H1's muP)."""

    @model_validator(mode="after")
    def _has_its_gate(self) -> Self:
        if "gate" in self.bias and not self.gated:
            raise ValueError("a bias on 'gate' needs gated = true")
        if self.up_offset and not self.gated:
            raise ValueError("up_offset belongs to a gated network: set gated = true, or use a bias on 'up'")
        if self.caps is not None and not self.gated:
            raise ValueError("caps belong to a gated network: set gated = true")
        if self.caps is not None and (self.clamp is not None or self.up_offset):
            raise ValueError("caps bound the gate and up: leave clamp and up_offset out")
        if self.gate_multiplier != 1 and not self.gated:
            raise ValueError("gate_multiplier belongs to a gated network: set gated = true")
        if self.clamp_at != "before_activation" and self.clamp is None:
            raise ValueError(f"clamp_at = {self.clamp_at!r} says where a clamp acts, and there is none: set clamp")
        return self

    @property
    def traits(self) -> Traits:
        return Traits(activation=self.title, stability=() if self.clamp is None else ("clamp",))

    @property
    def title(self) -> str:
        """The activation's name, with its gate: `SwiGLU`."""
        return activation_name(self.activation, gated=self.gated)

    @property
    def facts(self) -> tuple[str, ...]:
        """Its biases, clamp, offset and factor in words, for pictures."""
        clamp = () if self.clamp is None else (f"clamped at {number(self.clamp)}",)
        offset = (f"up + {number(self.up_offset)}",) if self.up_offset else ()
        factor = () if self.gate_multiplier == 1 else (f"{number(self.gate_multiplier)} gate",)
        caps = () if self.caps is None else (f"soft-capped at {number(self.caps.gate)} and {number(self.caps.up)}",)
        return (*biases(self.bias, len(self.projections)), *clamp, *caps, *offset, *factor)

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The names of its projections, in order: a network without a gate has two."""
        return PROJECTIONS if self.gated else ("up", "down")

    @property
    def function(self) -> Mapping[str, object]:
        """The fields that decide what a network computes beside its weights."""
        return {
            "activation": self.activation, "gated": self.gated, "bias": self.bias, "clamp": self.clamp,
            "clamp_at": self.clamp_at, "up_offset": self.up_offset, "gate_multiplier": self.gate_multiplier, "caps": self.caps,
        }  # fmt: skip

    def between(self, activation: Callable[[Tensor], Tensor], gate: Tensor | None, up: Tensor) -> Tensor:
        """act(multiplier * gate) * (up + offset), or act(up) without a gate, clamped: the input of the down projection."""
        acted = up if gate is None else gate if self.gate_multiplier == 1 else gate * self.gate_multiplier
        if self.clamp is not None and self.clamp_at == "before_activation":
            acted = acted.clamp(max=self.clamp)
        linear, acted = acted, activation(acted)
        if self.clamp is not None and self.clamp_at == "after_activation":
            acted = acted.clamp(max=self.clamp)
        if gate is None:
            return acted
        if self.caps is not None:
            return acted * soft_capped(linear, self.caps.gate) * soft_capped(up, self.caps.up)
        up = up if self.clamp is None else up.clamp(-self.clamp, self.clamp)
        return acted * (up + self.up_offset if self.up_offset else up)


def soft_capped(x: Tensor, bound: float) -> Tensor:
    """c tanh(x / c)."""
    return bound * (x / bound).tanh()


class FeedForward(PositionwiseNetwork):
    """Two or three projections around a nonlinearity, position by position.

    Plain: act(x W_up) W_down (arXiv 1706.03762). Gated: (act(x W_gate) * (x W_up)) W_down (Shazeer 2020, arXiv 2002.05202:
    `silu` is SwiGLU, `gelu` GEGLU, `relu` ReGLU, `sigmoid` GLU). W_gate, W_up: (D, F), W_down: (F, D). The papers' d_ff
    is F; W_1 is gate or up, V is up, W_2 is down.
    """

    kind: Literal["feedforward"] = "feedforward"
    grouped: NetworkGroups | None = None
    """Projections whose features are in groups, each of which reads its own inputs alone."""
    sub_norm: Norm | None = None
    """Norm over F before the down projection (BitNet, Magneto)."""
    dropout: Probability = 0.0
    """Share of the F features dropped in training, after the activation."""
    lora: LayerLoRA | None = None
    """Low-rank matrices beside gate and up, with one A for both, of each layer that shares these."""
    sparse: StatisticalTopK | None = None
    """What is left of the activation's input, the gate or without one up (Gemma 3n)."""
    gains: ScaledGain | None = None
    """Learned factors of what the gate and up give, (F,) each (nGPT, arXiv 2410.01131)."""

    @property
    def sharers(self) -> int | None:
        return None if self.lora is None else self.lora.layers

    @model_validator(mode="after")
    def _groups_its_gate(self) -> Self:
        if self.in_groups("gate") > 1 and not self.gated:
            raise ValueError("grouped.gate needs gated = true")
        return self

    @property
    def traits(self) -> Traits:
        traits = super().traits
        return traits if self.sub_norm is None else replace(traits, stability=(*traits.stability, "sub-norm"))

    @property
    def resizing(self) -> Resizing:
        groups = () if self.grouped is None else self.grouped.counts.values()
        return Resizing(lcm(*groups), network=Network(self.width, self.gated))

    def in_groups(self, name: Projection) -> int:
        """The number of groups of a projection."""
        return 1 if self.grouped is None else self.grouped.counts[name]

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""
        if self.grouped is not None:
            self.grouped.check({"gate": (width, self.width), "up": (width, self.width), "down": (self.width, width)})

    def narrowed(self, width: int, ways: int) -> Self | None:
        joined = self.sub_norm is not None or self.grouped is not None or self.sparse is not None
        return None if joined or self.width % ways else self.but(width=self.width // ways)

    def gathers(self, width: int) -> int | None:
        return 0

    def at_unit_scale(self, width: int, rules: Parametrisation) -> tuple[Self, float]:
        from anyformer.parts.pointwise.activation_module import spread

        return self, 1.0 if self.sub_norm is not None else 1 / spread(self.activation)

    def layout(self, width: int) -> WeightLayout:
        if self.grouped is not None or self.gains is not None:
            return WeightLayout()
        function = dict(self.function)
        if self.sub_norm is not None:
            function["sub_norm"] = self.sub_norm
        if self.lora is not None:
            function["lora"] = self.lora
        if self.sparse is not None:
            function["sparse"] = self.sparse
        joined = self.sub_norm is not None or self.sparse is not None
        return WeightLayout(NetworkLayout(self.width, function, self.names(""), normed=joined))

    def names(self, prefix: str) -> dict[str, str]:
        """The names of its weights, after `prefix`, by what they are."""
        weights = {name: f"{prefix}{name}.weight" for name in self.projections}
        return weights | {f"{name}_bias": f"{prefix}{name}.bias" for name in self.bias}

    def sketch(self, width: int) -> Sketch:
        F, acted = number(self.width), Cell(activation_name(self.activation, gated=False), "pointwise")
        inner = chain(Cell(f"up {F}"), acted)
        if self.gated:
            inner = fan(chain(Cell(f"gate {F}"), acted), Cell(f"up {F}"), join="×")
        norm = None if self.sub_norm is None else Cell("norm", "norm")
        extra = [part.words for part in (self.grouped, self.sparse) if part is not None]
        extra += [] if self.lora is None else [self.lora.beside]
        extra += [] if self.gains is None else ["learned factors of its features"]
        return Sketch(f"Feed-forward, {self.title}", (*self.facts, *extra), chain(inner, norm, Cell(f"down {number(width)}")))

    def build(self, width: int, plan: Plan, name: str) -> FeedForwardModule:
        from anyformer.parts.feedforward.feedforward_module import FeedForwardModule

        return FeedForwardModule(self, width, name)

    def watchable(self, width: int) -> Watchables:
        F = self.width
        gate = {"gate": value("BTF", "the gate before the activation", F=F)} if self.gated else {}
        up = value("BTF", "the up projection" if self.gated else "the up projection, before the activation", F=F)
        return {**gate, "up": up, "hidden": value("BTF", "act(gate) * up" if self.gated else "act(up)", F=F)}

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.batch * shape.length
        features: Dimension = (("ffn", self.width),)
        into = (self._matrix(name, width, self.width, rows, outputs_as=features) for name in self.projections[:-1])
        inner = {"activation": ACTIVATIONS[self.activation].cost(self.width, rows, gated=self.gated)}
        if self.sub_norm is not None:
            inner["sub_norm"] = self.sub_norm.cost(self.width, rows)
        if self.sparse is not None:
            inner["sparse"] = self.sparse.cost(self.width, rows)
        if self.lora is not None:
            inner["lora"] = self.lora.work(width, dict.fromkeys(self.projections[:-1], self.width), rows)
        if self.gains is not None:
            for name in self.projections[:-1]:
                gain = self.gains.weight(self.width, "column", (features,))
                inner[f"{name}_gain"] = Tally({"": gain}, {"": gated(rows * self.width)})
        down = self._matrix("down", self.width, width, rows, role="row", fill="residual", inputs_as=features)
        return sum((*into, total(inner), down), Tally())

    def _matrix(self, name: Projection, inputs: int, outputs: int, rows: int, role: Role = "column", **more: Any) -> Tally:
        """The weight and the work of a projection. A grouped one is whole in every process of tensor parallelism."""
        groups, bias = self.in_groups(name), name in self.bias
        role = role if groups == 1 else "replicate"
        return matrix(name, inputs, outputs, rows, role=role, bias=bias, groups=groups, **more)


def gated_width(width: int, multiple: int = 256) -> int:
    """F of a gated network with as many parameters as a plain one of 4 D: 8/3 D, rounded up to a multiple (Llama: 256)."""
    return -(-(8 * width // 3) // multiple) * multiple
