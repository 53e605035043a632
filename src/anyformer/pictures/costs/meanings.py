"""What colours mean in a picture of costs: one thing in all of its panels.

Of one architecture: purposes of memory, and components; a mode of computing is a filled mark or a hollow one. Of several: each
architecture has a colour, with its dashes and its marker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from anyformer.costs.kernel import Mode
from anyformer.pictures.style import FAINT, MARKERS, line_of

MEMORY: Mapping[str, str] = {
    "weights": "#26354f",
    "optimiser state": "#8ba3cc",
    "copies of weights": "#4f6796",
    "gradients": "#c9d6ec",
    "activations": "#6b4f93",
    "logits and loss": "#ded0f0",
    "temporaries": "#a88bd0",
    "decode state": "#b8432f",
}
"""Blues for what belongs to weights, violets for what a step makes, red for what decoding remembers."""
COMPONENTS = ("#2a9d8f", "#e8963a", "#1f5c3a", "#f2d27a", "#8c5a2b", "#a9d6a0", "#c46b00", "#dcc9a3")
"""Greens and oranges, neighbours of different lightness."""


def of_components(names: Collection[str]) -> dict[str, str]:
    """A colour for each of the first components, grey for all others."""
    return {name: COMPONENTS[i] if i < len(COMPONENTS) else FAINT for i, name in enumerate(names)}


def of_architecture(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of an architecture by its place among all of a picture."""
    return line_of(number) | {"marker": MARKERS[number % len(MARKERS)]}


def marked(colour: str, mode: Mode, modes: Sequence[Mode]) -> dict[str, Any]:
    """A mark of a colour, filled in the first mode and hollow in the second."""
    filled = mode == modes[0]
    return {
        "color": colour, "markerfacecolor": colour if filled else "white", "markeredgecolor": "white" if filled else colour,
        "markeredgewidth": 1.0 if filled else 1.8, "markersize": 9 if filled else 8,
    }  # fmt: skip
