"""The contents of a diagram in words: blocks as steps and branches, stacks as sections in series.

All other files of the room draw words and lines and know no parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.parts import Block, Stack
from anyformer.parts.call.shared import SOURCE
from anyformer.parts.images.encoder import ImageEncoder
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.step import Step
from anyformer.parts.pointwise.gain import Gain
from anyformer.parts.sketch import Drawn, Sketch, Tone, number
from anyformer.pictures.diagram.kinds import LayerSection, sections
from anyformer.pictures.diagram.places import BranchNames

Place = Literal["rail", "added", "beside", "joined", "aside", "inside"]


@dataclass(frozen=True)
class BranchLook:
    """A branch, from the stream to the sum on the stream."""

    before: str
    sketch: Sketch
    after: str
    factors: tuple[str, ...]
    mixes: bool
    """Whether it moves information between positions."""
    late: bool = False
    """Whether it is added after the last step."""


@dataclass(frozen=True)
class StepLook:
    """Branches that are added together, and the norms and factors on the stream around them."""

    before: str
    normed: bool
    """Whether the norm before is on the stream itself."""
    branches: tuple[BranchLook, ...]
    summed: str
    """The norm of the branches' sum."""
    scale: str
    after: tuple[tuple[str, Tone], ...]
    """Norms and factors on the stream after the sum."""


BlockLook = tuple[StepLook, ...]


@dataclass(frozen=True)
class Item:
    """A box of the input or the output: on the stream, added to it, beside it for all layers to read, at the place where the
    source joins it; or one that reads the stream, beside it or inside the last layer. `part`: the path of what it shows."""

    sketch: Sketch
    place: Place = "rail"
    part: str = ""


@dataclass(frozen=True)
class ColumnLook:
    """A stack with its input and output from bottom to top; a column without sections is an input alone."""

    name: str
    enters: str
    inputs: tuple[Item, ...]
    sections: tuple[LayerSection[BlockLook], ...]
    outputs: tuple[Item, ...]
    leaves: str
    reads: bool
    """Whether its layers attend to the column before it."""
    lanes: int
    """Number of residual streams."""
    path: str = ""
    """Of its stack in the description."""
    branches: Mapping[str, BranchNames] = field(default_factory=dict)
    """The names of the branches of every variant."""


@dataclass(frozen=True)
class Look:
    """An architecture: title, facts below it, one column or two."""

    title: str
    facts: tuple[str, ...]
    columns: tuple[ColumnLook, ...]


def look(architecture: Architecture, title: str) -> Look:
    """The look of an architecture."""
    return Look(title, _facts(architecture), tuple(_columns(architecture)))


def _facts(architecture: Architecture) -> tuple[str, ...]:
    cost = architecture.folded_cost(Shape(source=1))
    active = "" if cost.active_parameters == cost.parameters else f", {_scaled(cost.active_parameters)} active"
    depth = " + ".join(str(stack.depth) for stack in architecture.stacks.values())
    words = (
        architecture.shape_of_model,
        "1 layer" if depth == "1" else f"{depth} layers",
        f"width {number(architecture.width)}",
    )
    return *words, f"{_scaled(cost.parameters)} parameters{active}"


def _scaled(count: int) -> str:
    for size, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size * 0.9995:
            return f"{count / size:.3g} {name}"
    return str(count)


def _columns(architecture: Architecture) -> list[ColumnLook]:
    """The column of the source, if there is one, and the column that the head reads."""
    width, table = architecture.width, architecture.table_width
    first = Item(architecture.embedding.sketch(table), part="embedding")
    enters = architecture.embedding.kind.replace("_", " ")
    columns = []
    if architecture.decoder is not None and (architecture.two_inputs or architecture.latents is not None):
        stack, latents = architecture.encoder, architecture.latents
        position = None if latents is None else latents.position
        inputs = (first, *_added(position, width, "latents.position"))
        columns.append(_column("encoder", stack, enters, inputs, (), "", architecture) if stack else _input(enters, inputs))
        second = architecture.output_embedding
        own = "embedding" if architecture.decoder_embedding is None else "decoder_embedding"
        first, enters = Item(second.sketch(table), part=own), second.kind.replace("_", " ")
        if latents is not None:
            first, enters = Item(latents.sketch(width), part="latents"), ""
        if architecture.source == "prefix":
            first = Item(Sketch("Source before target"), "joined")
    if architecture.images is not None:
        columns.append(_tower(architecture.images, architecture))
        first = Item(Sketch("Images at their tokens"), "joined")
    name, stack = list(architecture.stacks.items())[-1]
    head = architecture.head
    outputs = () if head is None else (Item(head.sketch(width), part="head"),)
    shown = f"{number(architecture.outputs)} " + ("logits" if head is not None and head.outputs != "features" else "features")
    inputs = (
        (Item(architecture.output_embedding.sketch(table), part="embedding"), first) if first.place == "joined" else (first,)
    )
    return [*columns, _column(name, stack, enters, inputs, outputs, shown, architecture)]


def _tower(tower: ImageEncoder, architecture: Architecture) -> ColumnLook:
    """The column of images, up to the embeddings of their tokens."""
    outputs = [Item(tower.projector.sketch(architecture.table_width), part="images.projector")]
    if tower.deep is not None:
        of_layers = (f"behind layers {', '.join(map(str, tower.deep.layers))}", "added behind the first layers of the text")
        outputs.append(Item(Sketch("Deep-stack", of_layers), "aside", "images.deep"))
    width = tower.width
    inputs = (
        Item(tower.patches.sketch(width), part="images.patches"),
        *(Item(sketch, "added") for sketch in tower.beside_sketches()),
    )
    return _column("images", tower.stack, "images", inputs, tuple(outputs), "", architecture, (width, width))


