"""What projections show: biases, gates, widths, norms of heads, several in one tensor or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anyformer.huggingface.rules import GroupedRows, Rows, Stacked, Then, To, Transposed
from anyformer.parts import Attention, FeedForward, ScoreCorrectionBias
from anyformer.porting.changes import Biased, Gated, HeadsNormed, Normed, Put
from anyformer.porting.explaining import Fit
from anyformer.porting.hint import Hint, Lines
from anyformer.porting.looking import blocks_in, heads_in
from anyformer.porting.roles import likeness, role
from anyformer.porting.tensors import FileModule

QKV = ("attention.query", "attention.key", "attention.value")
SHARED_GATE = "experts.shared_gate"


def biases(fit: Fit, modules: Mapping[str, FileModule]) -> Iterator[Hint]:
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
            elif source in ("head", "experts.router"):
                if odd:
                    what = source.rpartition(".")[2]
                    yield Hint(f"the {what} has {'a' if has else 'no'} bias", (Put(f"{source}.bias", has),))
            elif branch:
                branches.setdefault(branch, set())
                if has:
                    branches[branch].add(projection)
                if odd:
                    touched.add(branch)
    for branch in sorted(touched & branches.keys()):
        order = {name: at for at, name in enumerate(("query", "key", "value", "output", "gate", "up", "down"))}
        named = tuple(sorted(branches[branch], key=lambda name: order.get(name, 9)))
        yield Hint(f"biases of {branch}: {', '.join(named) or 'none'}", (Biased(branch, named),))
    if "norms" in touched:
        yield Hint("norms have a bias: LayerNorm", (Normed("layer_norm", bias=True),))
    if "no norms" in touched:
        yield Hint("norms have no bias: RMSNorm", (Normed("rms_norm"),))
        yield Hint("norms have no bias: LayerNorm without one", (Normed("layer_norm"),))


def norms_of_heads(fit: Fit) -> Iterator[Hint]:
    """Norms of queries and keys, by their shape."""
    if any("attention.query_norm" in line.source for line in fit.missing):
        yield Hint("no norms of queries and keys", (HeadsNormed(None),))
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
        yield Hint(f"norms of queries and keys, shape {shape}: of {over.replace('_', ' ')}", (HeadsNormed(over),), more)  # type: ignore[arg-type]


def gates(fit: Fit) -> Iterator[Hint]:
    """Whether networks have a gate."""
    if any("feedforward.gate" in line.source for line in fit.missing):
        yield Hint("networks have no gate", (Gated(False),))
    for each in fit.left:
        if "gate" in role(each.name) and "network" in role(each.name):
            yield Hint("networks have a gate", (Gated(True),), {"feedforward.gate": each.name})
    yield from _gate_with_up(fit)


def _gate_with_up(fit: Fit) -> Iterator[Hint]:
    """One tensor with twice the rows of the up projection that a family without a gate has."""
    up = next((line.module for line in fit.missing if line.source == ("feedforward.up",)), None)
    if up is None or up.shape is None or len(up.shape) != 2:
        return
    networks = [each for block in blocks_in(fit.architecture) for each in block.sublayers if isinstance(each, FeedForward)]
    down = ("down",) if any("down" in each.bias for each in networks) else ()
    for each in fit.left:
        if each.shape == (2 * up.shape[0], up.shape[1]) and each.layers == up.layers:
            biased = (*(("gate", "up") if "bias" in each.leaves else ()), *down)
            yield Hint(
                f"networks have a gate, in one tensor with up: {each.name}",
                (Gated(True), Biased("feedforward", biased)),
                {("feedforward.gate", "feedforward.up"): To(each.name, Rows())},
            )


def sizes(fit: Fit) -> Iterator[Hint]:
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
                yield Hint(f"heads of {width} features, by the rows of {each.name}", (Put("attention.head_width", width),))
            if (
                heads
                and side == "key"
                and role(each.name) & {"key"}
                and rows % heads.width_of_head(fit.architecture.width) == 0
            ):
                count = rows // heads.width_of_head(fit.architecture.width)
                yield Hint(f"{count} heads of keys, by the rows of {each.name}", (Put("attention.kv_heads", count),))
            if heads and line.source == QKV and likeness(each.name, line.module.name) > 0.3:
                yield from _keys_of_fused(fit, heads, each)
            if side in ("up", "gate_up") and side in role(each.name):
                yield Hint(f"networks of {rows} features, by the rows of {each.name}", (Put("feedforward.width", rows),))


def _keys_of_fused(fit: Fit, heads: Attention, module: FileModule) -> Iterator[Hint]:
    """The heads of keys in a tensor of queries, keys and values: (H + 2 K) E rows."""
    assert fit.architecture is not None
    assert module.shape is not None
    width = heads.width_of_head(fit.architecture.width)
    twice = module.shape[0] - heads.heads * width
    if twice > 0 and twice % (2 * width) == 0:
        count = twice // (2 * width)
        put = Put("attention.kv_heads", count)
        yield Hint(f"{count} heads of keys, by the rows of {module.name}", (put,), {QKV: To(module.name, GroupedRows(count))})


def fused(fit: Fit) -> Iterator[Hint]:
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
                yield Hint(f"{each.name} is stored as (inputs, outputs)", (), {source: To(each.name, Transposed())})


def _together(fit: Fit, sources: tuple[str, ...], of: str, module: FileModule, *, turned: bool) -> Iterator[Hint]:
    """One tensor of several projections: one after the other, or in groups of heads."""
    if turned:
        yield Hint(f"{of} in {module.name}, transposed", (), {sources: To(module.name, Then(Transposed(), Rows()))})
        return
    yield Hint(f"{of} in {module.name}, one after the other", (), {sources: To(module.name, Rows())})


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


def _apart(fit: Fit, sources: tuple[str, ...], of: str) -> Iterator[Hint]:
    """A tensor per projection where the family has one of all."""
    found: dict[str, str] = {}
    for source in sources:
        side = source.rpartition(".")[2]
        named = [each.name for each in fit.left if side in role(each.name)]
        if len(named) == 1:
            found[source] = named[0]
    if len(found) == len(sources):
        yield Hint(f"{of} in tensors of their own", (), dict(found))


def router_correction(fit: Fit) -> Iterator[Hint]:
    """A correction of the load of experts."""
    for each in fit.left:
        if "correction" in role(each.name) and "{i}" in each.name:
            part = ScoreCorrectionBias()
            name = each.name if "" in each.leaves else f"{each.name}.bias"
            yield Hint(
                "a correction of the load of experts",
                (Put("experts.router.choice.correction", part),),
                {"experts.router.correction": name},
            )


def one_by_one(fit: Fit) -> Iterator[Hint]:
    """Experts with a tensor each, where the family stacks them; a gate of the shared one."""
    wanted = {source for line in fit.missing for source in line.source if source.startswith("experts.")}
    for of in ("experts", "experts.shared"):
        found: dict[str, str | To] = {}
        for side in ("gate", "up", "down"):
            named = [each for each in fit.left if side in role(each.name) and ("{x}" in each.name) == (of == "experts")]
            named = [each for each in named if (of == "experts") != ("shared" in role(each.name))]
            if len(named) == 1 and f"{of}.{side}" in wanted:
                whole = named[0].tensor
                found[f"{of}.{side}"] = To(whole, Stacked()) if of == "experts" else named[0].name
        if found:
            yield Hint(f"{of} in tensors of their own", (), found)
    for each in fit.left:
        if each.name.endswith(("shared_expert_gate", "shared_experts_gate")):
            yield Hint("a gate of the shared expert", (Put("experts.shared.gate", "sigmoid"),), {SHARED_GATE: each.name})
