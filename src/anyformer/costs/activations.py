"""Activations: the bytes that a forward pass keeps for the backward pass, exactly, from the description alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.tally import Shape
from anyformer.tape import Held, Tape


@dataclass(frozen=True)
class Activations:
    """Bytes kept for backward by one call in eager mode.

    `by_name`: each tensor at the first part that keeps it. `loss`: of logits and loss. `casts`: copies of weights in bf16.
    With every layer checkpointed, `inputs` of layers stay, and while one is computed again also its `largest_layer`;
    `outside` is what is neither in a layer nor of the loss (Chen et al. 2016, arXiv 1604.06174). `largest_casts`: of a layer.
    """

    by_name: Mapping[str, int]
    loss: int
    outside: int
    layers: tuple[int, ...]
    inputs: int
    largest_layer: int
    casts: int
    outside_casts: int
    largest_casts: int

    @property
    def kept(self) -> int:
        """All but the loss, nothing computed again."""
        return sum(self.by_name.values()) - self.loss

    @property
    def checkpointed(self) -> int:
        """All but the loss at the peak, every layer computed again in the backward pass."""
        return self.outside + self.inputs + self.largest_layer

    @property
    def checkpointed_casts(self) -> int:
        """Copies of weights at that peak."""
        return self.outside_casts + self.largest_casts


def activations(architecture: Architecture, shape: Shape, plan: Plan | None = None, *, loss: bool = True) -> Activations:
    """What training on rows without padding keeps; `loss`: with the cross-entropy of a token per position.

    `UnpricedError` names a part that does not say what it keeps.
    """
    tape = Tape(plan or Plan(), shape)
    output = architecture.keeps(tape)
    if loss and architecture.head is not None:
        _loss_keeps(tape.within("loss"), output, architecture.outputs)
    of_loss = [held for held, name in tape.kept.items() if name.startswith(("loss.", "head.softcap"))]
    paths = [path for path, _ in tape.entered]
    inputs = dict.fromkeys(held for _, one in tape.entered if not (held := one.base or one).parameter)
    layers = dict.fromkeys(paths, 0)
    for held, name in tape.kept.items():
        path = _layer(name)
        if path in layers and held not in inputs and held not in tape.common:
            layers[path] += held.bytes
    casts = dict.fromkeys(paths, 0)
    for name, held in tape.casts.items():
        if _layer(name) in casts:
            casts[_layer(name)] += held.bytes
    every, of_inputs = _bytes(tape.kept), _bytes(inputs)
    # An input that no operation keeps is there for computing its layer again.
    outside = _bytes(tape.kept.keys() - inputs.keys()) - sum(layers.values()) - _bytes(of_loss)
    assert every >= outside
    return Activations(
        by_name=_named(tape.kept),
        loss=_bytes(of_loss),
        outside=outside,
        layers=tuple(layers.values()),
        inputs=of_inputs,
        largest_layer=max(layers.values(), default=0),
        casts=_bytes(tape.casts.values()),
        outside_casts=_bytes(tape.casts.values()) - sum(casts.values()),
        largest_casts=max(casts.values(), default=0),
    )


def _loss_keeps(tape: Tape, logits: Held, outputs: int) -> None:
    """-log softmax(z)[y] as log Z - z_y in fp32: z for both terms, log Z, which y, and where a target counts."""
    rows = logits.elements // outputs
    tape.keep("logits", tape.cast(logits, "fp32"))
    tape.keep("log_z", tape.new(rows, "fp32"))
    tape.keep("targets", tape.new(rows, "int64"), tape.new(rows, "bool"))


def _layer(name: str) -> str:
    """`decoder.layers.3.attention.norm_before.gain` -> `decoder.layers.3.`"""
    return ".".join(name.split(".")[:3]) + "."


def _bytes(held: Iterable[Held]) -> int:
    return sum(one.bytes for one in held)


def _named(kept: Mapping[Held, str]) -> dict[str, int]:
    named: dict[str, int] = {}
    for held, name in kept.items():
        named[name] = named.get(name, 0) + held.bytes
    return named
