"""Summaries of an architecture for people: one line, and a small table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from anyformer.parts.layers.stack import Stack


def in_short(facts: Mapping[str, str]) -> str:
    """`Architecture(decoder-only, parameters 124,439,808, width 768, ..., decoder 12 x (attention + feedforward))`."""
    texts = (value if name == "shape" else f"{name} {value}" for name, value in facts.items())
    return f"Architecture({', '.join(texts)})"


def as_table(facts: Mapping[str, str]) -> str:
    """The facts as a table in HTML."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"


def layers(stack: Stack) -> str:
    """The layers of each variant and its branches: `12 x (attention + feedforward)`."""
    kinds = {name: " + ".join(block.branches) for name, block in stack.variants.items()}
    return ", ".join(f"{stack.layers.count(name)} x ({branches})" for name, branches in kinds.items())
