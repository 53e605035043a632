"""A block of the compact form: the stream on one side, sublayers in words on the other, as in `block`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from anyformer.parts.sketch import Cell, Chain, Fan, Flow, SideInput, Sketch
from anyformer.pictures.diagram.block import Side, rail
from anyformer.pictures.diagram.kinds import LayerKind
from anyformer.pictures.diagram.look import BlockLook, BranchLook, StepLook
from anyformer.pictures.diagram.shapes import Box, Drawing, Mark, Point, Shape, written
from anyformer.pictures.diagram.text import LINE, listed, width_of, wrapped

TEXT, NAME = 7.0, 7.6
"""Sizes of text: no letter is smaller."""
RAIL, LEFT, RIGHT = 9.0, 20.0, 5.0
"""Distances of the stream and the branches from the left of the frame, and the free space on its right."""
PAD, SPACE, TURN, APART, LATE = 3.0, 6.0, 6.0, 4.0, 8.0
"""Spaces in a box, between boxes, where lines turn, between parallel branches, and for lines of branches added later."""


@dataclass(frozen=True)
class SublayerText:
    """A sublayer in words; `reads`: whether it reads the source."""

    look: BranchLook
    facts: tuple[str, ...]
    reads: bool


def parts_of(look: BlockLook, shown: dict[Sketch, str]) -> tuple[tuple[SublayerText, ...], ...]:
    """The sublayers of each step; those `shown` before only say where."""
    return tuple(tuple(_part(branch, shown.get(branch.sketch)) for branch in step.branches) for step in look)


def _part(branch: BranchLook, shown: str | None) -> SublayerText:
    flow = branch.sketch.flow
    cells = () if flow is None else tuple(cell.text for cell in _cells(flow))
    facts = dict.fromkeys(fact for text in (*branch.sketch.facts, *cells) for fact in text.split(" · "))
    reads = flow is not None and any(given.source for given in _given(flow))
    return SublayerText(branch, tuple(facts) if shown is None else (shown,), reads)


def _cells(flow: Flow) -> Iterator[Cell]:
    """The cells of a flow from the stream to the output."""
    match flow:
        case Cell():
            yield flow
        case SideInput():
            yield from _cells(flow.flow)
        case Chain() | Fan():
            for item in flow.items:
                yield from _cells(item)


def _given(flow: Flow) -> Iterator[SideInput]:
    """What a flow reads beside the stream."""
    match flow:
        case SideInput():
            yield flow
        case Chain() | Fan():
            for item in flow.items:
                yield from _given(item)


def boxed(x: float, y: float, width: float, title: str, facts: Sequence[str], tone: str, about: str) -> list[Shape]:
    """A box with a title and facts; the box is the first shape."""
    lines = wrapped(title, TEXT, width - 2 * PAD, bold=True)
    more = listed(facts, TEXT, width - 2 * PAD)
    head = len(lines) * TEXT * LINE
    height = head + len(more) * TEXT * LINE + PAD
    top = y + height - PAD / 2
    words = written(x + width / 2, top, lines, TEXT, bold=True, about=about)
    words += written(x + width / 2, top - head, more, TEXT, about=about)
    return [Box(x, y, width, height, tone, about, title), *words]


def low_box(x: float, y: float, width: float, text: str, tone: str, about: str) -> list[Shape]:
    """A box of one text in plain letters; the box is the first shape."""
    lines = wrapped(text, TEXT, width - 2 * PAD)
    height = len(lines) * TEXT * LINE + PAD - 0.5
    words = written(x + width / 2, y + height - PAD / 2 + 0.25, lines, TEXT, about=about)
    return [Box(x, y, width, height, tone, about, text), *words]


def _height(shapes: Sequence[Shape]) -> float:
    (first, *_) = shapes
    assert isinstance(first, Box)
    return first.height


def frame(kind: LayerKind[BlockLook], header: str, number: int | None, shown: dict[Sketch, str], at: BlockFrame) -> Drawing:
    """A block in its frame with the stream through it, its header on top, in the colour of its kind where it has a number."""
    side = Side(at.width, at.mirrored)
    steps = Steps(side, kind.look, at.about)
    for i, (step, parts) in enumerate(zip(kind.look, parts_of(kind.look, shown), strict=True)):
        steps.put(i, step, parts)
    steps.finish()
    y, shapes = steps.y + SPACE - 2, steps.shapes
    title = wrapped(header, NAME, at.width - LEFT - RIGHT - 4, bold=True)
    wide = max(width_of(line, NAME, True) for line in title) + 6
    high = len(title) * NAME * LINE
    if number is not None:
        shapes.append(Box(side.box(LEFT, wide), y - 1, wide, high + 1.5, f"kind {number}"))
    x = side.box(LEFT, wide) + wide / 2
    shapes += written(x, y + high, title, NAME, bold=True, about=f"{at.about}/header")
    y += high + 3
    drawn = [Box(0, 0, at.width, y, "frame"), *rail(side.x(RAIL), 0, y, at.lanes), *shapes]
    return Drawing(at.width, y, tuple(drawn), tuple(steps.ports))


@dataclass(frozen=True)
class BlockFrame:
    """The place of a block: its width, its side, the number of streams, and its name in comparisons."""

    width: float
    mirrored: bool
    lanes: int
    about: str

    def narrower(self, by: float) -> BlockFrame:
        return replace(self, width=self.width - by)


class Steps:
    """The steps of a block, put one above the other."""

    def __init__(self, side: Side, look: BlockLook, about: str) -> None:
        self.side, self.about, self.y = side, about, 0.0
        self.shapes, self.ports, self.late = list[Shape](), list[Point](), list[tuple[Point, ...]]()
        right = RIGHT + (LATE if any(branch.late for step in look for branch in step.branches) else 0.0)
        self.column = side.width - LEFT - right

    def on_rail(self, text: str, tone: str, about: str) -> None:
        """Put a box on the stream."""
        wide = self.side.width - RIGHT - RAIL + 5
        made = low_box(self.side.box(RAIL - 5, wide), self.y, wide, text, tone, f"{self.about}/{about}")
        self.shapes += made
        self.y += _height(made)

    def put(self, number: int, step: StepLook, parts: Sequence[SublayerText]) -> None:
        """Put a step: from where its branches leave the stream to the plus, and the norms on the stream."""
        self.y += SPACE
        if step.normed:
            self.on_rail(step.before, "norm", f"{number}/before")
            self.y += SPACE
        count = len(parts)
        share = (self.column - APART * (count - 1)) / count
        lefts = [LEFT + i * (share + APART) for i in range(count)]
        leave = self.y + 2
        self.shapes.append(Mark(self.side.x(RAIL), leave))
        paths: list[tuple[Point, ...]] = [((RAIL, leave), (left + share / 2, leave)) for left in lefts]
        y = leave + TURN
        if step.before and not step.normed:
            middle = LEFT + self.column / 2
            self.shapes.append(self.side.line((RAIL, leave), (middle, leave), (middle, y), arrow=True))
            x = self.side.box(LEFT, self.column)
            made = low_box(x, y, self.column, step.before, "norm", f"{self.about}/{number}/before")
            self.shapes += made
            paths = [((left + share / 2, y + _height(made)),) for left in lefts]
            y += _height(made) + SPACE
        tops = []
        for i, (part, left, path) in enumerate(zip(parts, lefts, paths, strict=True)):
            self.shapes.append(self.side.line(*path, (left + share / 2, y), arrow=True))
            tops.append(self.branch(part, left, share, y, f"{self.about}/{number}/{i}"))
        self.back(number, step, [left + share / 2 for left in lefts], tops, [part.look.late for part in parts], leave)
        for i, (text, tone) in enumerate(step.after):
            self.y += SPACE - 1
            self.on_rail(text, tone, f"{number}/after {i}")

    def branch(self, part: SublayerText, left: float, width: float, y: float, about: str) -> float:
        """Put the boxes of a branch above one another, and return the height where it ends."""
        look, x, middle = part.look, self.side.box(left, width), left + width / 2
        tone = "mixing" if look.mixes else "pointing"
        before = [(look.before, "norm", "before")] if look.before else []
        after = [*([(look.after, "norm")] if look.after else []), *((factor, "pointwise") for factor in look.factors)]
        for text, kind, place in before:
            made = low_box(x, y, width, text, kind, f"{about}/{place}")
            self.shapes += [*made, self.side.line((middle, y + _height(made)), (middle, y + _height(made) + SPACE), arrow=True)]
            y += _height(made) + SPACE
        made = boxed(x, y, width, look.sketch.title, part.facts, tone, f"{about}/sublayer")
        self.shapes += made
        if part.reads:
            self.ports.append((x, y + _height(made) / 2))
        y += _height(made)
        for i, (text, kind) in enumerate(after):
            self.shapes.append(self.side.line((middle, y), (middle, y + SPACE), arrow=True))
            made = low_box(x, y + SPACE, width, text, kind, f"{about}/after {i}")
            self.shapes += made
            y += SPACE + _height(made)
        return y

    def back(
        self, number: int, step: StepLook, centres: Sequence[float], tops: Sequence[float], late: Sequence[bool], leave: float
    ) -> None:
        """Draw lines from the branches to the plus on the stream, or as far as those rise that are added later."""
        high = max(tops)
        ends = [(x, top) for x, top, waits in zip(centres, tops, late, strict=True) if not waits]
        self.late += [((x, top), (x, high + TURN / 2)) for x, top, waits in zip(centres, tops, late, strict=True) if waits]
        self.y = high + TURN
        if step.scale:
            wide = width_of(step.scale, TEXT) + 2 * PAD
            self.shapes += low_box(
                self.side.box(1, wide), self.y - 1, wide, step.scale, "pointwise", f"{self.about}/{number}/scale"
            )
            self.y += TEXT * LINE + PAD + TURN
        if not ends:
            return
        if step.summed:
            middle = LEFT + self.column / 2
            self.shapes += [self.side.line((x, top), (x, self.y), (middle, self.y)) for x, top in ends]
            self.shapes.append(self.side.line((middle, self.y), (middle, self.y + SPACE), arrow=True))
            x = self.side.box(LEFT, self.column)
            made = low_box(x, self.y + SPACE, self.column, step.summed, "norm", f"{self.about}/{number}/sum")
            self.shapes += [*made, *([Mark(self.side.x(middle), self.y, "+")] if len(ends) > 1 else [])]
            top = self.y + SPACE + _height(made)
            self.y = top + TURN
            ends = [(middle, top)]
        self.shapes += [self.side.line((x, top), (x, self.y), (RAIL + 4, self.y), arrow=True) for x, top in ends]
        self.shapes += [Mark(self.side.x(x), self.y) for x, _ in ends[:-1]]
        self.shapes.append(Mark(self.side.x(RAIL), self.y, "+"))
        self.y += 4

    def finish(self) -> None:
        """Draw the lines of branches that are added after the last step."""
        if not self.late:
            return
        self.y += TURN
        edge = self.side.width - RIGHT
        self.shapes += [self.side.line(*path, (edge, path[-1][1]), (edge, self.y)) for path in self.late]
        self.shapes.append(self.side.line((edge, self.y), (RAIL + 4, self.y), arrow=True))
        self.shapes.append(Mark(self.side.x(RAIL), self.y, "+"))
        self.y += 4
