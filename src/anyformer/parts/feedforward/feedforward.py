"""Feed-forward networks, gated or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from anyformer.describe import Choice
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Dropout
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name, keeps_input
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Network, Sublayer, each_once
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally, matrix, total
from anyformer.tape import Held, Tape

Projection = Literal["gate", "up", "down"]
PROJECTIONS: tuple[Projection, ...] = ("gate", "up", "down")
ClampAt = Literal["before_activation", "after_activation"]


class FeedForward(Sublayer):
    """Two or three projections around a nonlinearity, position by position.

    Plain: act(x W_up) W_down (arXiv 1706.03762). Gated: (act(x W_gate) * (x W_up)) W_down (Shazeer 2020, arXiv 2002.05202:
    `silu` is SwiGLU, `gelu` GEGLU, `relu` ReGLU, `sigmoid` GLU). W_gate, W_up: (D, F), W_down: (F, D). The papers' d_ff
    is F; W_1 is gate or up, V is up, W_2 is down.
    """

    kind: Literal["feedforward"] = "feedforward"
    width: Annotated[int, Field(ge=1)]
    """F."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "silu"
    gated: bool = True
    bias: tuple[Projection, ...] = ()
    """Projections that add a bias."""
    clamp: Annotated[float, Field(gt=0)] | None = None
    """Bound c: gate <= c, -c <= up <= c; without a gate up <= c (gpt-oss: 7; DeepSeek-V4, GLM-5: 10)."""
    clamp_at: ClampAt = "before_activation"
    """Whether the gate is bounded, or act(gate) (Step-3.7)."""
    up_offset: float = 0.0
    """Added to the up projection of a gated network: act(gate) * (up + offset) (gpt-oss: 1)."""
    sub_norm: Norm | None = None
    """Norm over F before the down projection (BitNet, Magneto)."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the F features dropped in training, after the activation."""

    @field_validator("bias")
    @classmethod
    def _in_order(cls, names: tuple[Projection, ...]) -> tuple[Projection, ...]:
        return each_once(names, PROJECTIONS)

    @model_validator(mode="after")
    def _has_its_gate(self) -> FeedForward:
        check_gate(self)
        return self

    @property
    def nonlinearity(self) -> str | None:
        return activation_name(self.activation, gated=self.gated)

    @property
    def network(self) -> Network | None:
        return Network(self.width, self.gated)

    def with_network(self, width: int) -> Self:
        return self.but(width=width)

    @property
    def tricks(self) -> tuple[str, ...]:
        there = {"clamp": self.clamp, "sub-norm": self.sub_norm}
        return tuple(name for name, part in there.items() if part is not None)

    def sketch(self, width: int) -> Sketch:
        F, acted = number(self.width), Cell(activation_name(self.activation, gated=False), "pointwise")
        inner = chain(Cell(f"up {F}"), acted)
        if self.gated:
            inner = fan(chain(Cell(f"gate {F}"), acted), Cell(f"up {F}"), join="×")
        norm = None if self.sub_norm is None else Cell("norm", "norm")
        title = activation_name(self.activation, gated=self.gated)
        return Sketch(
            f"Feed-forward, {title}",
            (*biases(self.bias, 3 if self.gated else 2), *bounds(self)),
            chain(inner, norm, Cell(f"down {number(width)}")),
        )

    def build(self, width: int, plan: Plan, name: str) -> FeedForwardModule:
        return FeedForwardModule(self, width, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.batch * shape.length
        parts = matrix("up", width, self.width, rows, role="column", bias="up" in self.bias)
        if self.gated:
            parts = matrix("gate", width, self.width, rows, role="column", bias="gate" in self.bias) + parts
        parts += total({"activation": ACTIVATIONS[self.activation].cost()})
        if self.sub_norm is not None:
            parts += total({"sub_norm": self.sub_norm.cost(self.width)})
        return parts + matrix("down", self.width, width, rows, role="row", bias="down" in self.bias, fill="residual")

    def keeps(self, tape: Tape, x: Held, width: int) -> Held:
        gate = tape.linear("gate", x, width, self.width) if self.gated else None
        h = combine_keeps(self, self.activation, tape, gate, tape.linear("up", x, width, self.width))
        h = tape.dropped("dropout", h, self.dropout)
        h = self.sub_norm.keeps(tape.within("sub_norm"), h, self.width) if self.sub_norm else h
        return tape.linear("down", h, self.width, width)


class FeedForwardModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, ffn: FeedForward, width: int, name: str) -> None:
        super().__init__()
        self.ffn = ffn
        self.activation = ACTIVATIONS[ffn.activation].build()
        self.gate = nn.Linear(width, ffn.width, bias="gate" in ffn.bias) if ffn.gated else None
        self.up = nn.Linear(width, ffn.width, bias="up" in ffn.bias)
        self.sub_norm = ffn.sub_norm.build(ffn.width) if ffn.sub_norm else nn.Identity()
        self.down = nn.Linear(ffn.width, width, bias="down" in ffn.bias)
        self.dropout = Dropout(ffn.dropout, f"{name}.dropout")

    def extra_repr(self) -> str:
        return f"activation={self.ffn.activation}"

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        gate_BTF = None if self.gate is None else self.gate(x_BTD)
        h_BTF = self.dropout(combine(self.ffn, self.activation, gate_BTF, self.up(x_BTD)), context.noise)
        return self.down(self.sub_norm(h_BTF))  # type: ignore[no-any-return]


