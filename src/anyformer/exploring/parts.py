"""Every part of an architecture as a page opens it: what it is, what it costs, its formulas with numbers, and its fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyformer.costs.explain import FormulaLine, explained
from anyformer.costs.inference import stored
from anyformer.costs.sheet import CostSheet
from anyformer.describe import Named, Value, brief
from anyformer.describe.value import as_data
from anyformer.exploring.classes import class_facts, slot_of, word_of
from anyformer.exploring.forms import inline
from anyformer.exploring.tree import TreeField, TreePart, tree
from anyformer.model import Architecture
from anyformer.operations import Flops, Node
from anyformer.parts.layers.order import LayerOrder
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sketch import Drawn, Sketch
from anyformer.quantising import FORMATS

BRIEF = 80
"""Letters of a description in short, above which its parts say what it is."""
WORDS = re.compile(r"ALiBi|YaRN|LongRoPE|LoRA|RMSNorm|ReLU|TopK|[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[^A-Z]+")
"""The words of a class's name; names of the field in large and small letters are one."""
LATER = "mtp"
"""The part that training alone has: it is counted beside the model."""


@dataclass
class PartCosts:
    """What a part costs with all that is in it, over all its layers."""

    parameters: int = 0
    active: int = 0
    flops: Flops = field(default_factory=Flops)
    weight_bytes: int = 0
    state_bytes: int = 0
    layers: int = 1


def parts_data(sheet: CostSheet) -> dict[str, Any]:
    """`parts`: every part, those that hold others first; `classes`: what their classes say, by name."""
    architecture, prompt = sheet.architecture, sheet.of("prefill")
    found = tree(architecture)
    costs, widths = _costs(found, prompt), _widths(found, architecture)
    lines = _lines(found, explained(architecture, prompt.shape, prompt.plan, training=True).lines)
    total, flops = max(sheet.params.total, 1), max(prompt.flops.forward.exact, 1)
    classes = dict.fromkeys(type(each) for part in found for each in (part.value, *(own.owner for own in part.fields)))
    parts = []
    for part in found:
        own, kind = costs[part.path], type(part.value)
        sketch = _sketch(part, widths)
        parts.append(
            {
                "path": part.path, "parent": part.parent, "depth": part.depth, "class": kind.__name__, "kind": word_of(kind),
                "slot": _slot(part), "title": sketch.title, "facts": list(sketch.facts), "layers": own.layers,
                "parameters": own.parameters, "parameter_share": own.parameters / total, "active": own.active,
                "flops": {"dense": own.flops.dense, "exact": own.flops.exact}, "flop_share": own.flops.exact / flops,
                "weight_bytes": own.weight_bytes, "state_bytes": own.state_bytes,
                "formulas": [_line(line, part) for line in lines.get(part.path, ())],
                "fields": list(map(_field, part.fields)), "layered": _layered(part),
            }
        )  # fmt: skip
    return {"parts": parts, "classes": {kind.__name__: class_facts(kind) for kind in classes}}


def _slot(part: TreePart) -> str | None:
    """The name of what fits where a part stands."""
    if part.slot is None:
        return None
    slot = slot_of(*part.slot)
    return None if slot is None else slot.name


def _sketch(part: TreePart, widths: Mapping[str, int]) -> Sketch:
    """Its title and facts, as its picture has them; of what is not drawn its class in words, and what it is in short."""
    if isinstance(part.value, Drawn):
        return part.value.sketch(widths[part.path])
    first, *others = WORDS.findall(type(part.value).__name__)
    title = " ".join([first, *(word.lower() if word[1:].islower() else word for word in others)])
    text = brief(part.value)
    return Sketch(title, (text,) if len(text) <= BRIEF else ())


def _widths(found: Sequence[TreePart], architecture: Architecture) -> dict[str, int]:
    """D of the stream around every part, by its path: what holds a stack of its own gives that its width."""
    own = {
        part.path: part.value.model_dump(include={"width"})["width"]
        for part in found
        if part.path and any(_holds_a_stack(each) for each in part.fields)
    }
    tables = dict.fromkeys(("embedding", "decoder_embedding"), architecture.table_width)
    widths: dict[str, int] = {}
    for part in found:
        above = architecture.width if part.parent is None else own.get(part.parent, widths[part.parent])
        widths[part.path] = tables.get(part.path, above)
    return widths


def _holds_a_stack(own: TreeField) -> bool:
    slot = slot_of(type(own.owner), own.name)
    return slot is not None and Stack in slot.classes.values()


