"""The form by which architectures are compared: two that compute the same share it."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import Initialisation, Stack


def canonical(architecture: Architecture) -> Architecture:
    """A form that architectures which compute the same share: without initialisation and names of layers."""
    plain: dict[str, Any] = {name: _numbered(stack) for name, stack in architecture.stacks.items()}
    if architecture.mtp is not None:
        plain["mtp"] = architecture.mtp.but(block=architecture.mtp.layer(architecture.output_stack))
    return architecture.but(initialisation=Initialisation(), **plain).resolved()


def _numbered(stack: Stack) -> Stack:
    """The stack with variants named by the order in which they come, unless a layer reads another's by name."""
    if any(read.variant for read in stack.reads):
        return stack
    names = {name: f"layer{i}" for i, name in enumerate(dict.fromkeys(stack.layers))}
    return stack.but(
        variants=Named({names[name]: stack.variants[name] for name in names}),
        order=" ".join(names[name] for name in stack.layers),
        shared_weights=tuple(names[name] for name in stack.shared_weights),
    )
