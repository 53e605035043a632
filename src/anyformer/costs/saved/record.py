"""What a forward pass saves for its backward pass: every tensor once, where it was saved first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from anyformer.plan import Checkpointing

Held = Literal["saved", "copy", "input", "product", "saved again", "product again", "copy again"]
"""Why a tensor is there. `saved`: by an operation. `copy`: a weight in the type of products. Of layers that are computed
again: `input` of a layer, `product` (what a matrix product or attention gave), and what is saved only then, `again`."""
RESIDUAL = "residual"
"""Where a layer computes beside its branches and norms: sums, gains, streams."""
FORWARD: Mapping[Checkpointing, tuple[Held, ...]] = {
    "none": ("saved", "copy"),
    "selective": ("saved", "copy", "input", "product"),
    "full": ("saved", "copy", "input"),
}
"""What is there when the forward pass ends."""
AGAIN: Mapping[Checkpointing, tuple[Held, ...]] = {
    "none": (),
    "selective": ("saved again", "copy again"),
    "full": ("saved again", "product again", "copy again"),
}
"""What comes on top while a layer is computed again."""


class SavedTensor(NamedTuple):
    """The bytes of one storage.

    `path`: of the module that computed, or of the weight that it read, in a `layer` (`decoder.layers.3`) or outside of all
    (empty); `operation` as autograd calls it, the `step`th of the call; `divided`: whether tensor parallelism divides it;
    `loss`: whether it is of the logits or the loss.
    """

    layer: str
    path: str
    operation: str
    step: int
    bytes: int
    held: Held
    divided: bool
    loss: bool

    @property
    def name(self) -> str:
        return f"{self.path}.{self.operation}"

    @property
    def copies(self) -> bool:
        """Whether it is a weight in another type."""
        return self.held in ("copy", "copy again")

    def at(self, layer: str) -> SavedTensor:
        """The same of another layer; what all layers share keeps its path."""
        inside = self.path.startswith(self.layer)
        return self._replace(layer=layer, path=layer + self.path.removeprefix(self.layer) if inside else self.path)


@dataclass(frozen=True)
class Saved:
    """`tensors` in the order of the call; `like`: for each layer, in order, the traced one that stands for it."""

    tensors: tuple[SavedTensor, ...]
    like: Mapping[str, str]

    def of(self, *held: Held) -> Iterator[SavedTensor]:
        """Those of all layers in the order of the call: the layers of a stack stand where its first is."""
        by_layer: dict[str, list[SavedTensor]] = {}
        for each in self.tensors:
            if each.held in held:
                by_layer.setdefault(each.layer, []).append(each)
        written = set[str]()
        for each in self.tensors:
            stack = each.layer.partition(".")[0]
            if not each.layer:
                if each.held in held:
                    yield each
            elif stack not in written:
                written.add(stack)
                for layer, traced in self.like.items():
                    if layer.startswith(f"{stack}."):
                        yield from (tensor.at(layer) for tensor in by_layer.get(traced, ()))

    def in_layer(self, layer: str, *held: Held) -> Iterator[SavedTensor]:
        """Those of one layer."""
        return (each for each in self.tensors if each.layer == self.like[layer] and each.held in held)
