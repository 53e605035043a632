"""What shapes and names force: changes to a nearest family's description until every tensor has a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

from anyformer.huggingface.rules import GroupedRows, Rows, Stacked, To, Transposed
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, LearnedPosition, RMSNorm, ScoreCorrectionBias
from anyformer.parts.norms.norm import Norm
from anyformer.porting.changes import (
    ArchitectureChange,
    Biased,
    Gated,
    HeadsNormed,
    Normed,
    Put,
    Wired,
    Wiring,
    norms_in,
)
from anyformer.porting.derivation import Derivation
from anyformer.porting.explaining import Fit, Line, explained, named
from anyformer.porting.roles import likeness, role
from anyformer.porting.tensors import FileModule

Lines = Mapping[str | tuple[str, ...], str | To]
QKV = ("attention.query", "attention.key", "attention.value")
_SLOTS: Mapping[Wiring, tuple[str, ...]] = {
    "pre": ("attention.norm_before", "{network}.norm_before"),
    "output": ("attention.norm_after", "{network}.norm_after"),
    "post": ("step_0_norm_after", "step_1_norm_after"),
    "parallel_own": ("attention.norm_before", "{network}.norm_before"),
    "parallel": ("step_0_norm_before",),
    "sandwich": ("attention.norm_before", "attention.norm_after", "{network}.norm_before", "{network}.norm_after"),
}
"""Wiring -> our names of its norms."""
_BEFORE = frozenset({"before", "before_network"})
_AFTER = frozenset({"after", "after_network", "second"})


@dataclass(frozen=True)
class Step:
    """One thing that the files show: the change, the lines of names that it needs, and why, in words."""

    why: str
    changes: tuple[ArchitectureChange, ...] = ()
    more: Mapping[Any, str | To] | None = None
    ignored: tuple[str, ...] = ()
    absent: Mapping[str, Any] = field(default_factory=dict)
    """Values of keys that the base reads and the files lack."""

    def applied(self, derivation: Derivation) -> Derivation:
        return replace(
            derivation,
            changes=(*derivation.changes, *self.changes),
            more={**derivation.more, **(self.more or {})},
            ignored=(*derivation.ignored, *self.ignored),
            absent={**derivation.absent, **self.absent},
        )


def settled(fit: Fit, table: Mapping[str, Any], modules: Mapping[str, FileModule], most: int = 10) -> tuple[Fit, list[str]]:
    """The fit after the changes by which more tensors have a place, and the reason of every change."""
    reasons: list[str] = []
    for _ in range(most):
        if fit.whole or fit.architecture is None:
            break
        tried = [(step, explained(step.applied(fit.derivation), table, modules)) for step in steps(fit, modules)]
        better = [(step, made) for step, made in tried if made.architecture and made.unexplained < fit.unexplained]
        if not better:
            break
        step, fit = min(better, key=lambda pair: pair[1].unexplained)
        reasons.append(step.why)
    return explained(named(fit), table, modules), reasons


def steps(fit: Fit, modules: Mapping[str, FileModule]) -> Iterator[Step]:
    """What could give tensors without a place one, or take a place away that no tensor fills."""
    yield from _biases(fit, modules)
    yield from _norms_of_heads(fit)
    yield from _head(fit)
    yield from _gates(fit)
    yield from _sizes(fit)
    yield from _fused(fit)
    yield from _positions(fit)
    yield from _wirings(fit)
    yield from _router(fit)
    yield from _one_by_one(fit)
    yield from _outside(fit)
    yield from _sparse(fit, modules)
    yield from _left_out(fit)


def _biases(fit: Fit, modules: Mapping[str, FileModule]) -> Iterator[Step]:
    """Biases of projections and of norms, by the tensors that are there."""
    branches: dict[str, set[str]] = {}
    touched = set[str]()
    for line in fit.lines:
        theirs = modules.get(fit.matched.get(line.module.name, ""))
        if theirs is None:
            continue
        has = "bias" in theirs.leaves
        odd = "bias" in fit.odd.get(line.module.name, ())
        for source in line.source:
            branch, _, projection = source.rpartition(".")
            if "norm" in source:
                if odd:
                    touched.add("norms" if has else "no norms")
            elif source == "head":
                if odd:
                    yield Step(f"the head has {'a' if has else 'no'} bias", (Put("head.bias", has),))
            elif branch:
                branches.setdefault(branch, set())
                if has:
                    branches[branch].add(projection)
                if odd:
                    touched.add(branch)
    for branch in sorted(touched & branches.keys()):
        order = {name: at for at, name in enumerate(("query", "key", "value", "output", "gate", "up", "down"))}
        named = tuple(sorted(branches[branch], key=lambda name: order.get(name, 9)))
        yield Step(f"biases of {branch}: {', '.join(named) or 'none'}", (Biased(branch, named),))
    if "norms" in touched:
        yield Step("norms have a bias: LayerNorm", (Normed("layer_norm", bias=True),))
    if "no norms" in touched:
        yield Step("norms have no bias: RMSNorm", (Normed("rms_norm"),))
        yield Step("norms have no bias: LayerNorm without one", (Normed("layer_norm"),))


def _norms_of_heads(fit: Fit) -> Iterator[Step]:
    """Norms of queries and keys, by their shape."""
    if any("attention.query_norm" in line.source for line in fit.missing):
        yield Step("no norms of queries and keys", (HeadsNormed(None),))
    found = {side: [each for each in fit.left if side in role(each.name)] for side in ("query_norm", "key_norm")}
    heads = next(heads_in(fit.architecture), None)
    if heads is None or not all(len(each) == 1 for each in found.values()):
        return
    (query,), (key,) = found["query_norm"], found["key_norm"]
    more = {"attention.query_norm": query.name, "attention.key_norm": key.name}
    assert fit.architecture is not None
    width = heads.width_of_head(fit.architecture.width)
    shape = query.shape or (width,)
    kinds = ["head"] if shape == (width,) else ["projection", "each_head"]
    for over in kinds:
        yield Step(f"norms of queries and keys, shape {shape}: of {over.replace('_', ' ')}", (HeadsNormed(over),), more)  # type: ignore[arg-type]


def heads_in(architecture: Architecture | None) -> Iterator[Attention]:
    """The attentions of an architecture."""
    for block in blocks_in(architecture):
        yield from (each for each in block.sublayers if isinstance(each, Attention))


def blocks_in(architecture: Architecture | None) -> Iterator[Block]:
    """The different layers of an architecture."""
    for stack in architecture.stacks.values() if architecture else ():
        yield from stack.variants.values()


def _head(fit: Fit) -> Iterator[Step]:
    """A head that has no tensor of its own is the embedding."""
    if any("head" in line.source for line in fit.missing):
        yield Step("no tensor of the head: the embedding is tied to it", (Put("head.tied", True),))
    for each in fit.left:
        if "head" in role(each.name) and "{i}" not in each.name:
            yield Step("a tensor of the head: it is not tied", (Put("head.tied", False),), {"head": each.name})


def _gates(fit: Fit) -> Iterator[Step]:
    """Whether networks have a gate."""
    if any("feedforward.gate" in line.source for line in fit.missing):
        yield Step("networks have no gate", (Gated(False),))
    for each in fit.left:
        if "gate" in role(each.name) and "network" in role(each.name):
            yield Step("networks have a gate", (Gated(True),), {"feedforward.gate": each.name})


def _sizes(fit: Fit) -> Iterator[Step]:
    """Widths of heads, heads of keys and widths of networks, from the rows of matrices."""
    heads = next(heads_in(fit.architecture), None)
    assert fit.architecture is not None
    for line in fit.missing:
        side = line.source[-1].rpartition(".")[2]
        for each in fit.left:
            if not each.shape or len(each.shape) != 2:
                continue
            rows = each.shape[0]
            if heads and side == "query" and role(each.name) & {"query"} and rows % heads.heads == 0:
                width = rows // heads.heads
                yield Step(f"heads of {width} features, by the rows of {each.name}", (Put("attention.head_width", width),))
            if (
                heads
                and side == "key"
                and role(each.name) & {"key"}
                and rows % heads.width_of_head(fit.architecture.width) == 0
            ):
                count = rows // heads.width_of_head(fit.architecture.width)
                yield Step(f"{count} heads of keys, by the rows of {each.name}", (Put("attention.kv_heads", count),))
            if heads and line.source == QKV and likeness(each.name, line.module.name) > 0.3:
                yield from _keys_of_fused(fit, heads, each)
            if side in ("up", "gate_up") and side in role(each.name):
                yield Step(f"networks of {rows} features, by the rows of {each.name}", (Put("feedforward.width", rows),))


def _keys_of_fused(fit: Fit, heads: Attention, module: FileModule) -> Iterator[Step]:
    """The heads of keys in a tensor of queries, keys and values: (H + 2 K) E rows."""
    assert fit.architecture is not None
    assert module.shape is not None
    width = heads.width_of_head(fit.architecture.width)
    twice = module.shape[0] - heads.heads * width
    if twice > 0 and twice % (2 * width) == 0:
        count = twice // (2 * width)
        put = Put("attention.kv_heads", count)
        yield Step(f"{count} heads of keys, by the rows of {module.name}", (put,), {QKV: To(module.name, GroupedRows(count))})


def _fused(fit: Fit) -> Iterator[Step]:
    """Several projections in one tensor, or one by one; and matrices stored the other way round."""
    missing = {source: line for line in fit.missing for source in line.source}
    for sources, of in ((QKV, "queries, keys and values"), (("feedforward.gate", "feedforward.up"), "gate and up")):
        if not all(source in missing for source in sources):
            continue
        lines = {missing[source].module.name: missing[source] for source in sources}
        if len(lines) == 1:  # together in the family
            yield from _apart(fit, sources, of)
            continue
        rows = sum((line.module.shape or (0,))[0] for line in lines.values())
        inputs = (next(iter(lines.values())).module.shape or (0,))[-1]
        for each in fit.left:
            if each.shape in ((rows, inputs), (inputs, rows)):
                turned = each.shape == (inputs, rows) and rows != inputs
                yield from _together(fit, sources, of, each, turned=turned)
    for line in fit.missing:
        for each in fit.left:
            names = (line.module.name, ".".join(line.source))
            here, there = line.module.shape or (), each.shape or ()
            turned = len(there) == 2 and there == here[::-1]
            if turned and max(likeness(each.name, name) for name in names) > 0.4:
                source: Any = line.source if len(line.source) > 1 else line.source[0]
                yield Step(f"{each.name} is stored as (inputs, outputs)", (), {source: To(each.name, Transposed())})


def _together(fit: Fit, sources: tuple[str, ...], of: str, module: FileModule, *, turned: bool) -> Iterator[Step]:
    """One tensor of several projections: one after the other, or in groups of heads."""
    if turned:
        from anyformer.huggingface.rules import Then

        yield Step(f"{of} in {module.name}, transposed", (), {sources: To(module.name, Then(Transposed(), Rows()))})
        return
    yield Step(f"{of} in {module.name}, one after the other", (), {sources: To(module.name, Rows())})


def grouped(fit: Fit) -> Iterator[tuple[str, Lines]]:
    """Other orders of the rows of one tensor of queries, keys and values: by head, or by head of keys."""
    heads = next(heads_in(fit.architecture), None)
    line = next((line for line in fit.lines if line.source == QKV), None)
    if heads is None or line is None or line.module.name not in fit.matched:
        return
    name = fit.matched[line.module.name]
    for groups in sorted({heads.heads, heads.kv_heads or heads.heads}):
        yield f"rows of {name} in {groups} groups of heads", {QKV: To(name, GroupedRows(groups))}
    yield f"rows of {name} one after the other", {QKV: To(name, Rows())}


def _apart(fit: Fit, sources: tuple[str, ...], of: str) -> Iterator[Step]:
    """A tensor per projection where the family has one of all."""
    found: dict[str, str] = {}
    for source in sources:
        side = source.rpartition(".")[2]
        named = [each.name for each in fit.left if side in role(each.name)]
        if len(named) == 1:
            found[source] = named[0]
    if len(found) == len(sources):
        yield Step(f"{of} in tensors of their own", (), dict(found))


def _positions(fit: Fit) -> Iterator[Step]:
    """A learned table of positions."""
    assert fit.architecture is not None
    for stack in fit.architecture.stacks:
        if any(f"{stack}.position" in line.source for line in fit.missing):
            yield Step("no table of positions", (Put(f"{stack}.position", None),))
        for each in fit.left:
            if "positions" in role(each.name) and each.shape and len(each.shape) == 2 and "{i}" not in each.name:
                part = LearnedPosition(length=each.shape[0])
                yield Step(
                    f"a table of {each.shape[0]} learned positions",
                    (Put(f"{stack}.position", part), Put("attention.rotary", None)),
                    {f"{stack}.position": each.name},
                )


def _wirings(fit: Fit) -> Iterator[Step]:
    """Where norms stand, by how many a layer has and how they are called."""
    assert fit.architecture is not None
    ours = [line for line in fit.lines if line.stack and is_norm(line)]
    theirs = [fit.matched[line.module.name] for line in ours if line.module.name in fit.matched]
    width = (fit.architecture.width,)
    theirs += [each.name for each in fit.left if each.name.count("{i}") == 1 and each.shape == width and _of_layer(each.name)]
    names = tuple(sorted(set(theirs)))
    odd = any(is_norm(line) for line in fit.missing) or any(each.name in names for each in fit.left)
    if not names or not odd:
        return
    for wiring in wirings_of(names):
        for slots in assignments(wiring, names, fit.architecture):
            yield Step(f"norms of a layer: {wiring} ({', '.join(names)})", (Wired(wiring),), slots)


def is_norm(line: Line) -> bool:
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
    network = next(
        (n for block in blocks_in(architecture) for n in block.branches if n in ("experts", "feedforward")), "feedforward"
    )
    slots = [slot.replace("{network}", network) for slot in _SLOTS[wiring]]
    ranked = sorted(permutations(names), key=lambda order: -sum(_stands(s, n) for s, n in zip(slots, order, strict=True)))
    return [dict(zip(slots, order, strict=True)) for order in ranked[:most]]


def _stands(slot: str, name: str) -> float:
    """How well a name says that a norm stands in a place."""
    said = role(name)
    first = slot.startswith(("attention", "step_0"))
    wanted = ("before" if first else "before_network") if "before" in slot else ("after" if first else "after_network")
    if wanted in said:
        return 3.0
    if "second" in said:
        return {"after": 2.0, "before_network": 1.5}.get(wanted, 0.0)
    if (wanted in ("before", "after") and "attention" in said) or (wanted.endswith("network") and said & {"network", "final"}):
        return 1.0
    return 0.0


def _of_layer(name: str) -> bool:
    """Whether a tensor of the width of the stream is called like a norm."""
    words = role(name)
    return (
        bool(words & {"norm", "before", "after", "before_network", "after_network", "second", "final"})
        or "norm" in name.lower()
    )


def _router(fit: Fit) -> Iterator[Step]:
    """A correction of the load of experts."""
    for each in fit.left:
        if "correction" in role(each.name) and "{i}" in each.name:
            part = ScoreCorrectionBias()
            name = each.name if "" in each.leaves else f"{each.name}.bias"
            yield Step(
                "a correction of the load of experts",
                (Put("experts.router.choice.correction", part),),
                {"experts.router.correction": name},
            )


def _one_by_one(fit: Fit) -> Iterator[Step]:
    """Experts with a tensor each, where the family stacks them; a gate of the shared one."""
    wanted = {source for line in fit.missing for source in line.source if source.startswith("experts.")}
    for of in ("experts", "experts.shared"):
        found: dict[str, str | To] = {}
        for side in ("gate", "up", "down"):
            named = [each for each in fit.left if side in role(each.name) and ("{x}" in each.name) == (of == "experts")]
            named = [each for each in named if (of == "experts") != ("shared" in role(each.name))]
            if len(named) == 1 and f"{of}.{side}" in wanted:
                whole = f"{named[0].name}.{named[0].main}".rstrip(".")
                found[f"{of}.{side}"] = To(whole, Stacked()) if of == "experts" else named[0].name
        if found:
            yield Step(f"{of} in tensors of their own", (), found)
    for each in fit.left:
        if each.name.endswith(("shared_expert_gate", "shared_experts_gate")):
            yield Step("a gate of the shared expert", (Put("experts.shared.gate", "sigmoid"),), {SHARED_GATE: each.name})


SHARED_GATE = "experts.shared_gate"


def _outside(fit: Fit) -> Iterator[Step]:
    """Norms before the first layer and behind the last one; buffers that nothing reads."""
    assert fit.architecture is not None
    norm = next(norms_of_layer(fit.architecture), RMSNorm())
    for stack in fit.architecture.stacks:
        for place in ("final_norm", "input_norm"):
            if any(f"{stack}.{place}" in line.source for line in fit.missing):
                yield Step(f"no {place.replace('_', ' ')}", (Put(f"{stack}.{place}", None),))
            for each in fit.left:
                if "{i}" not in each.name and each.shape == (fit.architecture.width,) and _of_layer(each.name):
                    yield Step(
                        f"a {place.replace('_', ' ')}: {each.name}",
                        (Put(f"{stack}.{place}", norm),),
                        {f"{stack}.{place}": each.name},
                    )
    for each in fit.left:
        if each.name.rpartition(".")[2] in ("inv_freq", "position_ids", "masked_bias"):
            yield Step(f"{each.name} is a table that follows from a formula", (), None, (pattern(each.name),))


def _sparse(fit: Fit, modules: Mapping[str, FileModule]) -> Iterator[Step]:
    """Which layers have experts, by their names, for a base that reads it from a key that the files lack."""
    sparse = {layer for each in modules.values() if "experts" in role(each.name) for layer in each.layers if layer >= 0}
    every = {layer for each in modules.values() for layer in each.layers if layer >= 0}
    if not sparse or not every:
        return
    dense = sorted(every - sparse)
    why = f"experts in {len(sparse)} of {len(every)} layers"
    given: dict[str, Any] = {
        "mlp_only_layers": dense,
        "mlp_layer_types": ["sparse" if layer in sparse else "dense" for layer in sorted(every)],
    }
    if dense == list(range(len(dense))):
        given |= {"first_k_dense_replace": len(dense), "num_dense_layers": len(dense)}
    for key, value in given.items():
        if key in fit.asked and key not in fit.derivation.absent:
            yield Step(why, absent={key: value})


_PARTS = {"indexer": "choice"}
"""Name of a module -> the field that it is built of, where it is another."""


def _left_out(fit: Fit) -> Iterator[Step]:
    """Optional parts of which no tensor is there; norms without a gain."""
    for line in fit.missing:
        words = [_PARTS.get(word, word) for word in line.source[0].split(".")]
        for end in range(2, len(words) + 1):
            yield Step(f"no {' '.join(words[1:end])} of {words[0]}", (Put(".".join(words[:end]), None),))
    if fit.missing and not fit.left and all(is_norm(line) or "final_norm" in line.source[0] for line in fit.missing):
        yield Step("norms have no gain", (Normed("rms_norm", "none"),))


def pattern(name: str) -> str:
    """A regular expression of the names of a module's tensors."""
    return name.replace(".", r"\.").replace("{i}", r"\d+").replace("{x}", r"\d+") + r"(\.weight|\.bias)?"


def norms_of_layer(architecture: Architecture | None) -> Iterator[Norm]:
    """The norms around branches, of all layers in order."""
    for block in blocks_in(architecture):
        yield from norms_in(block)
