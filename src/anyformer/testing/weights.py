"""Contracts of what a part says of its weights beside their shapes: how processes cut them, and what they start as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anyformer.describe import Value
from anyformer.model import Architecture
from anyformer.model.narrowed import cuts
from anyformer.operations import Shape, Weight
from anyformer.parts import Attention
from anyformer.parts.layers.branch import Branch
from anyformer.parts.norms.norm import Norm
from anyformer.parts.slot import SlotPart
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.testing.around import WIDTH

WAYS = 2
CUT: Mapping[str, int | None] = {"column": 0, "row": 1, "replicate": None}
"""Role -> the dimension along which processes cut a weight; experts are cut as their processes are laid out."""
CONSTANTS: Mapping[object, float] = {"ones": 1.0, "zeros": 0.0}
"""Words for numbers that weights start as."""


def branches(architecture: Architecture) -> Iterator[tuple[str, Branch]]:
    """Every branch of every variant, with its name."""
    for stack in architecture.stacks.values():
        for variant, block in stack.variants.items():
            for name, branch in block.branches.items():
                yield f"{variant}.{name}", branch


def weights_are_cut_as_their_roles_say(architecture: Architecture) -> None:
    """Where several processes divide a sublayer, `narrowed` cuts a weight along the dimension of its role: by the roles memory
    and communication of a layout are planned."""
    for name, branch in branches(architecture):
        whole, width = branch.sublayer, architecture.width
        part = whole.narrowed(width, WAYS)
        if part is None:
            continue
        declared = whole.cost(width, Shape(source=1), Plan()).weights
        for path, cut in cuts(whole, part, width, WAYS).items():
            weight = declared[path]
            if weight.role == "expert" or (cut.dimension is None and _of_one(weight)):
                continue
            assert cut.dimension == CUT[weight.role], (
                f"{name}: {path} is declared with the role {weight.role!r}, and `narrowed` cuts it along "
                f"{'no dimension' if cut.dimension is None else f'dimension {cut.dimension}'}"
            )


def _of_one(weight: Weight) -> bool:
    """Whether what its role would divide is one: the key of a single head stays whole."""
    along = CUT[weight.role]
    return along is not None and bool(weight.axes) and weight.axes[along][:1] in ((("kv_heads", 1),), (("heads", 1),))


def what_adds_up_writes_to_the_stream(architecture: Architecture) -> None:
    """Where several processes divide a sublayer, a matrix whose products they add up (`role="row"`) is declared to write to the
    stream (`fill="residual"`): deep models start it smaller, and new layers start as nothing by it."""
    for name, branch in branches(architecture):
        if branch.sublayer.narrowed(architecture.width, WAYS) is None:
            continue
        for path, weight in branch.sublayer.cost(architecture.width, Shape(source=1), Plan()).weights.items():
            if weight.role == "row" and weight.is_matrix and weight.linear:
                assert weight.writes or weight.fill == "embedding", (
                    f"{name}: {path} has the role 'row', and starts as {weight.fill!r}: what it gives is added to the stream: "
                    "give it fill='residual'"
                )


def axes_count_what_they_name(part: SlotPart) -> None:
    """A factor of a weight's dimension has the size of what it is said to count: weights are cut and grown by these names."""
    sizes = Attention(heads=6, kv_heads=3, head_width=5).sizes(WIDTH)
    counts = {"heads": sizes.heads, "kv_heads": sizes.groups, "features": sizes.head_width}
    for name, weight in part.cost(sizes, Shape(), 1).weights.items():
        for dimension, _, what, size in weight.factors:
            assert size == counts.get(what, size), (
                f"{name}: dimension {dimension} is said to count {size} {what}, and of {what} there are {counts[what]}"
            )


def weights_start_as_said(part: Value, starts: Mapping[str, float | str]) -> None:
    """The weights of a part start as is said a second time: a number, or the rule of an architecture's initialisation."""
    declared = {name: CONSTANTS.get(weight.fill, weight.fill) for name, weight in _weights_of(part).items()}
    assert declared == dict(starts), f"`cost` declares that its weights start as {declared}, and they should as {dict(starts)}"


def _weights_of(part: Value) -> Mapping[str, Weight]:
    """What a part declares in a model of the usual tiny width."""
    if isinstance(part, Sublayer):
        return part.cost(WIDTH, Shape(source=1), Plan()).weights
    if isinstance(part, Norm):
        return part.cost(WIDTH, 1).weights
    assert isinstance(part, SlotPart), f"{type(part).__name__} declares no weights of its own"
    return part.cost(Attention(heads=4, kv_heads=2).sizes(WIDTH), Shape(), 1).weights
