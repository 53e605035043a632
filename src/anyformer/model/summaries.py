"""Summaries of an architecture for people: one line, and a small table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from anyformer.describe import Value, to_toml
from anyformer.parts.layers.stack import Stack


class Shown(Value):
    """A description that notebooks and shells show by its facts."""

    def _facts(self) -> dict[str, str]:
        """Its most important properties by name."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """One line; `str` is the whole description as TOML."""
        return in_short(self._facts())

    def __str__(self) -> str:
        return to_toml(self)

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        return as_table(self._facts())


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
