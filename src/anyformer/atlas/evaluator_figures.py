"""The figures that a page prices by itself, in the places where a sheet of the explorer has them.

`exact` figures are whole numbers and their quotients. Words and times stand apart, piece by piece, since they hold under more
conditions: where one of those fails the piece is left out, None stands in its place, and the rest stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyformer.costs.counts import FlopCount
from anyformer.costs.inference import decode_state, held_state
from anyformer.costs.sheet import CostSheet
from anyformer.model import Architecture
from anyformer.operations import Flops
from anyformer.parts.call.shared import slot_bytes
from anyformer.plan import Plan

Figures = dict[str, Any]
PricedPiece = Callable[..., Figures]
"""Figures of a sheet, and of further numbers of a call where it has any."""


def sheet_of(architecture: Architecture, batch: int, length: int, source: int) -> CostSheet:
    """The sheet of a call in bf16, priced in training."""
    source = architecture.source_of(length, source)
    return CostSheet(architecture, "train", batch, length, source, 0, Plan())


def exact(sheet: CostSheet) -> Figures:
    """Parameters, FLOPs, decode state and bytes of weights."""
    prompt, params, decodes = sheet.of("prefill"), sheet.params, "decode" in sheet.modes
    state = _state(prompt) if decodes else None
    held = 0 if state is None else state["total"]
    total = max(params.total, 1)
    components = [
        {"component": name, "total": size, "active": params.active_by_component[name], "share": size / total}
        for name, size in params.by_component.items()
    ]
    embedding = sum(size for name, size in params.by_component.items() if name in ("embedding", "decoder_embedding"))
    return {
        "parameters": {
            "total": params.total, "active": params.active, "embedding": embedding, "mtp": params.mtp, "components": components,
        },
        "flops": _flops(sheet),
        "state": state,
        "weights": dict(sheet.weights),
        "inference": {name: size + held for name, size in sheet.weights.items()},
        "reading": None,
        "elementwise": {kind: flops.exact for kind, flops in prompt.elementwise.items()},
        "modes": list(sheet.modes),
    }  # fmt: skip


def _flops(sheet: CostSheet) -> Figures:
    prompt = sheet.of("prefill")
    forward, training = prompt.flops.forward, sheet.flops.total
    step = sheet.of("decode").flops.total if "decode" in sheet.modes else None
    whole = max(forward.exact, 1)
    return {
        "forward": _both(forward),
        "backward": _both(sheet.flops.backward),
        "training": _both(training),
        "executed": None,
        "decode": None if step is None else _both(step),
        "per_token": {
            "forward": forward.exact / prompt.tokens,
            "training": training.exact / sheet.tokens,
            "decode": None if step is None else step.exact / sheet.batch,
        },
        "components": [
            {"component": name, **_both(own), "share": own.exact / whole} for name, own in forward.by_component.items()
        ],
    }


def _both(flops: Flops | FlopCount) -> dict[str, int]:
    return {"dense": flops.dense, "exact": flops.exact}


def _state(sheet: CostSheet) -> Figures:
    """The numbers of `decode_state`, which also compares them to tell what grows: that is `growth`."""
    batch, length = sheet.batch, sheet.length
    now, before = (held_state(sheet.architecture, batch, at, sheet.source, sheet.plan) for at in (length, length - 1))
    memories: list[Figures] = [
        {
            "name": str(at),
            "component": at.component,
            "bytes": size,
            "per_token": (size - before.get(at, 0)) // batch,
            "grows": None,
        }
        for at, size in now.items()
    ]
    positions = slot_bytes(batch, length) if memories else 0
    total = positions + sum(memory["bytes"] for memory in memories)
    per_token = sum(memory["per_token"] for memory in memories)
    return {
        "per_token": per_token, "per_sequence": total // batch, "total": total, "positions": positions, "memories": memories,
    }  # fmt: skip


def growth(sheet: CostSheet) -> Figures:
    """What makes every memory grow."""
    if "decode" not in sheet.modes:
        return {}
    state = decode_state(
        sheet.architecture, batch=sheet.batch, context=sheet.length, source=sheet.source or None, plan=sheet.plan
    )
    return {"state": {"memories": [{"grows": memory.grows} for memory in state.memories]}}


def executed(sheet: CostSheet) -> Figures:
    """FLOPs that the kernels of a training step execute."""
    found = sheet.executed
    return {"flops": {"executed": {"forward": found.forward, "backward": found.backward, "total": found.total}}}


def reading(sheet: CostSheet) -> Figures:
    """Bytes that a decoding step reads."""
    if "decode" not in sheet.modes:
        return {}
    found = sheet.of("prefill").reading
    return {"reading": {"weights": found.weights, "state": found.state, "total": found.total}}


PIECES: Mapping[str, PricedPiece] = {"exact": exact, "growth": growth, "executed": executed, "reading": reading}
"""By name; `exact` first, without which there is no answer."""
