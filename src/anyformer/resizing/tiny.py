"""Any architecture at a few thousand parameters with every mechanism kept, so that it can be tried before it is paid for.

One rule for all, on the plain data of the description: sizes are cut to a limit by the name of their field, sizes that depend
on one another are fitted again, and each kind of layer occurs once, in the order of first occurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from anyformer.model import Architecture
from anyformer.parts.layers.order import parse_order, write_order
from anyformer.parts.layers.streams import Streams

LIMITS = {
    "width": 16,
    "source_width": 16,
    "vocab": 288,
    "outputs": 12,
    "features": 6,
    "length": 64,
    "heads": 4,
    "kv_heads": 4,
    "embedding_width": 8,
    "head_width": 8,
    "hidden": 16,
    "latent": 8,
    "between": 16,
    "key_width": 8,
    "state_width": 8,
    "channels": 24,
    "classes": 12,
    "columns": 8,
    "step_rank": 2,
    "decay_rank": 4,
    "rate_rank": 4,
    "gate_rank": 4,
    "value_width": 8,
    "q_rank": 8,
    "kv_rank": 8,
    "nope_width": 4,
    "rope_width": 4,
    "rank": 4,
    "experts": 8,
    "identity_experts": 4,
    "chosen": 2,
    "count": 4,
    "keep": 2,
    "frequencies": 16,
    "groups": 2,
    "size": 6,
    "sound": 128,
    "window": 6,
    "after": 2,
    "summary": 2,
    "block": 4,
    "stride": 4,
    "buckets": 8,
    "max_distance": 16,
    "span": 8,
    "trained": 16,
    "points": 4,
    "rows": 32,
    "multiple": 8,
    "passed_over": 287,
    "before": 287,
    "ends": 287,
}
"""Field -> its largest value. The vocabulary holds every byte; windows and trained lengths are shorter than the texts that a
tiny model is tried on."""
INPUTS = 24
"""Features of the inputs of all layers, of which a table holds as many for every token."""
POWERS_OF_TWO = ("heads", "experts", "count", "groups")
"""Fields that must divide other sizes or be divided by them."""


def tiny(architecture: Architecture) -> Architecture:
    """The architecture with small sizes and one layer of each kind, or two of an only kind."""
    width = _limited("width", architecture.width)
    small = _shrunk(architecture.plain(), width)
    _fit_table(small, width)
    if architecture.embedding.sound is not None:
        _fit_symbols(small.get("head") or {})
    if small.get("images") is not None:
        _fit_images(small["images"], len(parse_order(small["decoder"]["order"])))
    return Architecture.parse(small, where="the tiny variant")


def _shrunk(node: Any, width: int) -> Any:
    """A copy of plain data with small sizes."""
    if isinstance(node, list):
        return [_shrunk(item, width) for item in node]
    if not isinstance(node, dict):
        return node
    small: dict[str, Any] = {}
    for name, value in node.items():
        small[name] = _limited(name, value) if type(value) is int else _shrunk(value, width)
    if type(node.get("outputs")) is int and node.get("pool") is None:
        small["outputs"] = _limited("vocab", node["outputs"])  # of every position: tokens, of which the text has them all
    if "heads" in small:
        _fit_heads(small, node)
    if rotary := small.get("rotary") or ("heads" in small and small.get("place", {}).get("rotary")):
        features = small.get("rope_width") or small.get("head_width") or ("heads" in small and width // small["heads"])
        if features:  # else it stands in a slot of the attention around
            _fit_rotary(rotary, features)
    if "order" in small:
        _fit_layers(small)
    return small


def _limited(name: str, value: int) -> int:
    small = min(value, LIMITS.get(name, value))
    return 1 << (small.bit_length() - 1) if name in POWERS_OF_TWO and small > 0 else small


def _fit_table(small: dict[str, Any], width: int) -> None:
    """A narrow table stays narrower than the stream, and the head has the features that it lacks."""
    narrow = small["embedding"].get("narrow")
    if narrow is None:
        return
    narrow["width"] = min(narrow["width"], max(1, width // 2))
    if "own" in small.get("head", {}):
        small["head"]["own"] = width - narrow["width"]


def _fit_symbols(head: dict[str, Any]) -> None:
    """A head that tells the symbols of speech tells every byte and a blank."""
    if type(head.get("outputs")) is int and head.get("pool") is None:
        head["outputs"] = LIMITS["vocab"]


def _fit_images(tower: dict[str, Any], depth: int) -> None:
    """A tower of images of 2 x 2 squares of patches, beside a text of `depth` layers."""
    patch, square = 2, min(tower["projector"].get("side", 1), 2)
    per_side = 2 * square
    tower["patches"]["size"], tower["image"] = patch, patch * per_side
    for projector in (tower["projector"], tower.get("deep", {}).get("projector", {})):
        projector |= {"side": square} if "side" in projector else {}
    if tower["stack"].get("position") is not None:
        tower["stack"]["position"]["length"] = tower["patches"]["class_tokens"] + per_side**2
    if tower.get("position") is not None:
        tower["position"]["side"] = 3
    if tower.get("window") is not None:
        tower["window"] = square
        for mask in _of_kind("chunk", tower["stack"]):
            mask["size"] = square**2
    layers = len(parse_order(tower["stack"]["order"]))
    if tower.get("deep") is not None:
        tower["deep"]["layers"] = list(range(min(len(tower["deep"]["layers"]), layers, depth)))
    if tower.get("joined"):
        tower["joined"] = [*range(min(len(tower["joined"]) - 1, layers - 1)), layers - 1]


def _fit_heads(small: dict[str, Any], node: dict[str, Any]) -> None:
    """Heads of keys and values stay fewer than query heads if they were, heads of values stay more."""
    if "kv_heads" in node:
        shared = 1 if node["kv_heads"] == 1 else small["heads"] // 2
        small["kv_heads"] = small["heads"] if node["kv_heads"] == node["heads"] else max(1, shared)
    if "value_heads" in node:
        small["value_heads"] = small["heads"] * (2 if node["value_heads"] > node["heads"] else 1)


def _fit_rotary(rotary: dict[str, Any], head_width: int) -> None:
    """A rotated part of each head stays a part, in whole pairs, each with its factor; axes keep about their shares."""
    rotated = head_width
    if rotary["fraction"] < 1:
        rotated = min(max(2, int(head_width * rotary["fraction"]) // 2 * 2), head_width - 2)
        rotary["fraction"] = rotated / head_width
    if sections := rotary.get("axes", {}).get("sizes"):
        share = rotated // 2 // len(sections)
        rotary["axes"]["sizes"] = [rotated // 2 - share * (len(sections) - 1), *[share] * (len(sections) - 1)]
    for name in ("short", "long"):
        factors = rotary.get("scaling", {}).get(name)
        if factors:
            pairs = rotated // 2
            rotary["scaling"][name] = [factors[i * len(factors) // pairs] for i in range(pairs)]


def _fit_layers(stack: dict[str, Any]) -> None:
    """Leave each kind of layer once. Variants that differ in numbers alone are one kind, unless a field names them."""
    variants: dict[str, Any] = stack["variants"]
    order = parse_order(stack["order"])
    behind = _always_behind(order)
    read = _values_of("variant", variants)
    kind_of, group_of, firsts = dict[str, str](), dict[str, str](), dict[tuple[str, str], str]()
    for name in dict.fromkeys(order):
        alike = str(_without_numbers(variants[name]))
        if name in stack.get("shared_weights", ()):
            # Layers that always stand behind one another are passed as a whole: of those alike, the first stands for all.
            group_of[name] = group_of.get(behind.get(name, ""), name)
            kind_of[name] = name if name in read else firsts.setdefault((group_of[name], alike), name)
        else:
            kind_of[name] = name if name in read else alike
    kinds: dict[str, str] = {}
    for name, kind in kind_of.items():
        kinds.setdefault(kind, name)
    first = list(kinds.values())
    stack["variants"] = {name: variants[name] for name in first}
    layers: Sequence[str] = first if len(first) > 1 else first * 2
    if stack.get("layer_inputs") is not None:
        _fit_inputs(stack, max(1, INPUTS // len(layers)))
    shared = [name for name in stack.get("shared_weights", ()) if name in first]
    stack |= {"shared_weights": shared} if shared else {}
    if stack.get("streams") is not None:
        steps = len(variants[layers[0]]["steps"])
        streams, layers = Streams.parse(stack["streams"]).fitting(layers, shared, steps)
        stack["streams"] = streams.plain()
    stack["order"] = write_order(layers)
    for name in shared:
        _set("layers", layers.count(name), variants[name])


def _always_behind(order: Sequence[str]) -> dict[str, str]:
    """Names that always stand behind the same other one, and which one that is."""
    before: dict[str, set[str]] = {}
    for first, name in pairwise(("", *order)):
        before.setdefault(name, set()).add(first)
    return {name: one for name, (one, *more) in before.items() if one not in ("", name) and not more}


def _fit_inputs(stack: dict[str, Any], width: int) -> None:
    """Give inputs of layers so many features, in the stack's table and in the sublayers that read them."""
    inputs = [stack["layer_inputs"], *_of_kind("layer_input", stack["variants"])]
    for each in inputs:
        each["width"] = min(each["width"], width)


def _of_kind(kind: str, node: Any) -> list[dict[str, Any]]:
    """The tables of a kind, at any depth of the data."""
    if isinstance(node, list):
        return [table for item in node for table in _of_kind(kind, item)]
    if not isinstance(node, dict):
        return []
    return [node] if node.get("kind") == kind else [table for item in node.values() for table in _of_kind(kind, item)]


def _without_numbers(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _without_numbers(value) for name, value in node.items()}
    if isinstance(node, list):
        return [_without_numbers(item) for item in node]
    return None if isinstance(node, int | float) and not isinstance(node, bool) else node


def _set(field: str, value: int, node: Any) -> None:
    """Give a field a value wherever the data have it: the number of layers that share weights."""
    if isinstance(node, list):
        for item in node:
            _set(field, value, item)
    if isinstance(node, dict):
        for name in node:
            node[name] = value if name == field else node[name]
            _set(field, value, node[name])


def _values_of(field: str, node: Any) -> set[str]:
    """Every value of a field, at any depth of the data."""
    if isinstance(node, list):
        return {value for item in node for value in _values_of(field, item)}
    if not isinstance(node, dict):
        return set()
    here = {node[field]} if field in node else set()
    return here | {value for item in node.values() for value in _values_of(field, item)}
