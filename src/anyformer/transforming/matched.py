"""Which part of the old architecture each part of the new one comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyformer.model import Architecture
from anyformer.operations import Address, Shape, Weight
from anyformer.parts import Block, Stack
from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.depth import Origin, origins
from anyformer.transforming.errors import TransformError


@dataclass(frozen=True)
class WeightPlace:
    """A declared weight with its address."""

    weight: Weight
    address: Address


def places(architecture: Architecture) -> dict[str, WeightPlace]:
    """Every declared weight by name, in the order declared."""
    nodes = [node for node in architecture.trained_cost(Shape()).nodes() if node.weight_times]
    return {
        node.name(own): WeightPlace(weight, node.address) for node in nodes for own, weight in node.tally.own_weights.items()
    }


@dataclass(frozen=True)
class Matched:
    """Two stacks: their names, and where each layer of the new one comes from."""

    old_name: str
    name: str
    old: Stack
    new: Stack
    origins: tuple[Origin, ...]

    def blocks(self, layer: int) -> tuple[Block, Block]:
        """The old block and the new one of a new layer."""
        return self.old.variants[self.old.layers[self.origins[layer].layer]], self.new.variants[self.new.layers[layer]]

    def prefixes(self, layer: int) -> tuple[str, str]:
        """The beginnings of the names of the old and the new weights of a new layer."""
        owner = self.old.owners[self.origins[layer].layer]
        return f"{self.old_name}.layers.{owner}.", f"{self.name}.layers.{layer}."


def stacks(old: Architecture, new: Architecture, choices: TransformChoices) -> dict[str, Matched]:
    """The new stacks that have an old one, by name: that of the same name, or the only one of an architecture with one."""
    theirs, ours = old.stacks, new.stacks
    pairs = {name: name for name in ours if name in theirs}
    if len(theirs) == len(ours) == 1:
        pairs = dict(zip(ours, theirs, strict=True))
    found = {}
    for name, old_name in pairs.items():
        given = choices.layers if ours[name] is new.output_stack else None
        found[name] = Matched(old_name, name, theirs[old_name], ours[name], origins(theirs[old_name], ours[name], given, name))
    if choices.layers is not None and not any(each.new is new.output_stack for each in found.values()):
        raise TransformError("layers are chosen, and the old model has no stack to choose them from; leave them out")
    return found


def branches(old: Block, new: Block, width: int) -> Mapping[str, str]:
    """The old branch of each new one: that of the same name, else the next of the others that can become it."""
    pairs = {name: name for name in new.branches if name in old.branches}
    left = [name for name in old.branches if name not in pairs]
    for name, branch in new.branches.items():
        if name in pairs:
            continue
        theirs = {each: old.branches[each].sublayer for each in left}
        ours = branch.sublayer
        like = [each for each, sublayer in theirs.items() if type(sublayer) is type(ours)]
        layout = ours.layout(width)
        like += [
            each
            for each, sublayer in theirs.items()
            if (layout.network and sublayer.layout(width).network) or (layout.latent and sublayer.layout(width).heads)
        ]
        if like:
            pairs[name] = like[0]
            left.remove(like[0])
    return pairs


def old_name(path: str, place: WeightPlace, found: Mapping[str, Matched], width: int) -> tuple[str, bool]:
    """The name of the old weight at the place of a new one, whether or not there is one; and whether its layer is added."""
    stack = found.get(place.address.module)
    if stack is None:
        return path, False
    if place.address.layer is None:
        return stack.old_name + path.removeprefix(stack.name), False
    layer = int(place.address.layer)
    theirs, ours = stack.prefixes(layer)
    rest, added = path.removeprefix(ours), stack.origins[layer].added
    old, new = stack.blocks(layer)
    branch = place.address.branch or ""
    # A norm or gain beside the branches is named by its step.
    if branch in new.branches and rest.startswith(f"{branch}."):
        rest = branches(old, new, width).get(branch, branch) + rest.removeprefix(branch)
    return theirs + rest, added