class Nonlinear(Protocol):
    """What a network and each of many experts say of what happens between their projections."""

    @property
    def gated(self) -> bool: ...
    @property
    def bias(self) -> tuple[Projection, ...]: ...
    @property
    def clamp(self) -> float | None: ...
    @property
    def clamp_at(self) -> ClampAt: ...
    @property
    def up_offset(self) -> float: ...


def bounds(of: Nonlinear) -> tuple[str, ...]:
    """The clamp and the offset in words."""
    clamp = () if of.clamp is None else (f"clamped at {number(of.clamp)}",)
    return (*clamp, f"up + {number(of.up_offset)}") if of.up_offset else clamp


def check_gate(of: Nonlinear) -> None:
    """Refuse what belongs to a gate or a clamp where there is none."""
    if "gate" in of.bias and not of.gated:
        raise ValueError("a bias on 'gate' needs gated = true")
    if of.up_offset and not of.gated:
        raise ValueError("up_offset belongs to a gated network: set gated = true, or use a bias on 'up'")
    if of.clamp_at != "before_activation" and of.clamp is None:
        raise ValueError(f"clamp_at = {of.clamp_at!r} says where a clamp holds, and there is none: set clamp")


def combine(of: Nonlinear, activation: Callable[[Tensor], Tensor], gate: Tensor | None, up: Tensor) -> Tensor:
    """act(gate) * (up + offset), or act(up) without a gate, inside the clamp."""
    acted = up if gate is None else gate
    if of.clamp is not None and of.clamp_at == "before_activation":
        acted = acted.clamp(max=of.clamp)
    acted = activation(acted)
    if of.clamp is not None and of.clamp_at == "after_activation":
        acted = acted.clamp(max=of.clamp)
    if gate is None:
        return acted
    up = up if of.clamp is None else up.clamp(-of.clamp, of.clamp)
    return acted * (up + of.up_offset if of.up_offset else up)


def combine_keeps(of: Nonlinear, activation: str, tape: Tape, gate: Held | None, up: Held) -> Held:
    """What `combine` keeps: the input of each clamp, what the activation keeps, both factors of a gate."""
    acted = up if gate is None else gate
    if of.clamp is not None and of.clamp_at == "before_activation":
        acted = keeps_input(tape, acted)
    acted = ACTIVATIONS[activation].keeps(tape, acted)
    if of.clamp is not None and of.clamp_at == "after_activation":
        acted = keeps_input(tape, acted)
    if gate is None:
        return acted
    up = up if of.clamp is None else keeps_input(tape, up)
    return tape.times("gated", acted, tape.like(up) if of.up_offset else up)


def gated_width(width: int, multiple: int = 256) -> int:
    """F of a gated network as large as a plain one of 4 D: 8/3 D, rounded up to a multiple (Llama: 256)."""
    return -(-(8 * width // 3) // multiple) * multiple
