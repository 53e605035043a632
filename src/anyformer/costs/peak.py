"""The most memory that a training step holds at once: a walk back through what the forward pass kept.

What a step holds grows to the end of the forward pass and changes on the way back: kept tensors go as they are read,
gradients of weights come in their place, and gradients of activations live in between. So the most is at the loss, within
a part near the end, or when every gradient is there; a walk over the kept tensors, last one first, finds where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from anyformer.costs.activations import Activations, activations
from anyformer.costs.counts import located
from anyformer.costs.holding import Holding
from anyformer.costs.memory import ADAM, States
from anyformer.costs.saved import SavedTensor
from anyformer.model import Architecture
from anyformer.operations import Address, Shape
from anyformer.plan import Plan

Find = Callable[[str], tuple[Address, str]]
"""As `located` finds the address of a path."""
Moment = Literal["loss", "backward", "update"]
LOSS_COPIES = 4
"""Tensors as large as the logits in fp32 that the backward pass of log Z - z_y makes beside them: the gradient of z_y, and
of log Z the difference z - log Z, its exponential, and the product with what comes in."""
GRADIENTS_PER_KEPT = 1.5
"""Bytes of gradients that live while one operation goes back, for each byte that it kept: a product x y keeps two tensors,
receives one gradient and gives two; a fused attention kernel keeps four, receives one and gives three."""
OTHERS_PER_KEPT: Mapping[str, float] = MappingProxyType({"pow": 4.0, "softmax": 2.0})
"""The same where one tensor is kept: the gradient 2 x dy of a square is made in three steps, beside the one of the product
that follows; a softmax receives one gradient and gives one."""
BLOCK_BYTES = 22.0
"""The same of attention by blocks, in bytes for each element of q, k and v that it keeps, whatever their type: gradients, and
scores of one block in fp32 beside the 64-bit integers that its dropout is drawn from."""
TIED_COPIES: Mapping[str, int] = MappingProxyType({"fp32": 2, "bf16": 1})
"""A table read as embedding and as head gets two gradients. That of the head is a transposed view in fp32, to which nothing
can be added in place, so their sum is a third; in bf16 it is a fresh copy, which takes the sum."""


@dataclass(frozen=True)
class PeakMemory:
    """What is held at the three moments that can be the largest of a step, what stays from step to step included in each.

    `loss`: at the loss, all kept. `backward`: within layers, norms and head. `update`: every gradient, nothing kept.
    """

    stays: int
    at_loss: Holding
    within: Holding
    at_update: Holding

    @property
    def loss(self) -> int:
        return self.at_loss.total

    @property
    def backward(self) -> int:
        return self.within.total

    @property
    def update(self) -> int:
        return self.at_update.total

    @property
    def holding(self) -> Holding:
        """What is held at the largest."""
        return max(self.at_loss, self.within, self.at_update, key=lambda each: each.total)

    @property
    def total(self) -> int:
        """The largest."""
        return self.holding.total

    @property
    def at(self) -> Moment:
        """When it is reached."""
        moments: dict[Moment, int] = {"loss": self.loss, "backward": self.backward, "update": self.update}
        return max(moments, key=lambda name: moments[name])

    @property
    def above_stays(self) -> int:
        """What a step allocates on top of what stays from step to step."""
        return self.total - self.stays


def peak_memory(
    architecture: Architecture,
    *,
    batch: int,
    length: int,
    source_length: int | None = None,
    prefix: int = 0,
    plan: Plan | None = None,
    states: States = ADAM,
    accumulation: int = 1,
) -> PeakMemory:
    """The largest of a step in eager mode: forward, backward, and a fused update, which needs no copies of its own.

    `batch` is that of one of `accumulation` micro-batches.
    """
    plan = plan or Plan()
    source = architecture.source_of(length, source_length)
    shape = Shape(batch=batch, length=length, source=source, prefix=prefix)
    tally = architecture.cost(shape, plan)
    counts = {name: weight.count for name, weight in tally.weights.items()}
    kept = activations(architecture, shape, plan)
    # Layers that are computed again keep on the way back what they would have kept on the way there.
    whole = kept if plan.checkpointing == "none" else activations(architecture, shape, plan.but(checkpointing="none"))
    count = sum(counts.values())
    stays = Holding(weights=states.weights * count, optimiser=states.optimiser * count)
    copies = kept.casts if states.weights > plan.activation_bytes else 0
    again, each, find = accumulation > 1, states.gradients, located(tally)
    return peak_of(architecture, shape, plan, kept, whole, counts, stays, find, each=each, copies=copies, again=again)


def peak_of(
    architecture: Architecture,
    shape: Shape,
    plan: Plan,
    kept: Activations,
    whole: Activations,
    counts: Mapping[str, int],
    stays: Holding,
    find: Find,
    *,
    each: int,
    copies: int,
    again: bool = False,
) -> PeakMemory:
    """The same where it is known what is kept (`whole`: with nothing computed again) and which weights learn (`counts`).

    On the way back, at operation i: stays + kept[..i] + gradients of the weights passed, `each` bytes per number, + those of
    activations, which are `GRADIENTS_PER_KEPT` kept[i] and one of what the part gave. `find`: addresses of the paths
    of weights and of what is kept; `copies`: bytes of weights in the type of products. `again`: over several micro-batches
    gradients stay from one to the next, and each new one stands beside the old one for a moment.
    """
    logits, size = kept.logits, plan.activation_bytes
    extra = {
        find(layer)[0]: sum(each.bytes for each in again if copies or not each.copies)
        for layer, again in kept.layers_again.items()
    }
    tied = _tied(architecture, counts) * TIED_COPIES[plan.number]
    gradients = each * sum(counts.values())
    newest = each * max(counts.values(), default=0) if again else 0
    base = replace(stays, gradients=gradients) if again else stays
    back = _back(
        _parts(whole, counts, find),
        _begins(kept, extra, find),
        copies,
        each=0 if again else each,
        stream=size * shape.batch * max(shape.length, shape.source) * architecture.width,
        logits=size * logits // 4,
        others={**OTHERS_PER_KEPT, "attend_blocks": BLOCK_BYTES / size},
    )
    within = max(back, key=lambda at: at.total, default=Holding())
    return PeakMemory(
        stays=base.total,
        at_loss=base + Holding(copies=copies, activations=kept.kept, logits=kept.loss, temporaries=LOSS_COPIES * logits),
        within=base + within + Holding(gradients=newest),
        at_update=replace(base, gradients=gradients + max(newest, each * tied)),
    )


@dataclass(frozen=True)
class _Part:
    """A branch, a norm, an entrance or the head: (name, bytes) kept by its operations, and how many weights it has."""

    at: Address
    kept: tuple[tuple[str, int], ...]
    weights: int


def _back(
    parts: list[_Part],
    begins: Mapping[Address, int],
    copies: int,
    *,
    each: int,
    stream: int,
    logits: int,
    others: Mapping[str, float],
) -> Iterator[Holding]:
    """What is held on top of what stays, operation by operation, with the `copies` of weights that are there at first.

    `begins`: kept bytes when the way back reaches a layer, or a part outside of them; `each`: bytes of a gradient per weight;
    `stream`, `logits`: bytes of the gradient of what a part, or the head, gave; `others`: bytes beside those that an operation
    kept, for each of them.
    """
    count = sum(part.weights for part in parts)
    left, passed, at = 0, 0.0, None
    for part in reversed(parts):
        place = _place(part.at)
        if place != at:
            at, left = place, begins.get(place, left)
        incoming = logits if part.at.after and part.at.branch is None else stream
        for operation, size in reversed(part.kept):
            # The gradients of a part are taken to come evenly over its operations; copies of its weights go with them.
            passed += part.weights / len(part.kept)
            yield Holding(
                gradients=int(each * passed),
                copies=int(copies * (1 - passed / count)) if count else copies,
                activations=left,
                temporaries=int(incoming + others.get(operation, GRADIENTS_PER_KEPT) * size),
            )
            left -= size


def _begins(kept: Activations, extra: Mapping[Address, int], find: Find) -> dict[Address, int]:
    """What is kept up to the end of each layer and part; `extra`: what a layer keeps once it is computed again."""
    begins, there = {}, 0
    for each in _without_copies(kept):
        there += each.bytes
        begins[_place(find(each.layer or each.name)[0])] = there
    return {place: size + extra.get(place, 0) for place, size in begins.items()}


def _parts(kept: Activations, counts: Mapping[str, int], find: Find) -> list[_Part]:
    """Every part in the order of the forward pass, the loss left out; what keeps nothing comes first.

    So do the weights of what is entered: their gradients come last, and are there at the update.
    """
    sizes: dict[Address, dict[tuple[str, int], int]] = {}
    for each in _without_copies(kept):
        operations = sizes.setdefault(_part(find(each.name)[0]), {})
        key = each.operation, each.step
        operations[key] = operations.get(key, 0) + each.bytes
    weights: dict[Address, int] = {}
    for name, count in counts.items():
        at = _part(find(name)[0])
        weights[at] = weights.get(at, 0) + count
    idle = [_Part(at, (), weights.pop(at)) for at in [*weights] if at not in sizes or at == Address(at.module)]
    return idle + [
        _Part(at, tuple((operation, size) for (operation, _), size in found.items()), weights.get(at, 0))
        for at, found in sizes.items()
    ]


def _without_copies(kept: Activations) -> Iterator[SavedTensor]:
    return (each for each in kept.tensors if not each.copies and each.path != "loss")


def _part(at: Address) -> Address:
    """The branch or norm of a layer, or the module or norm outside of all layers, that holds what is at an address."""
    return Address(at.module, at.layer, at.branch, after=at.after)


def _place(at: Address) -> Address:
    """The layer of what is in one, else the part."""
    return _part(at) if at.layer is None else Address(at.module, at.layer)


def _tied(architecture: Architecture, counts: Mapping[str, int]) -> int:
    """Parameters of a table that gets two gradients."""
    if architecture.head is None or not architecture.head.tied or architecture.head_table is None:
        return 0
    return counts.get(architecture.head_table[0], 0)
