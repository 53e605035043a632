"""A piece of an architecture that a device has memory for, and training steps of it on examples made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.costs.examples import cross_entropy, examples
from anyformer.costs.foretold import NotEnoughMemoryError
from anyformer.costs.peak import peak_memory
from anyformer.describe import DescriptionError, change_all
from anyformer.model import Architecture, Transformer, build
from anyformer.plan import Plan
from anyformer.tally import Shape

SHARE = 0.8
"""Of the free memory, what a trial may fill: the rest is for what no formula of ours sees, as a library's own buffers."""
VOCABULARIES = (32_768, 8_192, 2_048, 512)


@dataclass(frozen=True)
class Trial:
    """What is built and run, and how it differs from what was asked for; `bytes`: what a training step of it needs."""

    architecture: Architecture
    reduced: str
    bytes: int


def trial_of(architecture: Architecture, shape: Shape, plan: Plan, free: int) -> Trial:
    """The whole architecture where `free` bytes hold a training step of it, else one block of each kind.

    Where the embedding alone is too large, the vocabulary is smaller too.
    """
    tried = [Trial(made, reduced, _needed(made, shape, plan)) for made, reduced in _pieces(architecture)]
    for trial in tried:
        if trial.bytes <= SHARE * free:
            return trial
    least = min(tried, key=lambda trial: trial.bytes)
    raise NotEnoughMemoryError(
        f"a training step of {least.reduced or 'the model'} on {shape.batch} x {shape.length} tokens needs "
        f"{least.bytes / 1e9:.1f} GB, and of {free / 1e9:.1f} GB that are free {SHARE:.0%} may be filled; "
        f"give a smaller --batch or --length, or measure a smaller entry of the same family"
    )


class TrainingStep:
    """One update after another as the training loop makes them: forward, cross-entropy, backward, clipping, fused AdamW."""

    def __init__(self, architecture: Architecture, shape: Shape, plan: Plan, device: torch.device) -> None:
        self.architecture, self.plan, self.device = architecture, plan, device
        self.model: Transformer = build(architecture, plan, device).train()
        learning = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.AdamW(learning, lr=1e-4, fused=True)
        self.given = [x.to(device) for x in examples(architecture, shape)]

    def output(self) -> Tensor:
        """Logits, or features where there is no head."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.plan.precision == "bf16"):
            return self.model(*self.given)  # type: ignore[no-any-return]

    def loss(self) -> Tensor:
        """Mean cross-entropy of targets made up; of features their sum, which keeps nothing."""
        logits = self.output()
        if self.architecture.head is None:
            return logits.sum()
        count = torch.arange(logits[..., 0].numel(), device=self.device)
        return cross_entropy(logits, (count % logits.shape[-1]).view(logits.shape[:-1])).mean()

    def update(self) -> None:
        """Weights change, gradients go."""
        self.loss().backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)


def _pieces(architecture: Architecture) -> Iterator[tuple[Architecture, str]]:
    """(the architecture or a piece of it, what was left out), the largest first."""
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
        except DescriptionError:  # something else counts on the size of the vocabulary
            return


def _needed(architecture: Architecture, shape: Shape, plan: Plan) -> int:
    """Bytes of a training step."""
    source = shape.source or None
    return peak_memory(architecture, batch=shape.batch, length=shape.length, source_length=source, plan=plan).total
