"""An architecture as a drawing: one column per stack, one frame per block variant, shapes beside the arrows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from textwrap import wrap

from anyformer.describe import Value, brief
from anyformer.model import Architecture
from anyformer.parts import Block, Stack
from anyformer.parts.block import Step
from anyformer.parts.branch import Branch

WIDTH, GAP, LINE, PAD = 430, 34, 15, 10
"""Of a column, between columns, of a line of text, inside a frame; in pixels."""
COLOURS = {"norm": "#e8eef7", "sublayer": "#fdf1dc", "table": "#e6f3e6", "frame": "#fafafa"}


@dataclass
class Sheet:
    """What is drawn, from the top down: `y` is where the next thing goes."""

    x: int
    y: int = 20
    parts: list[str] = field(default_factory=list)

    def box(self, lines: list[str], colour: str, inset: int = 0) -> None:
        """A rounded box with centred lines, the first one bold."""
        height = LINE * len(lines) + PAD
        left, width = self.x + inset, WIDTH - 2 * inset
        self.parts.append(
            f'<rect x="{left}" y="{self.y}" width="{width}" height="{height}" rx="6" fill="{colour}" stroke="#888"/>'
        )
        for i, line in enumerate(lines):
            weight = ' font-weight="bold"' if i == 0 else ""
            place = f'x="{left + width // 2}" y="{self.y + PAD // 2 + LINE * (i + 1) - 4}" text-anchor="middle"'
            self.parts.append(f"<text {place}{weight}>{escape(line)}</text>")
        self.y += height

    def arrow(self, label: str = "") -> None:
        """Down to the next box, with a shape beside it."""
        x, end = self.x + WIDTH // 2, self.y + 22
        self.parts.append(f'<path d="M{x} {self.y}V{end}" stroke="#444" marker-end="url(#tip)"/>')
        if label:
            self.parts.append(f'<text x="{x + 8}" y="{self.y + 15}" fill="#555">{escape(label)}</text>')
        self.y = end + 4

    def note(self, text: str) -> None:
        """A line of text at the left edge."""
        self.parts.append(f'<text x="{self.x + PAD}" y="{self.y + LINE - 3}" fill="#333">{escape(text)}</text>')
        self.y += LINE + 4


def diagram(architecture: Architecture) -> str:
    """The drawing as SVG."""
    sheets = []
    for column, (name, stack) in enumerate(architecture.stacks.items()):
        sheet = Sheet(20 + column * (WIDTH + GAP))
        _stack(sheet, architecture, name, stack)
        sheets.append(sheet)
    width, height = 20 + len(sheets) * (WIDTH + GAP), max(sheet.y for sheet in sheets) + 20
    body = "\n".join(part for sheet in sheets for part in sheet.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="4" refY="3" orient="auto">'
        '<path d="M0 0L6 3L0 6z" fill="#444"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def draw_diagram(architecture: Architecture, path: Path) -> None:
    """Write the drawing to a file."""
    path.write_text(diagram(architecture), encoding="utf-8")


def _stack(sheet: Sheet, architecture: Architecture, name: str, stack: Stack) -> None:
    """Embedding, variants in the order they first come, final norm, head."""
    width = architecture.width
    second = architecture.decoder_embedding if name == "decoder" else None
    embedding = second or architecture.embedding
    sheet.note(f"{name}: {stack.depth} layers, order {stack.order}")
    if name == "decoder" and architecture.latents is not None:
        sheet.box(_lines(architecture.latents, f"{architecture.latents.count} x {width}"), COLOURS["table"], 60)
    else:
        sheet.box(_lines(embedding, f"to {architecture.table_width}"), COLOURS["table"], 60)
    extras: list[Value | None] = [
        stack.position,
        stack.input_norm,
        stack.input_projection,
        stack.score_bias,
        stack.relative,
        stack.streams,
    ]
    for part in extras:
        if part is not None:
            sheet.box(_lines(part), COLOURS["norm"], 60)
    for variant, block in stack.variants.items():
        sheet.arrow(f"(B, T, {width})")
        _block(sheet, f"{variant}  x {stack.layers.count(variant)}", block)
    sheet.arrow(f"(B, T, {width})")
    if stack.final_norm is not None:
        sheet.box(_lines(stack.final_norm), COLOURS["norm"], 60)
        sheet.arrow(f"(B, T, {width})")
    if stack is architecture.output_stack and architecture.head is not None:
        outputs = architecture.outputs
        features = architecture.head.features(width, architecture.table_width)
        matrix = () if architecture.head.outputs == "features" else (f"{features} x {outputs:,}",)
        sheet.box(_lines(architecture.head, *matrix), COLOURS["table"], 60)
        sheet.arrow(f"(B, {outputs:,})" if architecture.head.pool else f"(B, T, {outputs:,})")


def _block(sheet: Sheet, title: str, block: Block) -> None:
    """A frame around the block's steps; its background comes first, so it is put in when the height is known."""
    top, place = sheet.y, len(sheet.parts)
    sheet.y += PAD
    sheet.note(title)
    for number, step in enumerate(block.steps):
        if number:
            sheet.arrow()
        _step(sheet, step)
    sheet.y += PAD
    frame = (
        f'<rect x="{sheet.x}" y="{top}" width="{WIDTH}" height="{sheet.y - top}" rx="10" fill="{COLOURS["frame"]}" '
        'stroke="#555" stroke-width="1.5"/>'
    )
    sheet.parts.insert(place, frame)


def _step(sheet: Sheet, step: Step) -> None:
    """Norm before, branches side by side in words and one below the other on paper, then the sum."""
    if step.norm_before is not None:
        sheet.box(_lines(step.norm_before), COLOURS["norm"], 40)
    for name, branch in step.branches.items():
        for lines, colour in _branch(name, branch):
            sheet.box(lines, colour, 25)
    scale = "" if step.residual_scale == 1 else f"{step.residual_scale:g} "
    source = "norm(x)" if step.residual == "normed" else "x"
    added = " + ".join(
        f"{branch.multiplier:g} {name}" if branch.multiplier != 1 else name for name, branch in step.branches.items()
    )
    added = f"norm({added})" if step.norm_branches is not None else added
    sheet.note(f"      x = {scale}{source} + {added}")
    if step.norm_branches is not None:
        sheet.box(_lines(step.norm_branches), COLOURS["norm"], 40)
    if step.norm_after is not None:
        sheet.box(_lines(step.norm_after), COLOURS["norm"], 40)


def _branch(name: str, branch: Branch) -> Iterator[tuple[list[str], str]]:
    if branch.norm_before is not None:
        yield _lines(branch.norm_before), COLOURS["norm"]
    yield _lines(branch.sublayer, name), COLOURS["sublayer"]
    if branch.norm_after is not None:
        yield _lines(branch.norm_after), COLOURS["norm"]


def _lines(part: Value, name: str = "") -> list[str]:
    """A part in words: what it is, then its facts in lines that fit."""
    text = brief(part)
    kind, _, inner = text.partition("(")
    title = kind if name in ("", kind) else f"{kind}  {name}"
    return [title, *wrap(inner.removesuffix(")"), 58)]
