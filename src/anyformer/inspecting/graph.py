"""The model as a graph: every sublayer, or input of a head, reads the sum of what those before it add to the stream."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass

from torch import Tensor

from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.places import StreamWriter, writers
from anyformer.inspecting.sweep import kept_values
from anyformer.model.transformer import Transformer

INPUT, OUTPUT = "input", "output"
"""What enters the first layer, and what the final norm and the head read."""
SAME = 1e-5
"""How far heads may be from those of the same queries, keys and values, likewise."""
SIDES = ("query", "key", "value")
"""The inputs of an attention head, by the names of the values that are made of them."""


@dataclass(frozen=True)
class Edge:
    """What a sender adds to the stream as a receiver reads it; `place`: of the receiver in the order of computation.

    `into`: the input of the receiver, a head's `query`, `key` or `value`; "" of a receiver that has one.
    """

    sender: str
    receiver: str
    place: int
    into: str = ""

    @property
    def to(self) -> str:
        """The receiver with its input, in words."""
        return f"{self.receiver} {self.into}".rstrip()


@dataclass(frozen=True)
class GraphNode:
    """A sublayer, or a head of it; `place`: of its step in the order of computation; `inputs`: what of it reads the stream."""

    name: str
    writer: StreamWriter
    head: int | None
    place: int
    inputs: tuple[str, ...]


def nodes_of(model: Transformer, *, by_head: bool, split: Collection[str] = ()) -> tuple[GraphNode, ...]:
    """The sublayers of the stack that the head reads, or their heads, in the order of computation; heads of the attentions of
    these paths have inputs of their own for query, key and value."""
    found, steps, watchable = [], dict[tuple[int, int], int](), model.watchable()
    for writer in writers(model):
        place = steps.setdefault((writer.layer, writer.number), len(steps))
        apart, hears = f"{writer.path}.head_outputs" in watchable, f"{writer.path}.input" in watchable
        heads = range(writer.heads) if by_head and apart else (None,)
        names = [writer.path if head is None else f"{writer.path} {head}" for head in heads]
        inputs = SIDES if by_head and writer.path in split else ("",)
        found += [
            GraphNode(name, writer, head, place, inputs if hears else ()) for name, head in zip(names, heads, strict=True)
        ]
    return tuple(found)


def made_of_sides(model: Transformer, clean: CallInputs, corrupted: CallInputs) -> frozenset[str]:
    """The paths of the attentions whose heads are made of queries, keys and values alone: with these of the corrupted prompt,
    what the heads of the clean one give is that of the corrupted one too. A gate that reads the stream is a fourth input."""
    watchable = model.watchable()
    found = {
        each.path: [f"{each.path}.{side}" for side in SIDES]
        for each in writers(model)
        if {f"{each.path}.{name}" for name in (*SIDES, "input", "head_outputs")} <= watchable.keys()
    }
    sides, heads = [path for each in found.values() for path in each], [f"{path}.heads" for path in found]
    values, _ = kept_values(model, corrupted, [*sides, *heads])
    with ExitStack() as stack:
        for path in sides:
            stack.enter_context(model.patch(path, values[path]))
        again, _ = kept_values(model, clean, heads)
    return frozenset(path for path in found if _near(again[f"{path}.heads"], values[f"{path}.heads"]))


def _near(value: Tensor, other: Tensor) -> bool:
    return float((value - other).abs().max()) <= SAME * float(other.abs().max())
