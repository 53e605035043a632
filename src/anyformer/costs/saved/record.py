"""The tensors that a forward pass saves for its backward pass: each once, where it was saved first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from anyformer.costs.saved.live_bytes import LiveBytes
from anyformer.plan import Checkpointing

Reason = Literal["saved", "copy", "input", "product", "recomputed", "recomputed product", "recomputed copy"]
"""Why a tensor is held. `saved`: by an operation. `copy`: a weight in the type of products. With checkpointing: `input` of a
layer, `product` (the output of a matrix product or attention), and tensors saved only while a layer is `recomputed`."""
RESIDUAL = "residual"
"""The name of a layer's work beside its branches and norms: sums, gains, streams."""
FORWARD: Mapping[Checkpointing, tuple[Reason, ...]] = {
    "none": ("saved", "copy"),
    "selective": ("saved", "copy", "input", "product"),
    "full": ("saved", "copy", "input"),
}
"""Tensors that are held when the forward pass ends."""
RECOMPUTED: Mapping[Checkpointing, tuple[Reason, ...]] = {
    "none": (),
    "selective": ("recomputed", "recomputed copy"),
    "full": ("recomputed", "recomputed product", "recomputed copy"),
}
"""Tensors that come on top while a layer is recomputed."""


class SavedTensor(NamedTuple):
    """The bytes of one storage.

    `path`: that of the module that computed, or of the weight that it read, in a `layer` (`decoder.layers.3`) or outside of all
    (empty); `operation` as autograd calls it, the `step`th of the call; `divided`: whether tensor parallelism divides it;
    `loss`: whether logits or loss saved it.
    """

    layer: str
    path: str
    operation: str
    step: int
    bytes: int
    reason: Reason
    divided: bool
    loss: bool

    @property
    def name(self) -> str:
        return f"{self.path}.{self.operation}"

    @property
    def copies(self) -> bool:
        """Whether it is a weight in another type."""
        return self.reason in ("copy", "recomputed copy")

    def at(self, layer: str) -> SavedTensor:
        """The tensor in another layer; one that all layers share keeps its path."""
        inside = self.path.startswith(self.layer)
        return self._replace(layer=layer, path=layer + self.path.removeprefix(self.layer) if inside else self.path)


@dataclass(frozen=True)
class Saved:
    """`tensors` in the order of the call; `like`: per layer, in order, the traced layer that stands for it;
    `live`: the most bytes at once in every traced layer, and outside of all."""

    tensors: tuple[SavedTensor, ...]
    like: Mapping[str, str]
    live: tuple[LiveBytes, ...] = ()

    def of(self, *reasons: Reason) -> Iterator[SavedTensor]:
        """Tensors of the whole model held for these reasons, in the order of the call, a stack's layers at its first."""
        by_layer: dict[str, list[SavedTensor]] = {}
        for tensor in self.tensors:
            if tensor.reason in reasons:
                by_layer.setdefault(tensor.layer, []).append(tensor)
        written = set[str]()
        for tensor in self.tensors:
            stack = tensor.layer.partition(".")[0]
            if not tensor.layer:
                if tensor.reason in reasons:
                    yield tensor
            elif stack not in written:
                written.add(stack)
                for layer, traced in self.like.items():
                    if layer.startswith(f"{stack}."):
                        yield from (like.at(layer) for like in by_layer.get(traced, ()))

    def in_layer(self, layer: str, *reasons: Reason) -> Iterator[SavedTensor]:
        """Tensors of one layer held for these reasons."""
        return (tensor for tensor in self.tensors if tensor.layer == self.like[layer] and tensor.reason in reasons)
