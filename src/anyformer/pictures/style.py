"""The style of all charts and the files of pictures: one palette, axes in tokens and bytes, three endings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.costs.figures import scaled
from anyformer.describe import UserError
from anyformer.files import check_file, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
PALETTE = ("#1b3a5c", "#e8963a", "#2a9d8f", "#f2d27a", "#b8432f", "#8fc1e3", "#7b5ea7", "#e3b5c4", "#3f6b2f")
"""Neighbours differ in lightness too, so that they stay apart in grey print and for the colour-blind."""
HUES = (PALETTE[0], PALETTE[1], PALETTE[2], PALETTE[4], PALETTE[6], PALETTE[5])
"""Colours that stand out as lines and marks on white."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (7, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FEW = 12
"""Points up to which each of a line has a mark."""
INK, FAINT = "#222222", "#8a8a8a"
HALF, FULL = 86, 180
"""Letters that fit under half the width of a picture, and under all of it."""
K = 1024
"""Tokens are counted as people say them: 4k is 4,096."""
STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "anyformer",
    "hatch.linewidth": 0.6,
}


def can_draw() -> bool:
    """Whether matplotlib, which draws every picture, is installed."""
    return find_spec("matplotlib") is not None


def check_can_draw(what: str) -> None:
    """Refuse, before any work, to draw where matplotlib is not installed; `what`: the file or what draws."""
    if not can_draw():
        raise UserError(f"{what}: matplotlib draws the pictures, and is not installed: pip install 'anyformer[pictures]'")


def check_picture(path: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Refuse, before any work, a file whose ending or directory takes no picture."""
    if path.suffix.lower() not in endings:
        raise UserError(f"{path}: a picture ends in {', '.join(endings)}, which says how it is written; got {path.suffix!r}")
    check_can_draw(str(path))
    check_file(path)


@contextmanager
def drawing(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure of so many inches to draw on, written to `path` at the end."""
    check_picture(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE), writing(path) as partial:
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        save(figure, partial, 160)


def save(figure: Figure, path: Path, dpi: int) -> None:
    """Write a figure in the format of the file's ending, without a date: the same picture gives the same bytes."""
    ending = path.suffix.lower()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(ending, {})
    figure.savefig(path, dpi=dpi, format=ending[1:], metadata=metadata)


def in_tokens(number: float) -> str:
    """4096 -> `4k`, 1048576 -> `1M`, 197 -> `197`."""
    for unit, sign in ((K * K, "M"), (K, "k")):
        if number >= unit and (number * 4) % unit == 0:
            return f"{number / unit:g}{sign}"
    return f"{number:,.0f}"


def in_bytes(number: float) -> str:
    """12_300_000_000 -> `12.3 GB`: three digits, 1 GB = 10^9."""
    return f"{scaled(float(f'{number:.3g}'))}B"


def token_ticks(length: int, parts: int = 4) -> list[int]:
    """Labelled places of an axis from 0 to `length`: its quarters where they are whole."""
    while parts > 1 and length % parts:
        parts -= 1
    return [length * i // parts for i in range(parts + 1)]


def doublings(first: int, last: int) -> tuple[int, ...]:
    """Lengths of a chart: powers of two from about `first`, and the last length itself."""
    powers = [2**i for i in range(max(first, 1).bit_length() - 1, last.bit_length())]
    return tuple(dict.fromkeys([*powers, last]))


def length_axis(axes: Axes, lengths: Sequence[int], what: str) -> None:
    """A logarithmic axis in tokens, with at most seven labels, none of them over another."""
    axes.set_xscale("log", base=2)
    every = -(-len(lengths) // 7)
    shown = list(lengths[::-1][::every])
    axes.set_xticks(shown, list(map(in_tokens, shown)))
    axes.minorticks_off()
    axes.set_xlim(lengths[0], lengths[-1])
    axes.set_xlabel(what)


def line_of(number: int) -> dict[str, Any]:
    """Colour and dashes of a line by its number; in grey too, lines differ."""
    return {"color": HUES[number % len(HUES)], "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.9}


def through(number: int, points: int) -> dict[str, Any]:
    """`line_of` a line through so many points: few are marked one by one, and a single one would be no line at all."""
    return line_of(number) | ({"marker": MARKERS[number % len(MARKERS)], "markersize": 5} if points <= FEW else {})


def band(axes: Axes, number: int, at: Sequence[float], low: Sequence[float], high: Sequence[float]) -> None:
    """The band between the lowest and the highest, of the colour of a line; of a single point it is a stroke."""
    colour = line_of(number)["color"]
    if len(at) == 1:
        axes.vlines(at, low, high, color=colour, alpha=0.35, linewidth=4)
    else:
        axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)


def below(axes: Axes, letters: int = HALF) -> None:
    """Put a legend under the axis, where it hides nothing: areas, then lines, in as many columns as `letters` allow."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(handles)), key=lambda i: isinstance(handles[i], Line2D))
    columns = max(1, letters // (max(map(len, labels)) + 7))
    axes.legend(
        [handles[i] for i in order], [labels[i] for i in order], loc="upper center", bbox_to_anchor=(0.5, -0.15),
        ncols=columns, columnspacing=1.4, handlelength=1.6,
    )  # fmt: skip
