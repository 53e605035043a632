"""A drawing as TikZ: a LaTeX file that stands alone, and whose `tikzpicture` can be taken into a paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from anyformer.pictures.diagram import colours
from anyformer.pictures.diagram.render import tip
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Mark, Point, Polyline, Shape, TextLine

HEAD = r"""% Compile it with pdflatex, lualatex or xelatex; or take the tikzpicture, the colours and the styles into a paper.
\documentclass[tikz]{standalone}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{lmodern}
\usetikzlibrary{arrows.meta}
"""
ESCAPED = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", '"': r"\textquotedbl{}",
    "\u00a0": "~", "–": "--", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$", "√": r"$\surd$", "→": r"$\to$", "…": r"\dots{}",
    "²": r"$^2$", "θ": r"$\theta$", "β": r"$\beta$", "α": r"$\alpha$", "γ": r"$\gamma$", "λ": r"$\lambda$", "μ": r"$\mu$",
    "\n": " ", "\t": " ",
}  # fmt: skip
"""What LaTeX reads otherwise than it is written."""
BASELINE = 0.36
"""How far the baseline is below the middle of a line, in sizes: half the height of a capital letter."""
ANCHORS = {"left": "base west", "center": "base", "right": "base east"}


def write_tikz(drawing: Drawing, path: Path) -> None:
    """Write the file."""
    path.write_text(tikz(drawing), encoding="utf-8")


def tikz(drawing: Drawing) -> str:
    """The text of the file: colours and styles by name, then every shape from the back to the front."""
    shapes = drawing.stacked
    body = [line for shape in shapes for line in _drawn(shape)]
    used = sorted(_colours(shapes))
    lines = [
        HEAD.rstrip("\n"),
        *(rf"\definecolor{{{_name(colour)}}}{{HTML}}{{{colour[1:].upper()}}}" for colour in used),
        r"\tikzset{",
        *(f"  {style}/.style={{{options}}}," for style, options in sorted(_styles(shapes).items())),
        r"}",
        r"\begin{document}",
        r"\begin{tikzpicture}[x=1bp, y=1bp, line cap=butt]",
        rf"\path[use as bounding box] (0,0) rectangle {_at((drawing.width, drawing.height))};",
        *body,
        r"\end{tikzpicture}",
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text as LaTeX; letters that pdflatex does not know need lualatex or xelatex."""
    return "".join(ESCAPED.get(letter, letter) for letter in text)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) >= 0.005 else "0"


def _at(point: Point) -> str:
    return f"({_number(point[0])},{_number(point[1])})"


def _path(points: Iterable[Point]) -> str:
    return " -- ".join(map(_at, points))


def _name(colour: str) -> str:
    return f"af{colour[1:].lower()}"


def _box_style(box: Box) -> str:
    return f"af {box.tone}{' differs' if box.differs else ''}"


def _line_style(line: Polyline) -> str:
    return "af stream" if line.thick else "af wire"


def _styles(shapes: Iterable[Shape]) -> dict[str, str]:
    """The options of every style that is used."""
    length, width = colours.ARROW
    found = {
        "af arrow": rf"-{{Triangle[length={length}bp,width={width}bp]}}",
        "af mark": rf"fill=white, draw={_name(colours.STREAM)}, line width={colours.STROKE}bp",
        "af dot": f"fill={_name(colours.STREAM)}",
    }
    for shape in shapes:
        match shape:
            case Box():
                paint = colours.paint(shape)
                dashes = ", dash pattern=on 2.4bp off 1.8bp" if paint.dashed else ""
                found[_box_style(shape)] = (
                    f"fill={_name(paint.fill)}, draw={_name(paint.edge)}, line width={paint.width}bp, "
                    f"rounded corners={paint.radius}bp{dashes}"
                )
            case Polyline():
                colour, wide = colours.stroke(shape)
                found[_line_style(shape)] = f"draw={_name(colour)}, line width={wide}bp"
            case TextLine():
                size, bold = shape.size, r"\bfseries" if shape.bold else ""
                font = rf"\sffamily{bold}\fontsize{{{_number(size)}bp}}{{{_number(size * 1.2)}bp}}\selectfont"
                found[_text_style(shape)] = f"inner sep=0, outer sep=0, text={_name(colours.ink(shape))}, font={font}"
            case _:
                pass
    return found


def _text_style(words: TextLine) -> str:
    strength = "bold" if words.bold else "plain"
    hue = " differs" if words.differs else " faint" if words.faint else ""
    return f"af {strength} {_number(words.size).replace('.', '-')}{hue}"


def _colours(shapes: Iterable[Shape]) -> set[str]:
    found = {colours.STREAM}
    for shape in shapes:
        match shape:
            case Box():
                found |= {colours.paint(shape).fill, colours.paint(shape).edge}
            case Polyline():
                found.add(colours.stroke(shape)[0])
            case TextLine():
                found.add(colours.ink(shape))
            case Cells():
                found |= {each.colour for each in colours.strokes(shape)}
            case Mark():
                pass
    return found


def _drawn(shape: Shape) -> Iterator[str]:
    """The commands of a shape."""
    match shape:
        case Box():
            left, bottom, right, top = shape.extent
            yield rf"\path[{_box_style(shape)}] {_at((left, bottom))} rectangle {_at((right, top))};"
        case TextLine():
            at = _at((shape.x, shape.y - BASELINE * shape.size))
            yield rf"\node[{_text_style(shape)}, anchor={ANCHORS[shape.align]}] at {at} {{{escaped(shape.says)}}};"
        case Polyline():
            style = _line_style(shape)
            if shape.dashed:
                yield rf"\path[{style}, dash pattern=on 2.3bp off 1.5bp] {_path(shape.points)};"
            if shape.arrow or not shape.dashed:
                points = tip(shape.points) if shape.dashed else shape.points
                yield rf"\path[{style}{', af arrow' if shape.arrow else ''}] {_path(points)};"
        case Mark():
            if not shape.sign:
                yield rf"\path[af dot] {_at((shape.x, shape.y))} circle[radius={colours.DOT}bp];"
                return
            yield rf"\path[af mark] {_at((shape.x, shape.y))} circle[radius={colours.SIGN}bp];"
            crossed = " ".join(_path(ends) for ends in colours.crossed(shape.x, shape.y, shape.sign))
            yield rf"\path[af mark] {crossed};"
        case Cells():
            for shade in colours.strokes(shape):
                ends = " ".join(_path(pair) for pair in shade.ends)
                yield rf"\path[draw={_name(shade.colour)}, line width={_number(shade.width)}bp] {ends};"
