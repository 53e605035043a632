"""The places of a description whose numbers may change in a page, by their paths."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from anyformer.atlas.evaluator import CALL, FigureProgram, NumberInput
from anyformer.atlas.evaluator_absent import followers, written_out
from anyformer.atlas.evaluator_trace import Keys
from anyformer.describe import DescriptionError, Value, get
from anyformer.describe.path import resolve
from anyformer.model import Architecture


def places(
    architecture: Architecture, program: FigureProgram, inputs: Sequence[NumberInput], first: int = len(CALL)
) -> list[dict[str, Any]]:
    """Every place as plain data: its `paths`, what stands there `now`, the inputs (`at`) that are its numbers, their bounds;
    `optional` where it may be absent, `kinds` where the part is of another kind then: the words of that one and of this.
    No path leads to a number that such a part is without.

    `fixed`: the program holds for the number that stands there alone. `first`: how many numbers a call has.
    """
    architecture = written_out(architecture, followers(architecture))
    numbered = list(enumerate(inputs, first))
    lacking = [each.keys[:-1] for each in inputs if each.absent and each.kinds]
    fixed = _fixed(program)
    found = []
    for keys, items in groupby(numbered, key=lambda item: item[1].keys):
        at, of_place = zip(*items, strict=True)
        bounds = of_place[0].bounds
        found.append(
            {
                "paths": [] if keys[:-1] in lacking and not of_place[0].kinds else _paths(architecture, keys),
                "now": None if of_place[0].absent else _now(architecture, keys),
                "at": list(at),
                "least": bounds.least,
                "greatest": bounds.greatest,
                "step": bounds.step,
                "fixed": any(each in fixed for each in at),
                **_optional(program, at[0], of_place[0].kinds),
            }
        )
    return found


def _fixed(program: FigureProgram) -> set[int]:
    """The inputs of which there is a guard that they equal a constant."""
    nodes = program.nodes
    equal = [nodes[at] for at, holds in program.pieces[0].guards if nodes[at][0] == "==" and holds]
    pairs = [(nodes[left], nodes[right]) for _, left, right in equal]
    return {left[1] for left, right in pairs if left[0] == "take" and right[0] == "int"}


def short_path(architecture: Architecture, keys: Keys) -> str:
    """The path that a person would write, without the plumbing; the whole one where that is not clear."""
    here: Any = architecture
    words = []
    for number, key in enumerate(keys, 1):
        plumbing = isinstance(here, Value) and key in type(here).through
        if not plumbing and not (isinstance(key, int) and isinstance(here[key], Value)):
            words.append(str(key))
        here = get(architecture, ".".join(map(str, keys[:number])))
    short = ".".join(words)
    try:
        return short if tuple(resolve(architecture, short)) == keys else ".".join(map(str, keys))
    except DescriptionError:
        return ".".join(map(str, keys))


def _paths(architecture: Architecture, keys: Keys) -> list[str]:
    """The short path and the whole one."""
    return list(dict.fromkeys([short_path(architecture, keys), ".".join(map(str, keys))]))


def _optional(program: FigureProgram, at: int, kinds: tuple[str, str] | None) -> dict[str, Any]:
    """What a place says of a number that may be absent; `kinds`: of a part without it, and with it."""
    return {} if at not in program.absent else {"optional": True} if kinds is None else {"kinds": list(kinds)}


def _now(architecture: Architecture, keys: Keys) -> Any:
    found = get(architecture, ".".join(map(str, keys)))
    return list(found) if isinstance(found, tuple) else found
