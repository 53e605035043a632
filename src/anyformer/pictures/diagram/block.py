"""A block: the residual stream as a line from bottom to top; branches leave it, and come back at a circled plus."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.pictures.diagram.flow import LOW, SMALL, box, small_box
from anyformer.pictures.diagram.look import BlockLook, BranchLook, StepLook
from anyformer.pictures.diagram.shapes import Box, Drawing, Mark, Point, Polyline, Shape, TextLine
from anyformer.pictures.diagram.text import LINE, width_of

RAIL, LEFT, RIGHT = 24.0, 50.0, 12.0
"""Distances of the stream and the branches from the left of the frame, and the free space on its right."""
BETWEEN, SPACE, TURN = 10.0, 8.0, 10.0
"""Spaces between parallel branches, between rows, and before a line turns."""
LANE = 2.2
"""Distance between residual streams."""
HEADER = 16.0
NORM_ON_RAIL = 96.0
"""Least width of a box on the stream."""


@dataclass(frozen=True)
class Side:
    """The side of the frame on which the stream runs: from places laid out for the left to places in the drawing."""

    width: float
    mirrored: bool

    def x(self, x: float) -> float:
        return self.width - x if self.mirrored else x

    def box(self, x: float, width: float) -> float:
        """The left of a box."""
        return self.width - x - width if self.mirrored else x

    def line(self, *points: Point, **style: bool) -> Polyline:
        return Polyline(tuple((self.x(x), y) for x, y in points), **style)


def rail(x: float, bottom: float, top: float, lanes: int, *, arrow: bool = False) -> list[Shape]:
    """The stream, or several side by side."""
    first = x - LANE * (lanes - 1) / 2
    return [
        Polyline(((first + LANE * i, bottom), (first + LANE * i, top)), arrow=arrow, thick=lanes == 1) for i in range(lanes)
    ]


def step_heights(look: BlockLook, column: float) -> tuple[float, ...]:
    """The tallest sublayer of each step."""
    return tuple(max(box(branch.sketch, column, "", "").height for branch in step.branches) for step in look)


def frame_width(look: BlockLook, column: float) -> float:
    """The width of a frame around the widest step."""
    most = max(len(step.branches) for step in look)
    return LEFT + most * column + (most - 1) * BETWEEN + RIGHT


def block(
    look: BlockLook, column: float, heights: tuple[float, ...], about: str, *, header: str, kind: int, mirrored: bool
) -> Drawing:
    """A frame around its steps, without the stream, which `rail` draws once the frame's height is known."""
    side = Side(frame_width(look, column), mirrored)
    y, shapes, ports, late = 0.0, list[Shape](), list[Point](), list[tuple[Point, ...]]()
    for number, step in enumerate(look):
        drawn, waiting = _step(step, side, column, heights[number], f"{about}/{number}")
        shapes += drawn.at(0, y)
        ports += drawn.ports_at(0, y)
        late += [tuple((px, y + py) for px, py in path) for path in waiting]
        y += drawn.height
    if late:
        y += TURN
        shapes += _late(side, late, y)
        y += 6
    y += SPACE
    if header:
        wide = width_of(header, SMALL, True) + 10
        x = side.box(LEFT, wide)
        shapes.append(Box(x, y, wide, HEADER - 4, f"kind {kind}"))
        shapes.append(TextLine(x + wide / 2, y + HEADER / 2 - 2, header, SMALL, bold=True))
        y += HEADER
    return Drawing(side.width, y, tuple(shapes), tuple(ports))


def _late(side: Side, late: list[tuple[Point, ...]], y: float) -> list[Shape]:
    """Lines from branches, beside the steps that follow, to a plus on the stream behind these."""
    edge = side.width - RIGHT / 2
    lines = [side.line(*path, (edge, path[-1][1]), (edge, y)) for path in late]
    return [*lines, side.line((edge, y), (RAIL + 4, y), arrow=True), Mark(side.x(RAIL), y, "+")]


