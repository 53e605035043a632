"""Gate and up projections in one stored tensor or in two, and experts stacked or one by one, whatever a family writes."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

import torch
from torch import Tensor

from anyformer.huggingface.files import Stored
from anyformer.huggingface.rules import SAME, Rows, Shapes, Stacked, WeightRule

_ONE = re.compile(r"(.*\.experts)\.\d+\.(gate|up|down)_proj\.weight")
_STACKED = re.compile(r"(.*\.experts)\.(gate_up|down)_proj")
_JOINED = re.compile(r"(.*)\.gate_up_proj\.weight")


@dataclass(frozen=True)
class Fused:
    """Stacked parameters (X, F_i, D) one after the other along dim 1 of one tensor, or its transpose (X, D, sum of F_i).

    Qwen3-VL's published experts are the transpose, and transformers 5 saves the other; where both fit it is the other.
    """

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        rows = [shape[1] for shape in shapes]
        whole = stored[0] if stored[0].shape[1:] == (sum(rows), shapes[0][2]) else stored[0].mT
        return [part.contiguous() for part in torch.split(whole, rows, 1)]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [torch.cat(list(parameters), 1)]


def as_stored(of_weights: list[WeightRule], stored: Stored) -> list[WeightRule]:
    """The rules with experts in fused tensors, or experts, gates and ups by themselves, where the files have those."""
    return list(_apart(_together(of_weights, stored), stored))


def stacked(of_weights: list[WeightRule]) -> list[WeightRule]:
    """The rules with experts in fused tensors, as the modules of transformers hold them."""
    return list(_together(of_weights, _Everything()))


class _Everything:
    """A container of every name."""

    def __contains__(self, name: object) -> bool:
        return True


def _together(of_weights: list[WeightRule], stored: Container[str]) -> Iterator[WeightRule]:
    """Experts that the family stores one by one as the files stack them."""
    gates: dict[str, str] = {}
    for rule in of_weights:
        found = _ONE.fullmatch(rule.stored[0]) if isinstance(rule.op, Stacked) else None
        prefix, side = found.groups() if found else ("", "")
        if not found or f"{prefix}.gate_up_proj" not in stored:
            yield rule
        elif side == "down":
            yield WeightRule((f"{prefix}.down_proj",), rule.parameters, Fused())
        elif side == "gate":
            gates[prefix] = rule.parameters[0]
        else:
            yield WeightRule((f"{prefix}.gate_up_proj",), (gates[prefix], rule.parameters[0]), Fused())


def _apart(of_weights: Iterator[WeightRule], stored: Stored) -> Iterator[WeightRule]:
    """What the family joins, one by one where the files have it so."""
    for rule in of_weights:
        name = rule.stored[0]
        joined = _JOINED.fullmatch(name) if rule.op == Rows() and name not in stored else None
        stacked = _STACKED.fullmatch(name) if rule.op in (SAME, Rows(dim=1)) and name not in stored else None
        if joined and f"{joined[1]}.gate_proj.weight" in stored:
            for side, parameter in zip(("gate", "up"), rule.parameters, strict=True):
                yield WeightRule((f"{joined[1]}.{side}_proj.weight",), (parameter,))
        elif stacked and f"{stacked[1]}.0.down_proj.weight" in stored:
            sides = ("gate", "up") if stacked[2] == "gate_up" else ("down",)
            for side, parameter in zip(sides, rule.parameters, strict=True):
                each = (f"{stacked[1]}.{x}.{side}_proj.weight" for x in count())
                yield WeightRule(tuple(takewhile(stored.__contains__, each)), (parameter,), Stacked())
        else:
            yield rule
