"""Where a model can be inspected: its residual stream, and what writes into it, by path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anyformer.model.transformer import Transformer
from anyformer.parts.layers.step import STEP_NORMS


@dataclass(frozen=True)
class StreamWriter:
    """A branch of a layer of the stack that the head reads: what it computes is added to the stream.

    `number`: of its step in the layer. `heads`: how many attention heads it has, whose outputs its output projection adds; 0 of
    another sublayer.
    """

    layer: int
    number: int
    branch: str
    path: str
    heads: int

    @property
    def output(self) -> str:
        """The path of what is added to the stream, (B, T, D)."""
        return f"{self.path}.output"

    @property
    def by_head(self) -> str:
        """The path of its heads side by side, (B, T, H, U), as the output projection reads them."""
        return f"{self.path}.heads"


def layer_path(model: Transformer, layer: int) -> str:
    """The path of a layer of the stack that the head reads."""
    return f"{model.output}.layer[{layer}]"


def entrance(model: Transformer) -> str:
    """The path of the stream that enters the first layer: embeddings, with positions if they are added."""
    return f"{layer_path(model, 0)}.input"


def streams(model: Transformer) -> tuple[str, ...]:
    """The paths of the residual stream: before the first layer, and behind every layer."""
    depth = model.architecture.output_stack.depth
    return (entrance(model), *(f"{layer_path(model, layer)}.output" for layer in range(depth)))


def stream_paths(model: Transformer) -> frozenset[str]:
    """The paths of all vectors (B, T, D) that are the stream which the head reads, or are added to it."""
    found = [*streams(model), *(f"{layer_path(model, each)}.input" for each in range(model.architecture.output_stack.depth))]
    for each in writers(model):
        found += [f"{each.path}.before", each.output, f"{each.path}.after"]
    watchable = model.watchable()
    return frozenset(path for path in found if path in watchable and watchable[path].letters == "BTD")


def scales(model: Transformer) -> tuple[str, ...]:
    """The paths of what norms divide by between sublayers and the head, where a norm has such a value."""
    watchable = model.watchable()
    found = [f"{model.output}.final_norm.scale"]
    for each in writers(model):
        found.append(f"{each.path}.norm_after.scale")
        found += (f"{layer_path(model, each.layer)}.step[{each.number}].{place}.scale" for place in STEP_NORMS)
    return tuple(path for path in dict.fromkeys(found) if path in watchable)


def writers(model: Transformer) -> tuple[StreamWriter, ...]:
    """The branches of all layers of the stack that the head reads, in the order of computation."""
    return tuple(_writers(model))


def _writers(model: Transformer) -> Iterator[StreamWriter]:
    stack, watchable = model.architecture.output_stack, model.watchable()
    for layer, variant in enumerate(stack.layers):
        for number, step in enumerate(stack.variants[variant].steps):
            for branch in step.branches:
                path = f"{layer_path(model, layer)}.{branch}"
                found = watchable.get(f"{path}.heads")
                heads = 0 if found is None else found.sizes["H"]
                yield StreamWriter(layer, number, branch, path, heads)
