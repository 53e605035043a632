"""Peak memory of a training step: a walk backward through the tensors that the forward pass saved.

Memory grows to the end of the forward pass and changes in the backward pass: saved tensors are freed as they are read,
gradients of weights come in their place, and gradients of activations live in between. So the peak is at the loss, within
a part near the end, or when every gradient is there; a walk over the saved tensors, last one first, finds where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from anyformer.costs.activations import Activations, activations
from anyformer.costs.counts import located
from anyformer.costs.holding import Holding
from anyformer.costs.memory import MASTER, States, states_of
from anyformer.costs.moments import PeakMemory
from anyformer.costs.saved import SavedTensor, TracedLoss
from anyformer.model import Architecture
from anyformer.model.loss_bytes import backward_bytes
from anyformer.operations import Address, Shape
from anyformer.plan import Plan
from anyformer.tuning import Optimiser

Find = Callable[[str], tuple[Address, str]]
"""A function from a path to its address, as `located` gives it."""
GRADIENTS_PER_SAVED = 1.5
"""Bytes of gradients that live in the backward pass of one operation, per byte that it saved: a product x y saves two
tensors, receives one gradient and gives two; a fused attention kernel saves four, receives one and gives three."""
OTHERS_PER_SAVED: Mapping[str, float] = MappingProxyType({"pow": 4.0, "softmax": 2.0, "selective_scan": 8.0})
"""Such bytes of other operations. The gradient 2 x dy of a square, which saves one tensor, is made in three steps, beside the
one of the product that follows; a softmax receives one gradient and gives one. A selective scan receives one and gives two as
wide as what it saved first, and holds the states of a chunk, at most as wide, five times."""
BLOCK_BYTES = 22.0
"""Such bytes of attention by blocks, per element of q, k and v that it saves, whatever their type: gradients, and
scores of one block in fp32 beside the 64-bit integers that its dropout is drawn from."""
TIED_COPIES: Mapping[str, int] = MappingProxyType({"fp32": 2, "bf16": 1, "fp16": 1})
"""A table read as embedding and as head gets two gradients. That of the head is a transposed view in fp32, to which nothing
can be added in place, so their sum is a third; in bf16 it is a fresh copy, which takes the sum."""


def peak_memory(
    architecture: Architecture,
    *,
    batch: int,
    length: int,
    source_length: int | None = None,
    prefix: int = 0,
    plan: Plan | None = None,
    states: States | None = None,
    accumulation: int = 1,
    optimiser: Optimiser | None = None,
    signal: TracedLoss | None = None,
) -> PeakMemory:
    """Peak memory of a step in eager mode: forward, backward, and a fused update, which needs no copies of its own.

    `batch`: rows of one of `accumulation` micro-batches; `states`: by default those of the plan's precision with Adam;
    `optimiser`: whose state counts, with the copies in fp32 that the precision keeps, instead of that of `states`;
    `signal`: the loss and what it reads, by default the cross-entropy of a token at every position of rows without padding.
    """
    plan = plan or Plan()
    states = states or states_of(plan.precision)
    source = architecture.source_of(length, source_length)
    shape = Shape(batch=batch, length=length, source=source, prefix=prefix)
    tally = architecture.trained_cost(shape, plan)
    counts = {name: weight.count for name, weight in tally.weights.items()}
    saved = activations(architecture, shape, plan, signal=signal)
    # Layers that are recomputed save in the backward pass what they would have saved in the forward pass.
    stored = plan.but(checkpointing="none")
    uncheckpointed = saved if plan == stored else activations(architecture, shape, stored, signal=signal)
    count = sum(counts.values())
    held = states.optimiser * count
    if optimiser is not None:
        held = sum(map(optimiser.state_bytes, tally.weights.values())) + MASTER * plan.precision.masters * count
    persistent = Holding(weights=states.weights * count, optimiser=held)
    copies = saved.casts if states.weights > plan.activation_bytes else 0
    return peak_of(
        architecture,
        shape,
        plan,
        saved,
        uncheckpointed,
        counts,
        persistent,
        located(tally),
        gradient_bytes=states.gradients,
        copies=copies,
        accumulates=accumulation > 1,
        loss_bytes=backward_bytes if signal is None else signal.loss_bytes,
    )


def peak_of(
    architecture: Architecture,
    shape: Shape,
    plan: Plan,
    saved: Activations,
    uncheckpointed: Activations,
    counts: Mapping[str, int],
    persistent: Holding,
    find: Find,
    *,
    gradient_bytes: int,
    copies: int,
    accumulates: bool = False,
    loss_bytes: Callable[[int, int], int] = backward_bytes,
) -> PeakMemory:
    """Peak memory, given the saved tensors, those saved where nothing is recomputed, and the sizes of the learned weights.

    In the backward pass, at operation i: persistent + saved[..i] + gradients of the weights passed, `gradient_bytes` per
    number, + gradients of activations: `GRADIENTS_PER_SAVED` saved[i] and the one of the part's output. `find`: addresses of
    the paths of weights and saved tensors; `copies`: bytes of weights in the type of products. `accumulates`: over several
    micro-batches gradients stay from one to the next, and each new one stands beside the old one for a moment. `loss_bytes`:
    as `TracedLoss.loss_bytes`.
    """
    logits, size = saved.logits, plan.activation_bytes
    extra = {
        find(layer)[0]: sum(tensor.bytes for tensor in tensors if copies or not tensor.copies)
        for layer, tensors in saved.recomputed.items()
    }
    tied = _tied(architecture, counts) * TIED_COPIES[plan.number]
    gradients = gradient_bytes * sum(counts.values())
    newest = gradient_bytes * max(counts.values(), default=0) if accumulates else 0
    base = replace(persistent, gradients=gradients) if accumulates else persistent
    backward = _backward(
        _parts(uncheckpointed, counts, find),
        _saved_up_to(saved, extra, find),
        copies,
        gradient_bytes=0 if accumulates else gradient_bytes,
        stream=size * shape.batch * max(shape.length, shape.source) * architecture.width,
        logits=logits,
        others={**OTHERS_PER_SAVED, "attend_blocks": BLOCK_BYTES / size},
    )
    operations, stays = list(backward), base + Holding(gradients=newest)
    return PeakMemory(
        persistent=base.total,
        at_loss=base + Holding(copies=copies, activations=saved.saved, logits=saved.loss, temporaries=loss_bytes(logits, size)),
        in_backward=stays + _largest(holding for _, holding in operations),
        in_layers=stays + _largest(holding for inside, holding in operations if inside),
        at_update=replace(
            base,
            gradients=gradients + max(newest, gradient_bytes * tied),
            temporaries=base.temporaries + plan.precision.update_bytes * max(counts.values(), default=0),
        ),
        in_forward=base + Holding(copies=copies, activations=saved.forward),
    )


@dataclass(frozen=True)
class _Part:
    """A branch, a norm, an embedding or the head: (name, bytes) saved by its operations, and how many weights it has."""

    at: Address
    saved: tuple[tuple[str, int], ...]
    weights: int


def _backward(
    parts: list[_Part],
    saved_up_to: Mapping[Address, int],
    copies: int,
    *,
    gradient_bytes: int,
    stream: int,
    logits: int,
    others: Mapping[str, float],
) -> Iterator[tuple[bool, Holding]]:
    """Memory above the persistent bytes, operation by operation, with the `copies` of weights that are there at first, and
    whether the operation is one of a layer.

    `saved_up_to`: saved bytes when the backward pass reaches a layer, or a part outside of them; `gradient_bytes`: per weight;
    `stream`, `logits`: bytes of the gradient of the output of a part, or of the head; `others`: bytes of gradients for each
    byte that an operation saved.
    """
    count = sum(part.weights for part in parts)
    left, passed, at = 0, 0.0, None
    for part in reversed(parts):
        place = _place(part.at)
        if place != at:
            at, left = place, saved_up_to.get(place, left)
        incoming = logits if part.at.after and part.at.branch is None else stream
        for operation, size in reversed(part.saved):
            # The gradients of a part are taken to come evenly over its operations; copies of its weights go with them.
            passed += part.weights / len(part.saved)
            holding = Holding(
                gradients=int(gradient_bytes * passed),
                copies=int(copies * (1 - passed / count)) if count else copies,
                activations=left,
                temporaries=int(incoming + others.get(operation, GRADIENTS_PER_SAVED) * size),
            )
            yield part.at.layer is not None, holding
            left -= size


def _largest(holdings: Iterable[Holding]) -> Holding:
    return max(holdings, key=lambda holding: holding.total, default=Holding())


def _saved_up_to(saved: Activations, extra: Mapping[Address, int], find: Find) -> dict[Address, int]:
    """Bytes saved up to the end of each layer and part; `extra`: bytes that a layer saves while it is recomputed."""
    ends, total = {}, 0
    for tensor in _without_copies(saved):
        total += tensor.bytes
        ends[_place(find(tensor.layer or tensor.name)[0])] = total
    return {place: size + extra.get(place, 0) for place, size in ends.items()}


def _parts(saved: Activations, counts: Mapping[str, int], find: Find) -> list[_Part]:
    """Every part in the order of the forward pass, the loss left out; parts that save nothing come first.

    So do the weights of embeddings: their gradients come last, and are there at the update.
    """
    sizes: dict[Address, dict[tuple[str, int], int]] = {}
    for tensor in _without_copies(saved):
        operations = sizes.setdefault(_part(find(tensor.name)[0]), {})
        key = tensor.operation, tensor.step
        operations[key] = operations.get(key, 0) + tensor.bytes
    weights: dict[Address, int] = {}
    for name, count in counts.items():
        at = _part(find(name)[0])
        weights[at] = weights.get(at, 0) + count
    idle = [_Part(at, (), weights.pop(at)) for at in [*weights] if at not in sizes or at == Address(at.module)]
    return idle + [
        _Part(at, tuple((operation, size) for (operation, _), size in operations.items()), weights.get(at, 0))
        for at, operations in sizes.items()
    ]


def _without_copies(saved: Activations) -> Iterator[SavedTensor]:
    return (tensor for tensor in saved.tensors if not tensor.copies and tensor.path != "loss")


def _part(at: Address) -> Address:
    """Address of the branch or norm of a layer, or of the module or norm outside of all layers, that contains an address."""
    return Address(at.module, at.layer, at.branch, after=at.after)


def _place(at: Address) -> Address:
    """Address of the layer that contains an address, outside of all layers that of the part."""
    return _part(at) if at.layer is None else Address(at.module, at.layer)


def _tied(architecture: Architecture, counts: Mapping[str, int]) -> int:
    """Parameters of a table that gets two gradients."""
    if architecture.head is None or not architecture.head.tied or architecture.head_table is None:
        return 0
    return counts.get(architecture.head_table[0], 0)