def _input(enters: str, inputs: tuple[Item, ...]) -> ColumnLook:
    return ColumnLook("input", enters, inputs, (), (), "", reads=False, lanes=1)


def _column(
    name: str,
    stack: Stack,
    enters: str,
    inputs: tuple[Item, ...],
    outputs: tuple[Item, ...],
    leaves: str,
    architecture: Architecture,
    widths: tuple[int, int] | None = None,
) -> ColumnLook:
    """The column of a stack; `widths`: of its stream and of what enters, where these are not the architecture's."""
    (width, table), projection = widths or (architecture.width, architecture.table_width), []
    path = "images.stack" if widths else name
    if stack.input_projection is not None:
        sketch = Sketch("Linear", (f"{number(table)} → {number(width)}",))
        projection = [Item(sketch, part=f"{path}.input_projection")]
    before = stack.width_before(width, table)
    late = stack.input_projection is not None and stack.input_projection.place == "last"
    norm = () if stack.input_norm is None else (Item(stack.input_norm.sketch(before), part=f"{path}.input_norm"),)
    position = _added(stack.position, before, f"{path}.position")
    placed = (*norm, *position) if stack.input_norm_at == "before_position" else (*position, *norm)
    streams = [] if stack.streams is None else [Item(stack.streams.sketch(width), part=f"{path}.streams")]
    read = ("condition", stack.condition), ("layer_inputs", stack.layer_inputs), ("score_bias", stack.score_bias)
    parts = (*read, ("relative", stack.relative))
    beside = [Item(part.sketch(width), "beside", f"{path}.{own}") for own, part in parts if part is not None]
    looks = {variant: block_look(block, width) for variant, block in stack.variants.items()}
    last = ("final_norm", stack.final_norm), ("final_modulation", stack.final_modulation)
    final = [Item(part.sketch(width), part=f"{path}.{own}") for own, part in last if part is not None]
    return ColumnLook(
        name=name,
        enters=enters,
        inputs=(*inputs, *([] if late else projection), *placed, *(projection if late else []), *streams, *beside),
        sections=sections(stack.layers, looks, stack.shared_weights),
        outputs=(*final, *outputs) if name != "decoder" else _with_later(architecture, final, outputs),
        leaves=leaves,
        reads=SOURCE in stack.reads,
        lanes=1 if stack.streams is None else stack.streams.lanes,
        path=path,
        branches={variant: tuple(tuple(step.branches) for step in block.steps) for variant, block in stack.variants.items()},
    )


def _with_later(architecture: Architecture, final: Sequence[Item], outputs: Sequence[Item]) -> tuple[Item, ...]:
    """The last norm and the head, and where it reads them what predicts later tokens."""
    later = architecture.mtp
    if later is None:
        return *final, *outputs
    item = Item(later.sketch(architecture.width), "inside" if later.reads_stream else "aside", "mtp")
    return (item, *final, *outputs) if later.reads_stream else (*final, item, *outputs)


def _added(position: Drawn | None, width: int, part: str) -> tuple[Item, ...]:
    return () if position is None else (Item(position.sketch(width), "added", part),)


def block_look(block: Block, width: int) -> BlockLook:
    """The look of a block."""
    return tuple(_step(step, width) for step in block.steps)


def _step(step: Step, width: int) -> StepLook:
    norm: list[tuple[str, Tone]] = [] if step.norm_after is None else [(_title(step.norm_after, width), "norm")]
    gain: list[tuple[str, Tone]] = [] if step.gain is None else [(_gain(step.gain), "pointwise")]
    return StepLook(
        before=_title(step.norm_before, width),
        normed=step.residual == "normed",
        branches=tuple(_branch(branch, width) for branch in step.branches.values()),
        summed=_title(step.norm_branches, width),
        scale=" ".join(_residual(step)),
        after=(*norm, *gain),
    )


def _residual(step: Step) -> Iterator[str]:
    """What becomes of the stream before the branches are added, in words, where it is not the stream itself."""
    if step.residual == "detached":
        yield "detached"
    if step.residual == "block":
        yield "block input"
    if step.residual == "inactive":
        yield "other streams"
    if step.interpolation is not None:
        yield "× (1 − |g|)"
    if isinstance(step.residual_scale, str):
        yield "× √(1 − 1/n)"
    elif step.residual == "none" or step.residual_scale != 1:
        yield f"× {number(0.0 if step.residual == 'none' else step.residual_scale)}"


def _branch(branch: Branch, width: int) -> BranchLook:
    factors = [] if branch.gain is None else [_gain(branch.gain)]
    factors += ["× gate of the condition"] if branch.modulation is not None and branch.modulation.gate else []
    factors += [] if branch.multiplier == 1 else [f"× {number(branch.multiplier)}"]
    return BranchLook(
        before=" + ".join(filter(None, (_title(branch.norm_before, width), _title(branch.modulation, width)))),
        sketch=branch.sublayer.sketch(width),
        after=_title(branch.norm_after, width),
        factors=tuple(factors),
        mixes=branch.sublayer.traits.mixing is not None or SOURCE in branch.sublayer.reads,
        late=branch.added is not None,
    )


def _gain(gain: Gain) -> str:
    return f"× {'tanh of one ' if gain.bounded else ''}learned, per {gain.per}"


def _title(part: Drawn | None, width: int) -> str:
    return "" if part is None else part.sketch(width).title
