"""An architecture as people see it: in a line, and as a small table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from anyformer.tally import Shape

if TYPE_CHECKING:
    from anyformer.model.architecture import Architecture
    from anyformer.parts.layers.stack import Stack


def in_short(architecture: Architecture) -> str:
    """`Architecture(decoder-only, parameters 124,439,808, width 768, ..., decoder 12 x (attention + feedforward))`."""
    facts = [f"{name} {value}" for name, value in _facts(architecture).items()]
    return f"Architecture({architecture.shape_of_model}, {', '.join(facts)})"


def as_table(architecture: Architecture) -> str:
    """The same in HTML."""
    facts = {"shape": architecture.shape_of_model, **_facts(architecture)}
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"


def _facts(architecture: Architecture) -> dict[str, str]:
    facts = {"parameters": f"{architecture.folded_cost(Shape(source=1)).parameters:,}", "width": f"{architecture.width:,}"}
    if architecture.output_embedding.symbols is not None:
        facts["vocabulary"] = f"{architecture.output_embedding.symbols:,}"
    return facts | {name: _layers(stack) for name, stack in architecture.stacks.items()}


def _layers(stack: Stack) -> str:
    """How many layers, of which branches: each variant once."""
    layers = stack.layers
    kinds = {name: " + ".join(block.branches) for name, block in stack.variants.items()}
    return ", ".join(f"{layers.count(name)} x ({branches})" for name, branches in kinds.items())
