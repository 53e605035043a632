"""What attention of version 1 of descriptions becomes: a field per option, in the slot where it stands now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOVED: Mapping[str, tuple[str, ...]] = {
    **{name: ("project", name) for name in ("bias", "grouped", "values")},
    **{
        name: ("project", "adjust", name)
        for name in (
            "clip", "joined", "lora", "qk_norm", "value_embedding", "value_norm", "value_residual", "value_scale",
        )
    },
    **{name: ("place", name) for name in ("rotary", "temperature")},
    **{name: ("score", name) for name in ("scale", "softcap", "choice")},
    **{name: ("score", "terms", name) for name in ("score_bias", "forget")},
    "weights": ("weigh",),
    **{name: ("weigh", name) for name in ("sink", "dropout")},
    **{name: ("combine", name) for name in ("convolution", "exclusive", "gate", "sub_norm", "value_convolution")},
    **{name: ("memory", name) for name in ("keys_from", "virtual_tokens")},
}  # fmt: skip
"""Field of an attention over heads -> where it stands now."""
NOTHING: Mapping[str, Any] = {"values": "own", "value_scale": 1.0, "dropout": 0.0}
"""Fields that were always written -> the value that meant nothing."""
KINDS = ("attention", "cross_attention", "differential_attention", "block_sparse_attention")
DIFFERENCE = ("lambda_init", "head_norm")
RENAMED = re.compile(r"(?<![A-Za-z])attention\.weights\b(?=[.=])")
"""The one path that a slot has not kept: others skip it."""


def in_slots(table: dict[str, Any]) -> dict[str, Any]:
    """A table of an attention with its options in their slots, one that holds an attention without a kind, or changes by their
    paths; any other table as it is."""
    kind, inner, changes = table.get("kind"), table.get("attention"), table.get("set")
    if isinstance(inner, dict) and "kind" not in inner and "heads" in inner:
        slots = {name: item for name, item in in_slots({"kind": "attention", **inner}).items() if name != "kind"}
        return {**table, "attention": slots}
    if isinstance(changes, list):
        return {**table, "set": [RENAMED.sub("attention.weigh", each) if isinstance(each, str) else each for each in changes]}
    if kind not in KINDS or not (kind not in ("attention", "cross_attention") or MOVED.keys() & table.keys()):
        return table
    if kind == "block_sparse_attention" and "choice" not in table:
        return table  # which is refused, as it was
    own = DIFFERENCE if kind == "differential_attention" else ()
    new = {name: item for name, item in table.items() if name not in MOVED and name not in own}
    new["kind"] = kind if kind == "cross_attention" else "attention"
    for name, path in MOVED.items():
        if name in table and NOTHING.get(name, ...) != table[name] and not _put(new, path, table[name]):
            return table  # says a thing twice, in the form of before and in that of today: refused for the former
    if isinstance(choice := new.get("score", {}).get("choice"), dict):
        choice.setdefault("kind", "block_indexer")
    weigh = new.get("weigh")
    if isinstance(weigh, dict):
        weigh.setdefault("kind", "softmax")
    if kind == "differential_attention":
        maps = {"maps": weigh} if weigh else {}
        new["weigh"] = {"kind": "differential", **maps, **{name: table[name] for name in DIFFERENCE if name in table}}
    return new


def _put(table: dict[str, Any], path: tuple[str, ...], item: Any) -> bool:
    """Put the item at a path of nested tables, beside what stands there; False where its place is taken."""
    *above, last = path
    for name in above:
        held = table.get(name) or {}
        table[name] = dict(held) if isinstance(held, dict) else {"kind": held}
        table = table[name]
    if last in table and not (isinstance(table[last], dict) and isinstance(item, dict)):
        return False
    table[last] = {**table[last], **item} if last in table else item
    return True
