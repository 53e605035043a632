"""What parts tell about their weights agrees with the weights that they declare."""

from __future__ import annotations

from dataclasses import fields
from math import prod

from zoo import ZOO

from anyformer.operations import Shape
from anyformer.parts.layout import HeadsLayout, LatentLayout
from anyformer.plan import Plan


def test_factors_multiply_to_the_dimension():
    every = {
        f"{name}: {path}": weight for name, each in ZOO.items() for path, weight in each.folded_cost(Shape()).weights.items()
    }
    for path, weight in every.items():
        assert len(weight.axes) in (0, len(weight.shape)), path
        for size, factors in zip(weight.shape, weight.axes, strict=False):
            counted = prod(count for _, count in factors)
            in_front = [axis for axis, _ in factors] == ["positions"]
            assert not factors or counted == size or (in_front and counted <= size), path


def test_layouts_name_weights_that_are_there():
    found = {"network": 0, "heads": 0, "latent": 0}
    for architecture in ZOO.values():
        for stack in architecture.stacks.values():
            for block in stack.variants.values():
                for sublayer in block.sublayers:
                    layout = sublayer.layout(architecture.width)
                    names: list[str] = []
                    if layout.network is not None:
                        names += [*layout.network.weights.values(), *layout.network.shared.values()]
                    for part in (layout.heads, layout.latent):
                        names += [] if part is None else texts(part)
                    own = sublayer.cost(architecture.width, Shape(source=1), Plan()).weights
                    missing = set(names) - set(own)
                    # Queries that are projected directly have no way down.
                    if layout.latent is not None and layout.latent.q_rank is None:
                        missing -= {layout.latent.query_down}
                    assert not missing, sublayer
                    for what in found:
                        found[what] += getattr(layout, what) is not None
    assert all(found.values()), found


def texts(part: HeadsLayout | LatentLayout) -> list[str]:
    """The names in a layout of attention: its fields of text."""
    return [getattr(part, field.name) for field in fields(part) if field.type == "str"]
