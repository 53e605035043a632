"""Experts that the files have and the nearest family has not: how many, how wide and in which layers, by names and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from anyformer.huggingface.rules import Rows, Shaped, Stacked, Then, To, Transposed
from anyformer.parts import Experts, FeedForward, Renormalise, Router, ScoreCorrectionBias, SharedExpert, TopK
from anyformer.parts.experts.selection import Groups
from anyformer.porting.changes import Put
from anyformer.porting.explaining import Fit
from anyformer.porting.hint import Hint, Lines
from anyformer.porting.keys import GROUPS
from anyformer.porting.looking import blocks_in
from anyformer.porting.projections import SHARED_GATE
from anyformer.porting.roles import role
from anyformer.porting.some_layers import DenseLayers
from anyformer.porting.sparse_layers import DENSE, SPARSE, SparseLayers
from anyformer.porting.tensors import FileModule

_CHOSEN = ("per_tok", "top_k", "topk", "moe_k")
"""What is in the names of keys that say how many experts a token chooses."""
Side = Literal["gate", "up", "down"]
_SIDES: tuple[Side, ...] = ("gate", "up", "down")
_SCALES = next(names for names in GROUPS if "routed_scaling_factor" in names)
_RENORMALISED = next(names for names in GROUPS if "norm_topk_prob" in names)
_Shape3 = tuple[int, int, int]


def mixtures(fit: Fit, table: Mapping[str, Any], modules: Mapping[str, FileModule]) -> Iterator[Hint]:
    """Experts in the layers that have a router, for a base whose layers have networks alone."""
    assert fit.architecture is not None
    networks = [each for block in blocks_in(fit.architecture) for each in block.sublayers if isinstance(each, FeedForward)]
    if any("experts." in source for line in fit.lines for source in line.source):
        yield from _stored_otherwise(fit)
        return
    if not networks or fit.architecture.decoder is None:
        return
    width = fit.architecture.width
    # A shared expert may have been taken for the network of every layer.
    taken = [modules[name] for name in fit.matched.values() if "shared" in role(name) and "{i}" in name]
    for router in (each for each in fit.left if _routes(each, width)):
        assert router.shape is not None
        rest = [each for each in (*fit.left, *taken) if each.layers == router.layers and each is not router]
        found = _stacked(rest, router.shape[0], width) or _one_by_one(rest)
        if found is None:
            continue
        lines, inner = found
        experts, more = _experts(router, rest, lines, inner, networks[0], table)
        layers = tuple(sorted(router.layers))
        yield Hint(
            f"{router.shape[0]} experts of {inner} features in {len(layers)} layers, by {router.name}",
            (SparseLayers(layers, experts),),
            {**_norms(fit), "experts.router": router.name, **lines, **more},
        )


def _stored_otherwise(fit: Fit) -> Iterator[Hint]:
    """Experts that the family has under other names, of another width, in one tensor of all or with gate and up in one."""
    assert fit.architecture is not None
    own = [each for block in blocks_in(fit.architecture) for each in block.sublayers if isinstance(each, Experts)]
    if not own or not any(source.startswith("experts.") for line in fit.missing for source in line.source):
        return
    rest = [each for each in fit.left if "shared" not in role(each.name)]
    found = _stacked(rest, own[0].experts, fit.architecture.width) or _one_by_one(rest)
    if found is not None:
        lines, inner = found
        changes: tuple[Put, ...] = () if inner == own[0].width else (Put("experts.width", inner),)
        biased = _sides_with_bias(lines)
        changes += () if biased == tuple(side for side in _SIDES if side in own[0].bias) else (Put("experts.bias", biased),)
        yield Hint(f"experts of {inner} features in {len(lines)} tensors", changes, lines)


def _routes(module: FileModule, width: int) -> bool:
    """Whether a module gives a score of every expert: (experts, width) in a layer."""
    shape = module.shape
    named = "router" in role(module.name) or module.name.endswith(".gate")
    return named and "{i}" in module.name and shape is not None and len(shape) == 2 and shape[1] == width and shape[0] > 1


def _one_by_one(rest: list[FileModule]) -> tuple[Lines, int] | None:
    """Lines of experts with a tensor each, and their width."""
    found: dict[str, FileModule] = {}
    for each in (each for each in rest if "{x}" in each.name):
        side = next((side for side in _SIDES if side in role(each.name)), None)
        if side is not None:
            found[side] = each
    if not {"up", "down"} <= found.keys() <= {*_SIDES}:
        return None
    whole = {side: each.tensor for side, each in found.items()}
    return {f"experts.{side}": To(name, Stacked()) for side, name in whole.items()}, (found["up"].shape or (0,))[0]


def _stacked(rest: list[FileModule], count: int, width: int) -> tuple[Lines, int] | None:
    """Lines of experts in tensors of three dimensions, (experts, outputs, inputs) or the other way round, and their width."""
    found: dict[str, tuple[str, _Shape3]] = {}
    for each in rest:
        side = next((side for side in ("gate_up", *_SIDES) if side in role(each.name)), None)
        if side is not None and each.shape is not None and len(each.shape) == 3 and each.shape[0] == count:
            found[side] = each.tensor, (each.shape[0], each.shape[1], each.shape[2])
    if "down" not in found or len(found) < 2:
        return None
    biases = {side: each for each in rest for side in _biased(each, count)}
    name, (_, rows, columns) = found.pop("down")
    turned = columns == width and rows != width
    inner = rows if turned else columns
    lines: dict[Any, str | To] = {"experts.down": To(name, Transposed()) if turned else name}
    lines |= {"experts.down_bias": biases["down"].tensor} if "down" in biases else {}
    for side, (name, (_, rows, columns)) in found.items():
        turned, outputs = (True, columns) if rows == width and columns != width else (False, rows)
        if outputs == 2 * inner:
            both = Then(Transposed(), Rows(1)) if turned else Rows(1)
            lines["experts.gate", "experts.up"] = To(name, both)
            if "gate_up" in biases:
                lines["experts.gate_bias", "experts.up_bias"] = To(biases["gate_up"].tensor, Rows(1))
        else:
            lines[f"experts.{side}"] = To(name, Transposed()) if turned else name
            lines |= {f"experts.{side}_bias": biases[side].tensor} if side in biases else {}
    return lines, inner


def _biased(module: FileModule, count: int) -> Iterator[str]:
    """The side whose biases a tensor has, one row per expert: `gate_up_proj_bias`."""
    stem = module.name.removesuffix("_bias")
    if stem != module.name and len(module.shape or ()) == 2 and (module.shape or (0,))[0] == count:
        yield from [side for side in ("gate_up", *_SIDES) if side in role(stem)][:1]


def no_experts(fit: Fit, modules: Mapping[str, FileModule]) -> Iterator[Hint]:
    """Networks in every layer, for a base of experts where the files have neither these nor a router."""
    if any({"experts", "router"} & role(name) for name in modules):
        return
    if any(source.startswith("experts.") for line in fit.missing for source in line.source):
        yield Hint("no experts: a network in every layer", (DenseLayers(),))


def _experts(
    router: FileModule, rest: list[FileModule], found: Lines, width: int, network: FeedForward, table: Mapping[str, Any]
) -> tuple[Experts, Lines]:
    """The experts, with a shared one and a correction of their loads where the files have them, and the lines of these."""
    assert router.shape is not None
    more: dict[Any, str | To] = {}
    gated = any("gate" in source for sources in found for source in ((sources,) if isinstance(sources, str) else sources))
    shared = {side: each for each in rest for side in _SIDES if {side, "shared"} <= role(each.name) and "{x}" not in each.name}
    part = None
    if {"up", "down"} <= shared.keys():
        inner = FeedForward(
            width=(shared["up"].shape or (0,))[0],
            activation=network.activation,
            gated="gate" in shared,
            bias=tuple(side for side in _SIDES if side in shared and "bias" in shared[side].leaves),
        )
        gate = next((each for each in rest if each.shape == (1, (shared["up"].shape or (0, 0))[1])), None)
        part = SharedExpert(feedforward=inner, gate=None if gate is None else "sigmoid")
        more |= {f"experts.shared.{side}": each.name for side, each in shared.items()}
        more |= {} if gate is None else {SHARED_GATE: gate.name}
    correction = next((each for each in rest if "correction" in role(each.name)), None)
    if correction is not None:
        name = correction.tensor
        more["experts.router.correction"] = name if len(correction.shape or ()) == 1 else To(name, Shaped((1, -1)))
    count, chosen = router.shape[0], _chosen(table, router.shape[0])
    experts = Experts(
        experts=count,
        chosen=chosen,
        width=width,
        activation=network.activation,
        gated=gated,
        bias=_sides_with_bias(found),
        router=_router(table, count, chosen, corrected=correction is not None),
        shared=part,
    )
    return experts, more


def _sides_with_bias(lines: Lines) -> tuple[Side, ...]:
    """The projections of experts whose biases have lines."""
    said = {source for sources in lines for source in ((sources,) if isinstance(sources, str) else sources)}
    return tuple(side for side in _SIDES if f"experts.{side}_bias" in said)


def _router(table: Mapping[str, Any], experts: int, chosen: int, *, corrected: bool) -> Router:
    """The router by the keys of DeepSeek's line, which others use in the same sense; no groups that leave too few experts."""
    count, keep = table.get("n_group"), table.get("topk_group")
    some = isinstance(count, int) and isinstance(keep, int) and count > keep > 0 and experts // count * keep >= chosen
    groups = Groups(count=count or 1, keep=keep or 1, score="top_2" if corrected else "max") if some else None
    scale = next((value for name, value in table.items() if name in _SCALES and isinstance(value, int | float) and value), 1.0)
    said = str(table.get("scoring_func") or table.get("score_func") or ("sigmoid" if corrected else "softmax"))
    return Router(
        choice=TopK(groups=groups, correction=ScoreCorrectionBias() if corrected else None),
        score="sigmoid" if said == "sigmoid" else "softmax",
        renormalise=Renormalise() if any(table.get(name) for name in _RENORMALISED) else None,
        scale=float(scale),
    )


def _chosen(table: Mapping[str, Any], count: int) -> int:
    """How many experts a token chooses, by the keys that may say so; 2 where none does."""
    said = [value for key, value in table.items() if any(word in key for word in _CHOSEN)]
    return next((each for each in said if isinstance(each, int) and not isinstance(each, bool) and 0 < each <= count), 2)


def _norms(fit: Fit) -> Lines:
    """Norms around a network are those of experts where these stand."""
    return {
        source.replace(DENSE, SPARSE, 1): fit.matched.get(line.module.name, line.module.name)
        for line in fit.lines
        for source in line.source
        if len(line.source) == 1 and source.startswith(f"{DENSE}.norm")
    }
