"""What shapes and names force: changes to a nearest family's description until every tensor has a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anyformer.parts import Experts, FeedForward, LayerNorm, RMSNorm
from anyformer.porting.changes import Normed, Put
from anyformer.porting.ends import ends
from anyformer.porting.explaining import LEAST, Fit, StoredLine, explained, named
from anyformer.porting.hint import Hint
from anyformer.porting.looking import blocks_in, norms_of_layer, of_another
from anyformer.porting.mixtures import mixtures, no_experts
from anyformer.porting.norm_places import is_norm, like_norm, norms_of_some, wirings
from anyformer.porting.offers import Offer, grafts
from anyformer.porting.projections import (
    biases,
    fused,
    gates,
    norms_of_heads,
    one_by_one,
    router_correction,
    sizes,
)
from anyformer.porting.roles import likeness, role
from anyformer.porting.slots import slots
from anyformer.porting.some_layers import WithoutBranch
from anyformer.porting.tensors import FileModule

_PARTS = {"indexer": "choice"}
"""Name of a module -> the field that it is built of, where it is another."""
_ALIKE = 0.4
"""Names of one branch in all layers and in some are at least so alike."""
_BUILT = {"experts.shared_gate": "experts.shared.gate", "experts.router.correction": "experts.router.choice.correction"}
"""The same of the whole name."""


def settled(
    fit: Fit,
    table: Mapping[str, Any],
    modules: Mapping[str, FileModule],
    offered: Sequence[Offer] = (),
    most: int = 12,
) -> tuple[Fit, list[str]]:
    """The fit after the changes by which more tensors have a place, and the reason of every change.

    `offered`: mixers of other families.
    """
    reasons: list[str] = []
    for _ in range(most):
        if fit.whole or fit.architecture is None:
            break
        tried = [
            (step, explained(step.applied(fit.derivation), table, modules)) for step in steps(fit, table, modules, offered)
        ]
        better = [(step, made) for step, made in tried if made.architecture and made.unexplained < fit.unexplained]
        if not better:
            break
        step, fit = min(better, key=lambda pair: pair[1].unexplained)
        reasons.append(step.why)
    return explained(named(fit), table, modules), reasons


def steps(
    fit: Fit, table: Mapping[str, Any], modules: Mapping[str, FileModule], offered: Sequence[Offer] = ()
) -> Iterator[Hint]:
    """What could give tensors without a place one, or take a place away that no tensor fills."""
    yield from biases(fit, modules)
    yield from norms_of_heads(fit)
    yield from ends(fit, table)
    yield from gates(fit)
    yield from slots(fit)
    yield from sizes(fit)
    yield from fused(fit)
    yield from wirings(fit)
    yield from norms_of_some(fit)
    yield from router_correction(fit)
    yield from one_by_one(fit)
    yield from mixtures(fit, table, modules)
    yield from no_experts(fit, modules)
    yield from grafts(fit, offered)
    yield from branches_of_some(fit)
    yield from _outside(fit)
    yield from _sparse(fit, modules)
    yield from _left_out(fit)


def branches_of_some(fit: Fit) -> Iterator[Hint]:
    """A branch of whose weights the files have none, or those of some layers alone."""
    assert fit.architecture is not None
    lacking = {line.module.name for line in fit.missing}
    for name, stack in fit.architecture.stacks.items():
        branches = dict.fromkeys(branch for block in stack.variants.values() for branch in block.branches)
        for branch in branches:
            lines = [line for line in fit.lines if line.stack == name and line.source[0].startswith(f"{branch}.")]
            own = [line for line in lines if not is_norm(line)]
            if not own or not all(line.module.name in lacking for line in own):
                continue
            here = {at for at, variant in enumerate(stack.layers) if branch in stack.variants[variant].branches}
            there = {each.layers for line in own for each in fit.left if each.layers < here and _alike_in_some(line, each)}
            held = any(_likeness(line, each) >= LEAST for line in own for each in fit.left if "{i}" in each.name)
            for layers in there or ([] if held else [frozenset[int]()]):
                words = f"{len(layers)} of {len(here)} layers" if layers else "no layer"
                yield Hint(
                    f"{branch.replace('_', ' ')} in {words}", (WithoutBranch(tuple(sorted(here - layers)), branch, name),)
                )


def _alike_in_some(line: StoredLine, module: FileModule) -> bool:
    """Whether a module has the shapes of a line in the layers that both have, and a name like its."""
    ours, theirs = line.module, module
    if ours.main != theirs.main or "{i}" not in theirs.name:
        return False
    left, right = ours.signature(ours.main), theirs.signature(theirs.main)
    same = all(left.get(at) == right[at] for at in right)
    return same and _likeness(line, theirs) > _ALIKE


def _likeness(line: StoredLine, module: FileModule) -> float:
    return max(likeness(module.name, name) for name in (line.module.name, ".".join(line.source)))


def _outside(fit: Fit) -> Iterator[Hint]:
    """Norms before the first layer and behind the last one; buffers that nothing reads."""
    assert fit.architecture is not None
    norm = next(norms_of_layer(fit.architecture), RMSNorm())
    for stack in fit.architecture.stacks:
        for place in ("final_norm", "input_norm"):
            if any(f"{stack}.{place}" in line.source for line in fit.missing):
                yield Hint(f"no {place.replace('_', ' ')}", (Put(f"{stack}.{place}", None),))
            for each in (each for each in fit.left if not of_another(stack, each.name, fit.architecture)):
                widths = {(fit.architecture.width,), (fit.architecture.table_width,)}
                if "{i}" not in each.name and each.shape in widths and like_norm(each.name):
                    yield Hint(
                        f"a {place.replace('_', ' ')}: {each.name}",
                        (Put(f"{stack}.{place}", norm),),
                        {f"{stack}.{place}": each.name},
                    )
    for each in fit.left:
        if each.name.rpartition(".")[2] in ("inv_freq", "position_ids", "masked_bias"):
            yield Hint(f"{each.name} is a table that follows from a formula", (), None, (pattern(each.name),))


def _sparse(fit: Fit, modules: Mapping[str, FileModule]) -> Iterator[Hint]:
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
            yield Hint(why, absent={key: value})


def _left_out(fit: Fit) -> Iterator[Hint]:
    """Optional parts of which no tensor is there; norms without a gain."""
    for line in fit.missing:
        words = [_PARTS.get(word, word) for word in _BUILT.get(line.source[0], line.source[0]).split(".")]
        for end in range(len(words), 1, -1):  # the least first: a router without a correction, before none at all
            yield Hint(f"no {' '.join(words[1:end])} of {words[0]}", (Put(".".join(words[:end]), None),))
        yield from _optional(fit, words[0])
    if fit.missing and not fit.left and all(is_norm(line) or "final_norm" in line.source[0] for line in fit.missing):
        yield Hint("norms have no gain", (Normed("rms_norm", "none"),))


def _optional(fit: Fit, branch: str) -> Iterator[Hint]:
    """A mixer without one of its optional parts, or with a norm of no gain in place of one that has."""
    found = dict[str, Any]()
    for block in blocks_in(fit.architecture):
        mixer = block.branches[branch].sublayer if branch in block.branches else None
        fields = {} if mixer is None or isinstance(mixer, FeedForward | Experts) else type(mixer).model_fields
        found |= {name: getattr(mixer, name) for name, field in fields.items() if field.default is None}
    for name, value in found.items():
        if isinstance(value, RMSNorm | LayerNorm) and value.gain != "none":
            yield Hint(
                f"{name.replace('_', ' ')} of {branch.replace('_', ' ')} without a gain",
                (Put(f"{branch}.{name}", value.but(gain="none", bias=False)),),
            )
        if value is not None:
            yield Hint(f"no {name.replace('_', ' ')} of {branch.replace('_', ' ')}", (Put(f"{branch}.{name}", None),))


def pattern(name: str) -> str:
    """A regular expression of the names of a module's tensors."""
    return name.replace(".", r"\.").replace("{i}", r"\d+").replace("{x}", r"\d+") + r"(\.weight|\.bias)?"
