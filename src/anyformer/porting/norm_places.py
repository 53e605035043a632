"""Where the norms of a layer stand, by how many there are and how they are called."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import permutations

from anyformer.describe import get
from anyformer.model import Architecture
from anyformer.parts import Stack
from anyformer.porting.changes import Put, Wired, Wiring
from anyformer.porting.explaining import Fit, StoredLine
from anyformer.porting.hint import Hint
from anyformer.porting.looking import blocks_in, norms_of_layer
from anyformer.porting.roles import role
from anyformer.porting.some_layers import PutLayers

_SLOTS: Mapping[Wiring, tuple[str, ...]] = {
    "pre": ("{mixer}.norm_before", "{network}.norm_before"),
    "output": ("{mixer}.norm_after", "{network}.norm_after"),
    "post": ("step_0_norm_after", "step_1_norm_after"),
    "parallel_own": ("{mixer}.norm_before", "{network}.norm_before"),
    "parallel": ("step_0_norm_before",),
    "sandwich": ("{mixer}.norm_before", "{mixer}.norm_after", "{network}.norm_before", "{network}.norm_after"),
}
"""Wiring -> our names of its norms, where `{mixer}` and `{network}` stand for every branch of that kind."""
_NETWORKS = ("feedforward", "experts")
_LN = re.compile(r"(^|_)ln\d*(_|$)")
"""The usual short word for a layer norm in a name: `emb_ln`, `ln_1`."""
_BEFORE = frozenset({"before", "before_network"})
_AFTER = frozenset({"after", "after_network", "second"})


def wirings(fit: Fit) -> Iterator[Hint]:
    """Where norms stand, by how many a layer has and how they are called."""
    assert fit.architecture is not None
    ours = [line for line in fit.lines if line.stack and is_norm(line)]
    theirs = [fit.matched[line.module.name] for line in ours if line.module.name in fit.matched]
    width = (fit.architecture.width,)
    theirs += [each.name for each in fit.left if each.name.count("{i}") == 1 and each.shape == width and like_norm(each.name)]
    names = tuple(sorted(set(theirs)))
    odd = any(is_norm(line) for line in fit.missing) or any(each.name in names for each in fit.left)
    if not names or not odd:
        return
    for wiring in wirings_of(names):
        for slots in assignments(wiring, names, fit.architecture):
            yield Hint(f"norms of a layer: {wiring} ({', '.join(names)})", (Wired(wiring),), slots)


def norms_of_some(fit: Fit) -> Iterator[Hint]:
    """A norm that some layers have and others lack: the first layer without one before attention, one behind experts alone."""
    assert fit.architecture is not None
    norm = next(norms_of_layer(fit.architecture), None)
    lacking = {source: line for line in fit.missing if is_norm(line) for source in line.source}
    stacks = fit.architecture.stacks
    for each in fit.left:
        if norm is None or each.name.count("{i}") != 1 or each.shape != (fit.architecture.width,) or not like_norm(each.name):
            continue
        for name, stack in stacks.items():
            if len(stacks) > 1 and f"{name}." not in each.name:
                continue
            for slot in sorted(_free(stack, each.layers, lacking), key=lambda slot: -_stands(_plain(slot), each.name)):
                rest = tuple(sorted({*_having(stack, slot)} - each.layers))
                words = slot.replace(".", " ").replace("_", " ")
                why = f"{words} in {len(each.layers)} of {len(stack.layers)} layers: {each.name}"
                if slot in lacking and rest:
                    yield Hint(why, (PutLayers(rest, slot, None, name),), {slot: each.name})
                elif slot not in lacking and rest:
                    yield Hint(why, (PutLayers(tuple(sorted(each.layers)), slot, norm, name),), {slot: each.name})
                elif slot not in lacking:
                    yield Hint(why, (Put(slot, norm),), {slot: each.name})


def _free(stack: Stack, layers: Collection[int], lacking: Collection[str]) -> list[str]:
    """The places of norms of branches that all of these layers have, empty or without a tensor."""
    blocks = [stack.variants[stack.layers[at]] for at in layers if at < len(stack.layers)]
    branches = dict.fromkeys(name for block in blocks for name in block.branches)
    slots = [f"{name}.{place}" for name in branches for place in ("norm_before", "norm_after")]
    return [
        slot
        for slot in slots
        if set(layers) <= {*_having(stack, slot)} and (slot in lacking or all(get(block, slot) is None for block in blocks))
    ]


def _having(stack: Stack, slot: str) -> Iterator[int]:
    """The layers that have the branch of a place."""
    branch = slot.partition(".")[0]
    yield from (at for at, name in enumerate(stack.layers) if branch in stack.variants[name].branches)


def _plain(slot: str) -> str:
    """The place of a branch as `_stands` asks for it."""
    branch, _, place = slot.partition(".")
    return f"{{network}}.{place}" if branch in _NETWORKS else f"{{mixer}}.{place}"


def is_norm(line: StoredLine) -> bool:
    """Whether a line is of a norm around a branch."""
    return any(
        source.rpartition(".")[2] in ("norm_before", "norm_after") or source.startswith("step_") for source in line.source
    )


def wirings_of(names: tuple[str, ...]) -> list[Wiring]:
    """The wirings with as many norms as a layer has, the likeliest by their names first."""
    found: list[Wiring] = [wiring for wiring, slots in _SLOTS.items() if len(slots) == len(names)]
    after = all(role(name) & _AFTER and not role(name) & _BEFORE for name in names)
    return sorted(found, key=lambda wiring: (wiring not in ("output", "post")) if after else (wiring in ("output", "post")))


def assignments(wiring: Wiring, names: tuple[str, ...], architecture: Architecture, most: int = 1) -> list[dict[str, str]]:
    """Which norm of the files stands where, the likeliest first."""
    branches = dict.fromkeys(name for block in blocks_in(architecture) for name in block.branches)
    networks = [name for name in branches if name in _NETWORKS] or ["feedforward"]
    mixers = [name for name in branches if name not in _NETWORKS] or ["attention"]
    slots = _SLOTS[wiring]
    ranked = sorted(permutations(names), key=lambda order: -sum(_stands(s, n) for s, n in zip(slots, order, strict=True)))

    def whole(order: tuple[str, ...]) -> dict[str, str]:
        """One norm of the files stands before the mixer of every layer, whichever it is."""
        found = dict[str, str]()
        for slot, name in zip(slots, order, strict=True):
            kinds = networks if "{network}" in slot else mixers if "{mixer}" in slot else [""]
            found |= {slot.format(network=kind, mixer=kind): name for kind in kinds}
        return found

    return [whole(order) for order in ranked[:most]]


def _stands(slot: str, name: str) -> float:
    """How well a name says that a norm stands in a place."""
    said = role(name)
    first = slot.startswith(("{mixer}", "step_0"))
    wanted = ("before" if first else "before_network") if "before" in slot else ("after" if first else "after_network")
    if wanted in said:
        return 3.0
    if "second" in said:
        return {"after": 2.0, "before_network": 1.5}.get(wanted, 0.0)
    if (wanted in ("before", "after") and "attention" in said) or (wanted.endswith("network") and said & {"network", "final"}):
        return 1.0
    return 0.0


def like_norm(name: str) -> bool:
    """Whether a tensor of the width of the stream is called like a norm."""
    words = role(name)
    return (
        bool(words & {"norm", "before", "after", "before_network", "after_network", "second", "final"})
        or "norm" in name.lower()
        or _LN.search(name.rpartition(".")[2].lower()) is not None
    )
