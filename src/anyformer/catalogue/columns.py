"""The columns of a table of architectures, computed from the description: the traits of its parts, each word once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anyformer.catalogue.row import ArchitectureRow
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.parts import Block, Stack

NONE = "NoPE"


def columns(architecture: Architecture) -> ArchitectureRow:
    """The row of an architecture."""
    stacks = architecture.stacks.values()
    blocks = [block for stack in stacks for block in stack.variants.values()]
    sublayers = [sublayer for block in blocks for sublayer in block.sublayers]
    networks = [sublayer.resizing.network for sublayer in sublayers]
    experts, chosen = max(((n.experts or 0, n.chosen or 0) for n in networks if n), default=(0, 0))
    cost = architecture.cost(Shape(source=1))
    return ArchitectureRow(
        shape=architecture.shape_of_model,
        layers=sum(stack.depth for stack in stacks),
        width=architecture.width,
        norm=_joined(type(norm).__name__ for block in blocks for norm in block.norms),
        placement=_joined(word for block in blocks for word in block.placement),
        wiring="parallel" if any(block.parallel for block in blocks) else "serial",
        position=_joined(word for stack in stacks for word in _positions(stack)),
        activation=_joined(sublayer.traits.activation for sublayer in sublayers),
        attention=_joined(sublayer.traits.mixing for sublayer in sublayers),
        window=_joined(word for block in blocks for word in _windows(block)),
        experts=experts,
        chosen=chosen,
        stability=tuple(dict.fromkeys(_stability(architecture, blocks))),
        parameters=cost.parameters,
        active=cost.active_parameters,
    )


def _joined(words: Iterable[str | None]) -> str:
    """The words, each once, joined by +."""
    return "+".join(dict.fromkeys(word for word in words if word))


def _positions(stack: Stack) -> Iterator[str]:
    """The kinds of positions in a stack. A layer without positions of its own has those of the stack."""
    shared = [part.position_name for part in (stack.position, stack.score_bias) if part is not None]
    own = [sublayer.traits.position for block in stack.variants.values() for sublayer in block.sublayers]
    yield from shared
    yield from (name for name in own if name is not None and not (shared and name == NONE))


def _windows(block: Block) -> Iterator[str]:
    for sublayer in block.sublayers:
        for mask in sublayer.masks:
            yield "full" if mask.window is None else f"local {mask.window}"


def _stability(architecture: Architecture, blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        yield from block.stability
    yield from architecture.embedding.stability
    head, stacks = architecture.head, architecture.stacks.values()
    used = {
        "embedding norm": any(stack.input_norm is not None for stack in stacks),
        **{name: True for stack in stacks if stack.streams is not None and (name := stack.streams.stability)},
        "logit scale": head is not None and head.scale != 1,
        "logit soft-cap": head is not None and head.softcap is not None,
    }
    yield from (name for name, is_used in used.items() if is_used)
