"""Colours that the colour-blind tell apart (Okabe and Ito's hues), of different lightness, so that they print in grey."""

from __future__ import annotations

FILLS = {
    "weight": "#dce9f5",
    "norm": "#eceef0",
    "position": "#eadff0",
    "mix": "#fce8c8",
    "choice": "#f9dcd0",
    "memory": "#d8eee3",
    "pointwise": "#fdf7d4",
    "table": "#e3eef3",
    "mixing": "#ffffff",
    "pointing": "#ffffff",
    "frame": "#f8f9fa",
    "group": "#ffffff",
    "differs": "#fac79e",
}
EDGES = {"differs": "#fac79e", "frame": "#8a949e", "group": "#b8c0c8", "mixing": "#0072b2", "pointing": "#1b8a6b"}
EDGE = "#7d8790"
KINDS = ("#bcd9ef", "#e69f00", "#3f9f80", "#f3e36b", "#7a5195", "#c9c9c9", "#56b4e9", "#a04000")
"""Colours of kinds of layers."""
INK, FAINT, STREAM, WIRE = "#1c2329", "#5b6670", "#1c2329", "#4a545e"
TICKS = {"tick": ("#3f77a6", "#9cc1e0"), "used": ("#c3d0dc", "#0b3c5d")}
DIFFERS = "#d55e00"
"""Colours of differences between architectures side by side."""
DIFFERS_FILL, DIFFERS_INK = FILLS["differs"], "#8f3800"
