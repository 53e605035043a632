"""Entities as spans of BIO classes: `B-PER` begins one, `I-PER` goes on with it, `O` stands outside (CoNLL 2003)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyformer.data import IGNORED

OUTSIDE = -1
Entity = tuple[int, int, int]
"""First word, last word, and type."""


def codes_of(classes: Sequence[str]) -> list[int] | None:
    """For each class 2 * type + (1 where it goes on with an entity), or OUTSIDE; None where a class has another form."""
    types: list[str] = []
    codes = []
    for name in classes:
        if name == "O":
            codes.append(OUTSIDE)
            continue
        mark, _, type = name.partition("-")
        if mark not in ("B", "I") or not type:
            return None
        if type not in types:
            types.append(type)
        codes.append(2 * types.index(type) + (mark == "I"))
    return codes if types else None


def entities(codes: Sequence[int]) -> set[Entity]:
    """The spans of a row of codes: one begins at `B`, and at an `I` that follows no entity of its type (as in conlleval)."""
    found: set[Entity] = set()
    begin, type = 0, OUTSIDE
    for place, code in enumerate([*codes, OUTSIDE]):
        goes_on = code >= 0 and code % 2 == 1 and code // 2 == type
        if not goes_on:
            if type != OUTSIDE:
                found.add((begin, place - 1, type))
            begin, type = place, OUTSIDE if code == OUTSIDE else code // 2
    return found


def entity_counts(targets_BT: Tensor, said_BT: Tensor, codes_BC: Tensor) -> dict[str, Tensor]:
    """Entities that are there, that are said, and that are both with equal ends and type; of the positions with a target.

    A class that has no code, since the head has more logits than the data classes, counts as outside.
    """
    right = real = said = 0
    for targets, chosen, codes in zip(targets_BT, said_BT, codes_BC, strict=True):
        known, here = codes.tolist(), targets != IGNORED
        true, found = (
            entities([known[number] if number < len(known) else OUTSIDE for number in row[here].tolist()])
            for row in (targets, chosen)
        )
        right, real, said = right + len(true & found), real + len(true), said + len(found)
    return {
        name: torch.tensor(count)
        for name, count in (("entities_right", right), ("entities_real", real), ("entities_said", said))
    }