def _field(own: TreeField) -> dict[str, Any]:
    value, kind = own.value, type(own.owner)
    declared = kind.model_fields[own.name]
    default = not declared.is_required() and value == declared.get_default(call_default_factory=True)
    data = as_data(value)
    shown = brief(value) if isinstance(value, Value) else data
    return {
        "name": own.name, "path": own.path, "class": kind.__name__, "value": shown, "text": inline(data),
        "default": default, "part": own.part,
    }  # fmt: skip


def _layered(part: TreePart) -> dict[str, Any] | None:
    """The kinds of layers that stand in an order of a part, where one more can be added, and that order; None where none do."""
    for own in part.fields:
        kind = type(own.owner)
        if any(isinstance(each, LayerOrder) for each in kind.model_fields[own.name].metadata):
            tables = (getattr(own.owner, name) for name in kind.through)
            names = [name for table in tables if isinstance(table, Named) for name in table]
            return {"order": own.path, "value": own.value, "names": names}
    return None


def _line(line: FormulaLine, part: TreePart) -> dict[str, Any]:
    return {
        "of": line.of, "name": line.where.removeprefix(part.address).lstrip("."), "formula": line.formula,
        "numbers": line.numbers, "value": line.each, "exact": line.exact, "layers": line.layers, "allowed": line.allowed,
    }  # fmt: skip


def _costs(found: Sequence[TreePart], prompt: CostSheet) -> dict[str, PartCosts]:
    """The costs of every part by its path."""
    parents, places = {part.path: part.parent for part in found}, PartPlaces(found)
    costs = {path: PartCosts() for path in parents}
    form = FORMATS["fp32" if prompt.plan.number == "fp32" else "bf16"]
    for node in _nodes(prompt):
        address = str(node.address)
        if (own := places.exactly(address)) is not None:
            costs[own].layers = node.times
        for name, weight in node.tally.own_weights.items() if node.weight_times else ():
            copies = weight * node.weight_times
            size = stored({node.name(name): copies}, form)
            for holder in _up(places.holder(f"{address}.{name}"), parents):
                costs[holder].parameters += copies.count
                costs[holder].active += copies.active
                costs[holder].weight_bytes += size
        for name, work in node.tally.own_work.items():
            for holder in _up(places.holder(f"{address}.{name}"), parents):
                costs[holder].flops += work.flops * node.times
    if prompt.architecture.decoder is not None:
        for memory in prompt.state.memories:
            for holder in _up(places.holder(memory.name), parents):
                costs[holder].state_bytes += memory.bytes
    for path, parent in parents.items():
        if parent is not None and costs[path].layers == 1:
            costs[path].layers = costs[parent].layers
    return costs


def _nodes(prompt: CostSheet) -> Iterator[Node]:
    """Every node of the model, and those of what training alone has."""
    yield from prompt.architecture.folded_cost(prompt.shape, prompt.plan).nodes()
    if prompt.architecture.mtp is not None:
        trained = prompt.architecture.folded_trained_cost(prompt.shape, prompt.plan).nodes()
        yield from (node for node in trained if node.address.module == LATER)


def _lines(found: Sequence[TreePart], lines: Iterable[FormulaLine]) -> dict[str, list[FormulaLine]]:
    """The formulas of every part's own work and weights."""
    places, of_part = PartPlaces(found), dict[str, list[FormulaLine]]()
    for line in lines:
        of_part.setdefault(places.holder(line.where, line.of), []).append(line)
    return of_part


def _up(path: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    """A part and all that hold it; what training alone has is beside the whole."""
    here: str | None = path
    while here is not None:
        yield here
        here = None if here == LATER else parents[here]


class PartPlaces:
    """Where declarations belong: parts by address. Parts that share one, as norms of the steps of a block, take turns: what is
    declared of each comes in their order."""

    def __init__(self, found: Iterable[TreePart]) -> None:
        self._paths: dict[str, list[str]] = {}
        for part in found:
            self._paths.setdefault(part.address, []).append(part.path)
        self._asked: Counter[tuple[str, ...]] = Counter()

    def exactly(self, address: str) -> str | None:
        """The only part of an address; None where there is none, or several."""
        (path, *others) = self._paths.get(address, [None])
        return None if others else path

    def holder(self, name: str, *of: str) -> str:
        """The part to which a declaration belongs: the longest address that begins its name."""
        words = name.split(".")
        addresses = (".".join(words[:end]) for end in range(len(words), 0, -1))
        paths = next((self._paths[address] for address in addresses if address in self._paths), [""])
        if len(paths) == 1:
            return paths[0]
        self._asked[name, *of] += 1
        return paths[(self._asked[name, *of] - 1) % len(paths)]
