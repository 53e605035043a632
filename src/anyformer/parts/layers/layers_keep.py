"""What the layers of a stack keep for backward: the sizes beside the loop of `StackModule`, repeated layers taken once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from anyformer.tape import Held, Tape

if TYPE_CHECKING:
    from anyformer.parts.layers.stack import Stack


def layers_keep(stack: Stack, tape: Tape, x: Held, beside: tuple[Held | None, ...], width: int) -> Held:
    """Layer by layer; `beside`: what each is given but x. From the third of a variant on, it keeps what the second did:
    what they share is there by then. Not of an input that is a view.
    """
    alone = _stand_alone(stack)
    recorded: dict[Hashable, Recorded] = {}
    before = Counter[str]()
    for i, (name, owner) in enumerate(zip(stack.layers, stack.owners, strict=True)):
        learning = None if tape.learning is None else tape.learning.within(f"{tape.owner}layers.{owner}.")
        kind = name, x.elements, x.number, x.learns, x in tape.kept, learning
        if kind in recorded:
            x = recorded[kind].repeat(tape, x, f"{tape.path}layers.{i}.")
            continue
        counts = len(tape.kept), len(tape.casts), len(tape.again)
        at = tape.layer(f"layers.{i}", f"layers.{owner}", name, x, *beside)
        y = stack.variants[name].keeps(at, x, width, stack.streams)
        if alone and before[name] and x.base is None and y.base is None:
            recorded[kind] = Recorded.since(tape, x, y, at.path, *counts)
        before[name] += 1
        x = y
    return x


def _stand_alone(stack: Stack) -> bool:
    """Whether layers neither read each other's keys nor have the same weights."""
    return not stack.shared_weights and not any(block.reads for block in stack.variants.values())


@dataclass(frozen=True)
class Recorded:
    """What a layer put on the tape, to put it there again for another that is like it."""

    path: str
    x: Held
    y: Held
    kept: dict[Held, str]
    casts: dict[str, Held]
    again: list[Tape]

    @staticmethod
    def since(tape: Tape, x: Held, y: Held, path: str, kept: int, casts: int, again: int) -> Recorded:
        """What came since the tape had so many of each."""
        more = dict(islice(tape.kept.items(), kept, None)), dict(islice(tape.casts.items(), casts, None))
        return Recorded(path, x, y, *more, tape.again[again:])

    def repeat(self, tape: Tape, x: Held, path: str) -> Held:
        """The same with other tensors, which are as large; gives the output."""
        new = {self.x: x}
        for held, name in self.kept.items():
            one = new.setdefault(held, Held(held.elements, held.number, held.learns))
            tape.kept.setdefault(one, path + name.removeprefix(self.path))
        for name, held in self.casts.items():
            tape.casts.setdefault(path + name.removeprefix(self.path), Held(held.elements, held.number))
        tape.entered.append((path, x))
        tape.again.extend(self.again)
        return new.get(self.y) or tape.like(self.y)
