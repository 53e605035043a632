"""The steps from one architecture to another, from the two descriptions alone: refusals come here, before any work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from anyformer.model import Architecture
from anyformer.parts.embedding.layer_inputs import LayerInputs
from anyformer.parts.layout import HeadsLayout
from anyformer.parts.sublayer import Sublayer
from anyformer.transforming.axis_change import axis_change, comparable
from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.depth import Added, check_silent
from anyformer.transforming.errors import TransformError
from anyformer.transforming.latent import factoring
from anyformer.transforming.matched import Matched, WeightPlace, branches, old_name, places, stacks
from anyformer.transforming.operation import Copied, Keep, New, Operation, TransformStep
from anyformer.transforming.upcycled import upcycling

CONVERSIONS = (upcycling, factoring)
"""Changes of one kind of sublayer into another: functions of both layouts."""


@dataclass(frozen=True)
class Transformation:
    """All steps from `old` to `new`; `dropped`: the names of old weights that nothing reads."""

    old: Architecture
    new: Architecture
    choices: TransformChoices
    steps: tuple[TransformStep, ...]
    dropped: tuple[str, ...]
    stacks: tuple[Matched, ...]


def planned(old: Architecture, new: Architecture, choices: TransformChoices | None = None) -> Transformation:
    """The steps that make the weights of `new` from those of `old`; `TransformError` for a change that none makes."""
    choices = choices or TransformChoices()
    _check(old, new)
    found = stacks(old, new, choices)
    theirs, ours = places(old), places(new)
    steps: dict[str, TransformStep] = {}
    for stack in found.values():
        if choices.grow == "silent":
            _check_silent(stack, new.width, ours)
        for layer, owner in enumerate(stack.new.owners):
            if owner == layer:
                for step in _converted(stack, layer, new.width, ours, choices):
                    steps.update(dict.fromkeys(step.targets, step))
    for path, place in ours.items():
        if path not in steps:
            steps[path] = _single(path, place, found, old, new, theirs, choices)
    ordered = _counted(tuple(dict.fromkeys(steps[path] for path in ours)))
    read = set(chain.from_iterable(step.sources for step in ordered))
    return Transformation(old, new, choices, ordered, tuple(name for name in theirs if name not in read), tuple(found.values()))


def _check(old: Architecture, new: Architecture) -> None:
    for name, here, there in (("width", old.width, new.width), ("embedding_width", old.table_width, new.table_width)):
        if here != there:
            raise TransformError(
                f"{name}: {here} -> {there}: every weight reads or writes the stream, and norms over more features compute "
                f"something else; keep {name} = {here}, and make the network (width of a feedforward) or the depth larger"
            )
    for name, stack in new.stacks.items():
        if name in old.stacks:
            _check_table(old.stacks[name].layer_inputs, stack.layer_inputs, name)
        entrance = new.output_embedding if name == "decoder" else new.embedding
        before = old.stacks[name].max_length if name in old.stacks else None
        if entrance.symbols is None and None not in (before, stack.max_length) and before != stack.max_length:
            raise TransformError(
                f"{name}.position: {before} -> {stack.max_length}: positions of {entrance.kind} do not lie on a line, so their "
                "table is neither stretched nor repeated; keep its length"
            )


def _check_table(old: LayerInputs | None, new: LayerInputs | None, where: str) -> None:
    """Refuse another length of a table of which tokens beyond it read one row."""
    if old is not None and new is not None and old.beyond is not None and old.vocab != new.vocab:
        raise TransformError(
            f"{where}.layer_inputs.vocab: {old.vocab} -> {new.vocab}: tokens beyond the table read its row {old.beyond}, and "
            "would read others; keep its length"
        )


def _converted(
    stack: Matched, layer: int, width: int, ours: Mapping[str, WeightPlace], choices: TransformChoices
) -> Iterator[TransformStep]:
    """Steps of the sublayers of one layer that change their kind, and refusals of what cannot be seen in shapes."""
    old, new = stack.blocks(layer)
    before, after = stack.prefixes(layer)
    variant, added = stack.new.layers[layer], stack.origins[layer].added
    for branch, was in branches(old, new, width).items():
        where, prefix = f"{stack.name}.{variant}.{branch}", f"{after}{branch}.sublayer."
        layouts = old.branches[was].sublayer.layout(width), new.branches[branch].sublayer.layout(width)
        if layouts[0].heads is not None and layouts[1].heads is not None:
            _check_pairs(layouts[0].heads, layouts[1].heads, where)
        networks = layouts[0].network, layouts[1].network
        if networks[0] and networks[1] and networks[1].normed and networks[0].width != networks[1].width:
            raise TransformError(
                f"{where}: width {networks[0].width} -> {networks[1].width}, and a norm runs over these features; keep it"
            )
        told = any(place.weight.axes for path, place in ours.items() if path.startswith(prefix))
        if not told:
            _check_untold(old.branches[was].sublayer, new.branches[branch].sublayer, where)
        writes = frozenset(
            path.removeprefix(prefix) for path, place in ours.items() if place.weight.writes and path.startswith(prefix)
        )
        for conversion in CONVERSIONS:
            for step in conversion(*layouts, where, writes) or ():
                targets = tuple(prefix + name for name in step.targets)
                sources = tuple(f"{before}{was}.sublayer.{name}" for name in step.sources)
                operation = _added(step.operation, targets, ours, choices) if added else step.operation
                yield TransformStep(targets, sources, operation, f"{before}{was}.{step.inputs}" if step.inputs else "")


def _check_pairs(old: HeadsLayout, new: HeadsLayout, where: str) -> None:
    if old.rotary is None or new.rotary is None or old.head_width != new.head_width:
        return
    if old.rotary.pairs(old.head_width) != new.rotary.pairs(new.head_width):
        raise TransformError(
            f"{where}.rotary: fraction, pairing and place say which features turn together, and queries and keys were trained "
            "for theirs; keep them (theta and scaling may change)"
        )


def _check_untold(old: Sublayer, new: Sublayer, where: str) -> None:
    """Refuse other heads in a part whose weights could be cut in another way and still have the same shapes."""
    if type(old) is type(new) and old.tp_divisors != new.tp_divisors:
        heads = [" and ".join(map(str, each.tp_divisors)) for each in (old, new)]
        raise TransformError(
            f"{where}: heads {heads[0]} -> {heads[1]}, and {type(new).__name__} does not tell how its weights are divided "
            "among them; keep the heads"
        )


def _check_silent(stack: Matched, width: int, ours: Mapping[str, WeightPlace]) -> None:
    """Refuse added layers that would change what the others compute."""
    added = [layer for layer, origin in enumerate(stack.origins) if origin.added]
    for layer in added:
        name = stack.new.layers[layer]
        reasons = ["weights that it shares with others"] if stack.new.owners[layer] != layer else []
        reasons += ["later layers that read what it leaves"] if any(read.variant == name for read in stack.new.reads) else []
        for branch, part in stack.new.variants[name].branches.items():
            speaks = part.sublayer.layout(width).speaks
            reasons += [] if speaks is None else [speaks]
            prefix = f"{stack.name}.layers.{layer}.{branch}."
            if not reasons and not any(place.weight.writes for path, place in ours.items() if path.startswith(prefix)):
                reasons.append(f"no weights in {branch} whose zeros would silence it")
        check_silent(stack.old, stack.new, reasons, f"{stack.name}.{name}")
    moved = [layer for layer, origin in enumerate(stack.origins) if not origin.added and _depends(stack, layer)]
    if added and moved:
        was, now = stack.origins[moved[0]].layer, moved[0]
        raise TransformError(
            f"{stack.name}: layer {was} becomes layer {now} of {stack.new.depth}, and has factors that follow from both; "
            "choose layers that stay where they are, or take plain copies (grow = 'copied')"
        )


def _depends(stack: Matched, layer: int) -> bool:
    """Whether factors of a layer change with its number or the depth."""
    block, was = stack.blocks(layer)[1], stack.origins[layer].layer
    return block.of_layer(was, stack.old.depth) != block.of_layer(layer, stack.new.depth)


def _single(
    path: str,
    place: WeightPlace,
    found: Mapping[str, Matched],
    old: Architecture,
    new: Architecture,
    theirs: Mapping[str, WeightPlace],
    choices: TransformChoices,
) -> TransformStep:
    """The step of one weight that its place alone decides: kept or resized if one is there that fits, else new."""
    was, added = old_name(path, place, found, new.width)
    operation: Operation | None = None
    untied = False
    if was not in theirs and (new.head_table or ("",))[0] == path and old.head_table is not None:
        # A head that was tied becomes a table of its own.
        was, untied = old.head_table[0], True
    if was not in theirs:
        return _new(path, place, added, choices)
    here, there = theirs[was].weight, place.weight
    if comparable(here, there):
        operation = axis_change(here, there, _where(place, found) or path, path, choices) or operation or Keep()
    if operation is None and here.shape != there.shape:
        if not here.axes and not there.axes:
            raise TransformError(
                f"{_where(place, found) or path}: {path} {list(here.shape)} -> {list(there.shape)}, and the part does not tell "
                "what these dimensions count; keep its sizes"
            )
        return _new(path, place, added, choices)
    operation = operation or Keep()
    operation = Copied(operation, "the embedding's table") if untied else operation
    return TransformStep((path,), (was,), _added(operation, (path,), {path: place}, choices) if added else operation)


def _new(path: str, place: WeightPlace, added: bool, choices: TransformChoices) -> TransformStep:
    operation: Operation = New()
    if added:
        operation = _added(operation, (path,), {path: place}, choices)
    return TransformStep((path,), (), operation)


def _added(operation: Operation, targets: tuple[str, ...], ours: Mapping[str, WeightPlace], choices: TransformChoices) -> Added:
    silent = choices.grow == "silent"
    return Added(operation, tuple(silent and ours[name].weight.writes for name in targets))


def _where(place: WeightPlace, found: Mapping[str, Matched]) -> str | None:
    """The place of a weight as a user writes it: `decoder.layer.attention`."""
    at = place.address
    if at.layer is None or at.module not in found:
        return None
    return f"{at.module}.{found[at.module].new.layers[int(at.layer)]}.{at.branch}"


def _counted(steps: tuple[TransformStep, ...]) -> tuple[TransformStep, ...]:
    """The steps, with every weight that is kept in several places a copy in all but the first."""
    seen: Counter[str] = Counter()
    counted = []
    for step in steps:
        again = step.operation == Keep() and seen[step.sources[0]] > 0
        counted.append(replace(step, operation=Keep("copied")) if again else step)
        seen.update(step.sources)
    return tuple(counted)
