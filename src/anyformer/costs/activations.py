"""Activations: the bytes that a forward pass saves for the backward pass, exactly, read off the built model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from anyformer.costs.saved import Learning, Question, SavedTensor, saved
from anyformer.costs.saved.record import AGAIN, FORWARD
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan


@dataclass(frozen=True)
class Activations:
    """`tensors`: saved for backward by one call in eager mode, copies of weights in bf16 among them.

    With layers computed again (`Plan.checkpointing`) these are what the forward pass leaves, and `layers`, by their path, are
    what each saves on top while it is computed again (Chen et al. 2016, arXiv 1604.06174).
    """

    tensors: tuple[SavedTensor, ...]
    layers_again: Mapping[str, tuple[SavedTensor, ...]]

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Bytes of each operation of each part, without copies of weights."""
        sizes: dict[str, int] = {}
        for each in self.tensors:
            if not each.copies:
                sizes[each.name] = sizes.get(each.name, 0) + each.bytes
        return sizes

    @cached_property
    def kept(self) -> int:
        """All but the loss and copies of weights, at the end of the forward pass."""
        return sum(each.bytes for each in self.tensors if not (each.copies or each.loss))

    @cached_property
    def loss(self) -> int:
        """Of logits and loss."""
        return sum(each.bytes for each in self.tensors if each.loss)

    @cached_property
    def logits(self) -> int:
        """Of the logits in fp32, which the loss reads."""
        return max((each.bytes for each in self.tensors if each.loss), default=0)

    @cached_property
    def casts(self) -> int:
        """Copies of weights in bf16."""
        return _copies(self.tensors)

    @property
    def layers(self) -> tuple[int, ...]:
        """Of each layer while it is computed again, without copies."""
        return tuple(sum(each.bytes for each in layer if not each.copies) for layer in self.layers_again.values())

    @property
    def layers_casts(self) -> tuple[int, ...]:
        """Copies of weights that come with each layer that is computed again."""
        return tuple(_copies(layer) for layer in self.layers_again.values())

    @property
    def again(self) -> int:
        """The largest layer while it is computed again."""
        return max(self.layers, default=0)

    @property
    def again_casts(self) -> int:
        """The copies of weights of a layer that is computed again, at most."""
        return max(self.layers_casts, default=0)


def activations(
    architecture: Architecture, shape: Shape, plan: Plan | None = None, *, loss: bool = True, learning: Learning | None = None
) -> Activations:
    """What training on rows without padding keeps; `loss`: with the cross-entropy of a token per position.

    `learning`: which weights learn, None for all.
    """
    plan = plan or Plan()
    how = plan.checkpointing
    found = saved(Question(architecture, shape, plan, recomputed=how != "none", learning=learning))
    tensors = (each for each in found.of(*FORWARD[how]) if loss or each.path != "loss")
    again = {layer: tuple(found.in_layer(layer, *AGAIN[how])) for layer in found.like} if how != "none" else {}
    return Activations(tuple(tensors), again)


def _copies(tensors: Iterable[SavedTensor]) -> int:
    return sum(each.bytes for each in tensors if each.copies)
