"""Experts whose gate and up projections are one stored tensor, in files of families that store them one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.huggingface.files import Stored
from anyformer.huggingface.rules import Rule, Shapes, Stacked

_ONE = re.compile(r"(.*\.experts)\.\d+\.(gate|up|down)_proj\.weight")


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


def as_stored(of_weights: list[Rule], stored: Stored) -> list[Rule]:
    """The rules with experts in fused tensors where the files have those."""
    made: list[Rule] = []
    gates: dict[str, str] = {}
    for rule in of_weights:
        found = _ONE.fullmatch(rule.stored[0]) if isinstance(rule.op, Stacked) else None
        prefix, side = found.groups() if found else ("", "")
        if not found or f"{prefix}.gate_up_proj" not in stored:
            made.append(rule)
        elif side == "down":
            made.append(Rule((f"{prefix}.down_proj",), rule.parameters, Fused()))
        elif side == "gate":
            gates[prefix] = rule.parameters[0]
        else:
            made.append(Rule((f"{prefix}.gate_up_proj",), (gates[prefix], rule.parameters[0]), Fused()))
    return made
