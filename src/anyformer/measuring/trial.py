"""A piece of an architecture that fits into a device's memory, and training steps of it on made-up examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from anyformer.costs.examples import examples
from anyformer.costs.memory_check import NotEnoughMemoryError
from anyformer.costs.peak import peak_memory
from anyformer.describe import DescriptionError, change_all
from anyformer.model import Architecture
from anyformer.model.loss import token_losses
from anyformer.model.transformer import Transformer, build
from anyformer.objectives import Examples, Partners
from anyformer.objectives.multi_token import later_losses
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.training.optimiser import build_optimiser
from anyformer.training.passes import MicroBatches, MicroBatchLoss, OneByOne, unpenalised
from anyformer.training.step import Updates
from anyformer.training.trainee import Trainee
from anyformer.tuning import AdamW, Optimiser

SHARE = 0.8
"""Share of the free memory that a trial may fill: the rest is for memory that no formula counts, as a library's own buffers."""
RATE = 1e-4
"""Learning rate."""
USUAL = AdamW(learning_rate=RATE)
VOCABULARIES = (32_768, 8_192, 2_048, 512)
"""Sizes of smaller vocabularies that are tried."""


@dataclass(frozen=True)
class MeasuredArchitecture:
    """An architecture to be run, how it was `reduced` in words, and the `bytes` of a training step of it."""

    architecture: Architecture
    reduced: str
    bytes: int


def trial_of(architecture: Architecture, shape: Shape, plan: Plan, free: int) -> MeasuredArchitecture:
    """The whole architecture where `free` bytes hold a training step of it, else one block of each kind.

    Where the embedding alone is too large, the vocabulary is smaller too.
    """
    trials = [MeasuredArchitecture(made, reduced, _bytes(made, shape, plan)) for made, reduced in _pieces(architecture)]
    for trial in trials:
        if trial.bytes <= SHARE * free:
            return trial
    least = min(trials, key=lambda trial: trial.bytes)
    raise NotEnoughMemoryError(
        f"a training step of {least.reduced or 'the model'} on {shape.batch} x {shape.length} tokens needs "
        f"{least.bytes / 1e9:.1f} GB, and of {free / 1e9:.1f} GB that are free {SHARE:.0%} may be filled; "
        f"give a smaller --batch or --length, or measure a smaller entry of the same family"
    )


def _targets(architecture: Architecture, shape: Shape) -> Tensor:
    """A target per vector of logits, (B, T), or (B,) where the head pools."""
    positions = shape.length if architecture.latents is None else architecture.latents.count
    pools = architecture.head is not None and architecture.head.pool is not None
    size = (shape.batch,) if pools else (shape.batch, positions)
    return torch.arange(prod(size)).view(size) % architecture.outputs


class LogitsObjective:
    """The objective of every architecture: cross-entropy of its logits, a vector per position or per row, of all predictions.

    Without logits it is the sum of the features, which saves no tensor.
    """

    def counted(self, examples: Examples) -> Tensor | None:
        return None

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        first, *later = model.predictions(examples.tokens, examples.decoder_tokens, documents=examples.documents, noise=noise)
        if model.head is None:
            return first.sum()
        losses = [token_losses(first, examples.targets)[0].sum(), *later_losses(later, examples.targets, None)]
        return torch.stack(losses).sum()


class TrainingStep:
    """Updates of an architecture as the training loop makes them, on made-up examples."""

    def __init__(
        self,
        architecture: Architecture,
        shape: Shape,
        plan: Plan,
        device: torch.device,
        optimiser: Optimiser = USUAL,
    ) -> None:
        self.model = build(architecture, plan, device).train()
        self.optimiser = build_optimiser(optimiser.beside(plan.number), self.model)
        self.passes = OneByOne(MicroBatchLoss(self.model, LogitsObjective(), unpenalised, plan))
        tokens, *target = (x.to(device) for x in examples(architecture, shape))
        targets, rows = _targets(architecture, shape).to(device), torch.arange(shape.batch, device=device)
        self.examples = Examples(tokens, targets, None, rows, target[0] if target else None)

    def loss(self) -> Tensor:
        """The loss, by a forward pass alone."""
        return self.passes.summed(self.examples.tensors(), None)[0]

    def update(self) -> None:
        """One step: forward, backward, and the optimiser's update, after which gradients are freed."""
        batch = MicroBatches([self.examples], self.examples.targets.numel())
        Updates(self.passes, (Trainee(self.model, self.optimiser),), clip=1.0).update(batch, RATE)


def _pieces(architecture: Architecture) -> Iterator[tuple[Architecture, str]]:
    """(the architecture or a piece of it, the piece in words), the largest first."""
    yield architecture, ""
    orders = {f"{name}.order": " ".join(dict.fromkeys(stack.layers)) for name, stack in architecture.stacks.items()}
    blocks = change_all(architecture, orders)
    yield blocks, "one block of each kind"
    for vocab in VOCABULARIES:
        changes = {
            f"{name}.vocab": vocab
            for name, part in (("embedding", architecture.embedding), ("decoder_embedding", architecture.decoder_embedding))
            if part is not None and (part.symbols or 0) > vocab
        }
        if not changes:
            continue
        try:
            yield change_all(blocks, changes), f"one block of each kind and a vocabulary of {vocab:,}"
        except DescriptionError:  # another part needs the size of the vocabulary
            return


def _bytes(architecture: Architecture, shape: Shape, plan: Plan) -> int:
    """Bytes of a training step."""
    source = shape.source or None
    return peak_memory(architecture, batch=shape.batch, length=shape.length, source_length=source, plan=plan).total
