"""Activations: the bytes that a forward pass keeps for the backward pass, exactly, from the description alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.tape import Held, Learning, Tape


@dataclass(frozen=True)
class Activations:
    """Bytes kept for backward by one call in eager mode.

    `by_name`: each tensor at the first part that keeps it. `loss`: of logits and loss. `casts`: copies of weights in bf16.
    With layers computed again (`Plan.checkpointing`) these are what the forward pass leaves; `layers` and `layers_casts` are
    what each layer keeps on top while it is computed again (Chen et al. 2016, arXiv 1604.06174).
    """

    by_name: Mapping[str, int]
    loss: int
    casts: int
    layers: tuple[int, ...] = ()
    layers_casts: tuple[int, ...] = ()

    @property
    def kept(self) -> int:
        """All but the loss, at the end of the forward pass."""
        return sum(self.by_name.values()) - self.loss

    @property
    def again(self) -> int:
        """The largest layer while it is computed again."""
        return max(self.layers, default=0)

    @property
    def again_casts(self) -> int:
        """Copies of weights that come with a layer that is computed again, at most."""
        return max(self.layers_casts, default=0)


def activations(
    architecture: Architecture, shape: Shape, plan: Plan | None = None, *, loss: bool = True, learning: Learning | None = None
) -> Activations:
    """What training on rows without padding keeps; `loss`: with the cross-entropy of a token per position.

    `learning`: which weights learn, None for all.
    """
    tape = Tape(plan or Plan(), shape, learning=learning)
    output = architecture.keeps(tape)
    if loss and architecture.head is not None:
        _loss_keeps(tape.within("loss"), output, architecture.outputs)
    return Activations(
        by_name=_named(tape.kept),
        loss=_bytes(held for held, name in tape.kept.items() if name.startswith(("loss.", "head.softcap"))),
        casts=_bytes(tape.casts.values()),
        layers=tuple(layer.bytes_again for layer in tape.again),
        layers_casts=tuple(_bytes(layer.casts.values()) for layer in tape.again),
    )


def _loss_keeps(tape: Tape, logits: Held, outputs: int) -> None:
    """-log softmax(z)[y] as log Z - z_y in fp32: z for both terms, log Z, which y, and where a target counts."""
    rows = logits.elements // outputs
    tape.keep("logits", tape.cast(logits, "fp32"))
    tape.keep("log_z", tape.new(rows, "fp32"))
    tape.keep("targets", tape.new(rows, "int64"), tape.new(rows, "bool"))


def _bytes(held: Iterable[Held]) -> int:
    return sum(one.bytes for one in held)


def _named(kept: Mapping[Held, str]) -> dict[str, int]:
    named: dict[str, int] = {}
    for held, name in kept.items():
        named[name] = named.get(name, 0) + held.bytes
    return named
