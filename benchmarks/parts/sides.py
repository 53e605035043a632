"""Two modules with equal weights and one input: how contenders are made."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import torch
from benchmarks.parts.race import Answer, Comparison, Contender
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

Read = Callable[[str], Tensor]
"""Name of a parameter -> the parameter, or its gradient."""
Weights = Callable[[Read], Mapping[str, Tensor]]
"""Ours by name, as views of what the other's names hold."""

OURS = "anyformer"


class Alone(nn.Module):
    """A part by itself: (B, T, D) -> (B, T, D), at positions 0, 1, ...; what may be `padded` takes no short cut by position."""

    def __init__(self, part: Sublayer, width: int, plan: Plan | None = None, *, padded: bool = False) -> None:
        super().__init__()
        self.plan, self.padded = plan or Plan(), padded
        self.part = part.build(width, self.plan, "part")

    def forward(self, x_BTD: Tensor) -> Tensor:
        positions = torch.arange(x_BTD.shape[1])[None]
        return self.part(x_BTD, Context(positions, self.plan, padded=self.padded))  # type: ignore[no-any-return]


class Projected(nn.Module):
    """Another's attention between projections named as ours: `core` takes and gives (B, T, H, E)."""

    def __init__(self, core: Callable[[Tensor, Tensor, Tensor], Tensor], width: int, heads: int) -> None:
        super().__init__()
        self.core, self.heads = core, heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x_BTD: Tensor) -> Tensor:
        q, k, v = (torch.unflatten(of(x_BTD), -1, (self.heads, -1)) for of in (self.query, self.key, self.value))
        return self.output(self.core(q, k, v).flatten(2))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Side:
    """`module` holds the weights and `call`, or the module itself, computes; without `weights` it has our names."""

    name: str
    module: nn.Module
    weights: Weights | None = None
    call: Callable[[Tensor], Tensor] | None = None
    kind: Literal["ours", "twin", "peer"] = "peer"

    def read(self, read: Read) -> Mapping[str, Tensor]:
        if self.weights is not None:
            return self.weights(read)
        return {name: read(name) for name, parameter in learned(self.module)}


def ours(module: Alone) -> Side:
    return Side(OURS, module.part, call=module, kind="ours")


def twin(module: Alone, name: str) -> Side:
    return Side(name, module.part, call=module, kind="twin")


def learned(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]


def equalise(side: Side, others: Sequence[Side]) -> None:
    """Weights of which every one leaves a trace, the same on all sides."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, parameter in learned(side.module):
            if parameter.dim() > 1:
                parameter.normal_(std=parameter.shape[-1] ** -0.5, generator=generator)
            else:
                parameter.uniform_(0.5, 1.5, generator=generator)
        values = side.read(side.module.get_parameter)
        for other in others:
            for name, view in other.read(other.module.get_parameter).items():
                view.copy_(values[name].view_as(view))


def sides(
    shape: str,
    us: Side,
    others: Sequence[Side],
    x: Tensor,
    *,
    train: bool = True,
    compiled: bool = False,
    missing: Mapping[str, str] | None = None,
) -> Comparison:
    """Equal weights, then forward and backward (`train`) or forward alone of each side on x."""
    equalise(us, others)
    prepare = _trained if train else _inferred
    first, *rest = (Contender(side.name, prepare(side, x, compiled), side.kind) for side in (us, *others))
    work = f"{shape}, {'forward and backward' if train else 'forward'}{', compiled' if compiled else ''}"
    return Comparison(work, first, rest, missing or {})


def _call(side: Side, compiled: bool) -> Callable[[Tensor], Tensor]:
    call = side.call or side.module
    return torch.compile(call, dynamic=False) if compiled else call


def _trained(side: Side, x: Tensor, compiled: bool) -> Callable[[], Answer]:
    """Output and gradients, those of the weights by our names."""
    names, parameters = zip(*learned(side.module), strict=True)
    call, x = _call(side, compiled), x.detach().clone().requires_grad_()
    towards = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))

    def work() -> Answer:
        y = call(x)
        into_x, *into = torch.autograd.grad(y, (x, *parameters), towards)
        gradients = dict(zip(names, into, strict=True))
        return {"output": y.detach(), "input": into_x, **side.read(gradients.__getitem__)}

    return work


def _inferred(side: Side, x: Tensor, compiled: bool) -> Callable[[], Answer]:
    call = _call(side, compiled)

    def work() -> Answer:
        with torch.no_grad():
            return {"output": call(x)}

    return work


def features(batch: int, length: int, width: int) -> Tensor:
    """(B, T, D)."""
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(1))


def fla(operation: str) -> ModuleType | None:
    """flash-linear-attention's reference of an operation in plain torch; None where the package is not installed.

    Read as a file: importing the package asks for Triton, which its references do not use.
    """
    package = importlib.util.find_spec("fla")
    if package is None or not package.submodule_search_locations or importlib.util.find_spec("einops") is None:
        return None
    path = Path(package.submodule_search_locations[0]) / "ops" / operation / "naive.py"
    spec = importlib.util.spec_from_file_location(f"fla_naive_{operation}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NO_FLA = {"flash-linear-attention": "not installed: pip install --no-deps -r benchmarks/peers/requirements-parts.txt"}
