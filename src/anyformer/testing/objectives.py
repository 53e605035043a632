"""The contract of an objective's naive twin, which computes its loss from a model's logits and the targets alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples, Objective, Partners
from anyformer.objectives.objective import without_penalties
from anyformer.parts.call.reports import Auxiliary
from anyformer.testing.comparisons import equal
from anyformer.testing.runs import trainer_of
from anyformer.training import Run

ObjectiveTwin = Callable[[Any, Tensor, Tensor], Tensor]
"""twin(objective, logits, targets) -> the loss summed over the targets, without experts' penalties: logits (B, T, V) in
float64, targets (B, T), `IGNORED` where there is nothing to predict."""


def loss_equals_its_twin(run: Run, twin: ObjectiveTwin) -> None:
    """The loss of the first micro-batch and its gradient of the logits equal the twin's, on rows of several lengths that have
    positions without a target."""
    trainer = trainer_of(run)
    (examples, *_) = trainer.micro_batches(0).pieces
    signal_equals_its_twin(run.objective, trainer.model, with_holes(examples), twin, trainer.partners)


def signal_equals_its_twin(
    objective: Objective, model: Transformer, examples: Examples, twin: ObjectiveTwin, partners: Partners | None = None
) -> None:
    """The loss of any logits in the place of the model's, and its gradient of them, equal the twin's."""
    drawn = list[Tensor]()

    def draw(_: object, given: object, logits: Tensor) -> Tensor:
        assert isinstance(logits, Tensor), "a twin computes with logits, and this model gives something else"
        drawn.append(drawn_logits(logits, examples.targets))
        return drawn[-1]

    with model.eval().register_forward_hook(draw):
        ours = objective.signal(model, examples, None, Auxiliary(objective.counted(examples)), partners or {})
    assert len(drawn) == 1, f"a twin computes with the logits of one call of the model, and these are {len(drawn)} calls"
    logits = drawn[0].detach().double().requires_grad_()
    theirs = twin(objective, logits, examples.targets)
    equal(ours.double(), theirs, "the loss beside the twin's")
    (one,), (other,) = (torch.autograd.grad(loss, x) for loss, x in ((ours, drawn[0]), (theirs, logits)))
    equal(one.double(), other, "the gradient of the logits beside the twin's")


def is_likelihood(objective: Objective) -> bool:
    """Whether it says that its loss is -log p of tokens."""
    return objective.traits.of_tokens or objective.traits.likelihood


def evaluated_loss_is_a_likelihood(run: Run) -> None:
    """The loss without penalties of an objective whose `traits` call it one `of_tokens`, or a `likelihood`, is -log p of the
    targets: of it perplexities and bits per byte are told. A factor of anything besides is a `Penalty`, which an evaluation
    leaves out; a loss of something else says so in its `traits`."""
    if is_likelihood(run.objective):
        loss_equals_its_twin(run.but(objective=without_penalties(run.objective)), _cross_entropy)


def _cross_entropy(objective: Objective, logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")


def drawn_logits(like: Tensor, targets: Tensor) -> Tensor:
    """Logits of this shape by which some targets are likely, and some are not."""
    draws = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(like.shape, generator=draws)
    if like.shape[:-1] == targets.shape:
        more = 10 * torch.rand((*targets.shape, 1), generator=draws)
        logits = logits.scatter_add(-1, targets.clamp(min=0)[..., None], more)
    return logits.requires_grad_()


def with_holes(examples: Examples) -> Examples:
    """The examples without the last targets of each row, of some rows more than of others, and without every fifth, but with
    its first; where they say what is padding, these last positions are."""
    targets = examples.targets
    assert targets.dim() == 2, f"a twin computes with targets (B, T) of tokens, and these have the shape {tuple(targets.shape)}"
    rows, length = targets.shape
    first, places = (targets != IGNORED).int().argmax(1, keepdim=True), torch.arange(length)
    ends = (places >= length - 1 - torch.arange(rows)[:, None] % max(length // 2, 1)) & (places > first)
    holes = ends | ((places % 5 == 3) & (places != first))
    name = "padding" if examples.decoder_tokens is None else "decoder_padding"
    padding = getattr(examples, name)
    padded = {} if padding is None else {name: padding | ends}
    return replace(examples, targets=targets.masked_fill(holes, IGNORED), **padded)
