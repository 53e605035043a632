"""Mixers of other known families whose weights the files have, in place of the nearest family's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface.rules import To
from anyformer.model import Architecture
from anyformer.parts import Block, Branch, Experts, FeedForward
from anyformer.parts.sublayer import Sublayer
from anyformer.porting.explaining import LEAST, Fit, StoredLine
from anyformer.porting.hint import Hint
from anyformer.porting.roles import likeness
from anyformer.porting.some_layers import in_layers
from anyformer.porting.tensors import FileModule, Shape

_FEWEST, _MOST = 3, 12
"""Modules of the files that a mixer must explain to be offered, and how many mixers are."""
_NORMS = ("norm_before", "norm_after")


@dataclass(frozen=True)
class Offer:
    """A mixer as `base` reads it from the configuration, the layers in whose files its weights are, and the lines of these.

    `lacking`: how many of its modules the files have not.
    """

    base: str
    branch: str
    mixer: Sublayer
    layers: tuple[int, ...]
    lines: Mapping[Any, To]
    modules: frozenset[str]
    lacking: int

    @property
    def worth(self) -> int:
        return len(self.modules) - self.lacking


@dataclass(frozen=True)
class MixerLayers:
    """`mixer` in the decoder's layers of these numbers, in a branch `name`, where their first mixer stood."""

    layers: tuple[int, ...]
    name: str
    mixer: Sublayer

    def __call__(self, architecture: Architecture) -> Architecture:
        return in_layers(architecture, "decoder", self.layers, self.name, self._block)

    def _block(self, block: Block) -> Block:
        replaced = mixer_of(block)
        if replaced is None:
            return block
        steps = []
        for step in block.steps:
            branches = {
                self.name if name == replaced else name: branch.but(sublayer=self.mixer) if name == replaced else branch
                for name, branch in step.branches.items()
            }
            steps.append(step.but(branches=Named(branches)))
        return block.but(steps=tuple(steps))


def mixer_of(block: Block) -> str | None:
    """The first branch of a block that is no network."""
    return next((name for name, branch in block.branches.items() if _mixes(branch)), None)


def _mixes(branch: Branch) -> bool:
    return not isinstance(branch.sublayer, FeedForward | Experts)


def offers(fits: Iterable[Fit], modules: Mapping[str, FileModule]) -> tuple[Offer, ...]:
    """The mixers of families that read the configuration, of whose weights the files have most, one of several equal ones."""
    found: dict[frozenset[str], Offer] = {}
    for fit in fits:
        for each in _of(fit, modules):
            held = found.get(each.modules)
            if held is None or each.worth > held.worth:
                found[each.modules] = each
    return tuple(sorted(found.values(), key=lambda each: (-each.worth, each.base)))[:_MOST]


def _of(fit: Fit, modules: Mapping[str, FileModule]) -> Iterator[Offer]:
    """The mixers of one family that the files may have, by likeness of names and equal shapes of weights."""
    architecture = fit.architecture
    if architecture is None or architecture.decoder is None or len(architecture.stacks) > 1:
        return
    mixers = {
        name: branch.sublayer
        for block in architecture.decoder.variants.values()
        for name, branch in block.branches.items()
        if _mixes(branch)
    }
    prefix, table = fit.derivation.names(architecture).layers.get("decoder", ("", {}))
    for name, mixer in mixers.items():
        lines = [line for line in fit.lines if _is_of(name, line)]
        groups = {each.layers for each in modules.values() if "{i}" in each.name}
        tried = [_matched(lines, [each for each in modules.values() if each.layers == layers]) for layers in groups]
        best = max(tried, key=len, default={})
        lacking = len(lines) - len(best)
        if len(best) < _FEWEST or lacking * 2 > len(lines):
            continue
        held = dict(_lines(name, prefix, table, best))
        layers = tuple(sorted(next(iter(best.values())).layers))
        yield Offer(fit.derivation.base, name, mixer, layers, held, frozenset(each.name for each in best.values()), lacking)


def _is_of(branch: str, line: StoredLine) -> bool:
    return all(each.startswith(f"{branch}.") and each.removeprefix(f"{branch}.") not in _NORMS for each in line.source)


def _matched(lines: Sequence[StoredLine], files: Sequence[FileModule]) -> dict[str, FileModule]:
    """Module of the family -> that of the files with its shapes in a layer, by likeness of names."""
    pairs = [
        (max(likeness(each.name, name) for name in (line.module.name, ".".join(line.source))), line.module.name, each)
        for line in lines
        for each in files
        if _shapes(line.module) == _shapes(each) != ()
    ]
    found: dict[str, FileModule] = {}
    for likely, name, each in sorted(pairs, key=lambda pair: -pair[0]):
        if likely >= LEAST and name not in found and each not in found.values():
            found[name] = each
    return found


def _shapes(module: FileModule) -> tuple[Any, ...]:
    """(leaf, shapes) of a module's main tensor, where all of its layers agree; else nothing."""
    kinds: set[tuple[Shape, ...]] = set(module.leaves[module.main].values())
    return (module.main, *kinds) if len(kinds) == 1 else ()


def _lines(branch: str, prefix: str, table: Mapping[Any, Any], matched: Mapping[str, FileModule]) -> Iterator[tuple[Any, To]]:
    """The lines of a branch under the files' names; those of what has no module keep their own."""
    for source, target in table.items():
        first = source if isinstance(source, str) else source[0]
        if not first.startswith(f"{branch}.") or first.removeprefix(f"{branch}.") in _NORMS:
            continue
        to = target if isinstance(target, To) else To(target)
        whole = prefix + to.name
        own = next((name for name in matched if whole == name or whole.startswith(f"{name}.")), None)
        yield source, replace(to, name=whole if own is None else matched[own].name + whole.removeprefix(own))


def grafts(fit: Fit, offered: Sequence[Offer]) -> Iterator[Hint]:
    """The mixers of other families, where their weights have no place yet."""
    assert fit.architecture is not None
    if fit.architecture.decoder is None:
        return
    left = {each.name for each in fit.left}
    stack = fit.architecture.decoder
    for offer in offered:
        if len(offer.modules & left) * 2 < len(offer.modules) or max(offer.layers) >= len(stack.layers):
            continue
        replaced = {mixer_of(stack.variants[stack.layers[at]]) for at in offer.layers}
        old = next(iter(replaced)) or ""
        if len(replaced) > 1 or not old:
            continue
        norms = {
            f"{offer.branch}.{line.source[0].removeprefix(f'{old}.')}": fit.matched.get(line.module.name, line.module.name)
            for line in fit.lines
            if len(line.source) == 1 and line.source[0] in (f"{old}.norm_before", f"{old}.norm_after")
        }
        words = offer.branch.replace("_", " ")
        yield Hint(
            f"{words} in {len(offer.layers)} of {len(stack.layers)} layers, as {offer.base} has it",
            (MixerLayers(offer.layers, offer.branch, offer.mixer),),
            {**norms, **offer.lines},
        )