def _step(step: StepLook, side: Side, column: float, height: float, about: str) -> tuple[Drawing, list[tuple[Point, ...]]]:
    """A step, from the place where its branches leave the stream to the norms and factors after their sum; and the lines
    above branches that are added later, as far as they rise here."""
    shapes, ports, y = list[Shape](), list[Point](), SPACE
    if step.normed:
        shapes += _on_rail(side, y, step.before, "norm", f"{about}/before")
        y += LOW + SPACE
    count = len(step.branches)
    centres = [LEFT + column / 2 + i * (column + BETWEEN) for i in range(count)]
    leave = y + 3
    shapes.append(Mark(side.x(RAIL), leave))
    paths: list[tuple[Point, ...]] = [((RAIL, leave), (centre, leave)) for centre in centres]
    y = leave + TURN
    if step.before and not step.normed:
        middle, wide = (centres[0] + centres[-1]) / 2, centres[-1] - centres[0] + column
        shapes.append(side.line((RAIL, leave), (middle, leave), (middle, y), arrow=True))
        shapes += small_box(side.box(LEFT, wide), y, wide, step.before, "norm", f"{about}/before")
        paths = [((centre, y + LOW),) for centre in centres]
        y += LOW + SPACE
    # A branch without a norm before is level with the others' sublayers, not with their norms.
    raised = LOW + SPACE if any(branch.before for branch in step.branches) else 0.0
    tops, late = list[Point](), list[Point]()
    for i, (branch, centre, path) in enumerate(zip(step.branches, centres, paths, strict=True)):
        start = y if branch.before else y + raised
        drawn, x = _branch(branch, column, height, f"{about}/{i}"), side.box(centre - column / 2, column)
        shapes += [side.line(*path, (centre, start), arrow=True), *drawn.at(x, start)]
        ports += drawn.ports_at(x, start)
        (late if branch.late else tops).append((centre, start + drawn.height))
    highest = max(top for _, top in [*tops, *late])
    waiting: list[tuple[Point, ...]] = [((x, top), (x, highest + TURN / 2)) for x, top in late]
    y = highest + TURN
    if tops:
        back, y = _coming_back(step, side, column, tops, y, f"{about}/sum")
        shapes += [*back, Mark(side.x(RAIL), y, "+")]
    if step.scale:
        shapes += _factor_of_stream(side, (leave + y) / 2, step.scale, f"{about}/scale")
    y += 6
    for i, (text, tone) in enumerate(step.after):
        shapes += _on_rail(side, y + SPACE, text, tone, f"{about}/after {i}")
        y += SPACE + LOW
    return Drawing(side.width, y, tuple(shapes), tuple(ports)), waiting


def _coming_back(
    step: StepLook, side: Side, column: float, tops: list[Point], y: float, about: str
) -> tuple[list[Shape], float]:
    """Lines from the branches, bent at y, to the plus on the stream, by way of the norm of their sum; the plus's height."""
    if not step.summed:
        lines: list[Shape] = [side.line((x, top), (x, y), (RAIL + 4, y), arrow=True) for x, top in tops]
        return [*lines, *(Mark(side.x(x), y) for x, _ in tops[:-1])], y
    middle = (tops[0][0] + tops[-1][0]) / 2
    low = y + SPACE + 2
    shapes: list[Shape] = [side.line((x, top), (x, y), (middle, y)) for x, top in tops]
    shapes.append(side.line((middle, y), (middle, low), arrow=True))
    shapes += [Mark(side.x(middle), y, "+")] if len(tops) > 1 else []
    shapes += small_box(side.box(middle - column / 2, column), low, column, step.summed, "norm", about)
    y = low + LOW + TURN
    return [*shapes, side.line((middle, low + LOW), (middle, y), (RAIL + 4, y), arrow=True)], y


def _branch(branch: BranchLook, column: float, height: float, about: str) -> Drawing:
    """Norm, sublayer, norm and factors."""
    shapes, y, middle = list[Shape](), 0.0, column / 2
    if branch.before:
        shapes += small_box(0, 0, column, branch.before, "norm", f"{about}/before")
        shapes.append(Polyline(((middle, LOW), (middle, LOW + SPACE)), arrow=True))
        y = LOW + SPACE
    drawn = box(branch.sketch, column, "mixing" if branch.mixes else "pointing", f"{about}/sublayer", height)
    shapes += drawn.at(0, y)
    ports = drawn.ports_at(0, y)
    y += drawn.height
    after = [(branch.after, "norm")] if branch.after else []
    for i, (text, tone) in enumerate([*after, *((factor, "pointwise") for factor in branch.factors)]):
        shapes.append(Polyline(((middle, y), (middle, y + SPACE)), arrow=True))
        shapes += small_box(0, y + SPACE, column, text, tone, f"{about}/after {i}")
        y += SPACE + LOW
    return Drawing(column, y, tuple(shapes), ports)


def _on_rail(side: Side, y: float, text: str, tone: str, about: str) -> list[Shape]:
    wide = max(NORM_ON_RAIL, width_of(text, SMALL) + 10)
    return small_box(side.box(RAIL - 14, wide), y, wide, text, tone, about)


def _factor_of_stream(side: Side, y: float, text: str, about: str) -> list[Shape]:
    """The factor of the stream to which the branches are added."""
    wide = width_of(text, SMALL - 0.6) + 5
    low = SMALL * LINE + 2
    x = side.x(RAIL)
    return [
        Box(x - wide / 2, y - low / 2, wide, low, "pointwise", about, text),
        TextLine(x, y, text, SMALL - 0.6, about=about),
    ]
