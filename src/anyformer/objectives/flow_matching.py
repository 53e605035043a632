"""Flow matching: the velocity that takes noise to images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from anyformer.data import Corpus, Data, Images, RecordBatch
from anyformer.describe import Probability, UserError, with_kind
from anyformer.generation.flow import velocity
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade
from anyformer.objectives.flow_times import FlowTimes, UniformTimes
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.on_images import ImageObjective, classes_of, stacked
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, normal, uniform
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.usual import BY_KIND

Time = Annotated[float, Field(gt=0, le=1)]


class FlowMatchingObjective(ImageObjective):
    """Squared error of the velocity from noise to data: |v(x_t, t, class) - (noise - x)|^2, x_t = (1 - t) x + t noise.

    The mean over an image's numbers (Lipman et al. 2022, arXiv 2210.02747; the straight paths of Liu et al. 2022, arXiv
    2209.03003). Noise, times and dropped classes follow from the seed and the sample's number. Held-out images are asked at the
    times `asked_at` in turn, so that evaluations are alike; `explained` is the share of the velocity's variance that the model
    tells, `loss_at_T` the loss at a time. Pictures are made by following the velocity back (`anyformer generate RUN --class`).
    """

    reads: ClassVar[type[Data]] = Images
    kind: Literal["flow_matching"] = "flow_matching"
    times: Annotated[FlowTimes, BeforeValidator(with_kind("uniform"))] = UniformTimes()
    """The distribution of t in training."""
    unclassed: Probability = 0.1
    """Share of training images whose class the model is not told, so that it learns the null class: classifier-free guidance
    needs both (Ho & Salimans 2022, arXiv 2207.12598)."""
    asked_at: Annotated[tuple[Time, ...], Field(min_length=1)] = (0.1, 0.3, 0.5, 0.7, 0.9)
    """Times of the held-out images."""

    @property
    def traits(self) -> LossTraits:
        return LossTraits(pictures=True)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that reads no time, or does not give a velocity of every patch."""
        BY_KIND["flow_matching"].check(architecture)

    def check_corpus(self, corpus: Corpus, setting: Setting) -> None:
        """Refuse more classes than the condition has."""
        own, names = null_class(setting), corpus.names["label"]
        if own is not None and len(names) > own:
            raise UserError(
                f"the data has {len(names)} classes, and the condition {own}: set condition.classes = {len(names)} in the stack"
            )

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        feed = super().feed(data, corpus, setting, batch, held_out=held_out)
        return feed if held_out else remade(feed, partial(self.examples, setting=setting, training=True))

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`tokens`: noisy images (B, I, height, width) at their `times` (B,); `targets`: their velocities, of the same shape;
        `facts` (B, 1): of a held-out image, the number of its time in `asked_at`."""
        images, rows = self.standardised(stacked(batch)), torch.from_numpy(batch.rows)
        draws, count = Noise.at(setting.seed, 0, rows), len(rows)
        noise, drawn_B2 = normal(draws, 0, images.shape), uniform(draws, 2, torch.Size((count, 2)))
        numbers, null = rows % len(self.asked_at), null_class(setting)
        times = self.times.of(drawn_B2[:, 0]) if training else torch.tensor(self.asked_at)[numbers]
        classes = None
        if null is not None:
            classes = classes_of(batch)
            classes = classes.where(drawn_B2[:, 1] >= self.unclassed, null) if training else classes
        share = times[:, None, None, None]
        return Examples(
            (1 - share) * images + share * noise, noise - images, None, rows, times=times, classes=classes,
            counts=torch.ones(count, dtype=torch.float64), facts=None if training else numbers[:, None],
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        assert isinstance(data, Images), "checked before"
        images, rows = torch.zeros(shape.batch, data.channels, data.height, data.width), torch.arange(shape.batch)
        condition = architecture.output_stack.condition
        classes = None if condition is None or condition.classes is None else torch.zeros_like(rows)
        counts = torch.ones(shape.batch, dtype=torch.float64)
        return Examples(images, images, None, rows, times=torch.zeros(shape.batch), classes=classes, counts=counts)

    def counted(self, examples: Examples) -> Tensor | None:
        return None

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        return _errors(model, examples, noise, auxiliary).sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        errors_B, real = _errors(model, examples, None, auxiliary), examples.targets.double()
        sums = {
            "loss": errors_B.sum(), "rows": torch.tensor(len(errors_B)), "velocity": real.sum(0),
            "squares": real.square().mean((1, 2, 3)).sum(),
        }  # fmt: skip
        if examples.facts is not None:
            numbers, times = examples.facts[:, 0].long(), len(self.asked_at)
            sums["loss_by_time"] = torch.bincount(numbers, errors_B.double(), minlength=times)
            sums["rows_by_time"] = torch.bincount(numbers, minlength=times)
        return sums

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """The share of the velocity's variance that is explained, and the loss at every time that was asked."""
        rows = float(totals["rows"])
        variance = float(totals["squares"]) / rows - float((totals["velocity"] / rows).square().mean())
        figures = {"explained": 1 - float(totals["loss"]) / rows / variance} if variance > 0 else {}
        if "rows_by_time" in totals:
            each = zip(self.asked_at, totals["loss_by_time"], totals["rows_by_time"], strict=True)
            figures |= {f"loss_at_{time:g}": float(loss / count) for time, loss, count in each if count > 0}
        return figures

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """The squared error of the mean velocity of the training images: noise has the mean 0, so that of -x."""
        seen = [training.at(step).targets.double() for step in range(min(steps, MOST_BATCHES))]
        if not seen:
            return None
        mean = sum((targets.sum(0) for targets in seen), torch.zeros(())) / sum(map(len, seen))
        errors = [(examples.targets - mean).square().mean((1, 2, 3)) for examples in held_out.once(windows)]
        return ("the mean velocity of the training images", float(torch.cat(errors).mean())) if errors else None


MOST_BATCHES = 100
"""Training batches that the baseline's mean is of, at most."""


def null_class(setting: Setting) -> int | None:
    """The number of the null class, behind those of the condition that reads the examples; None without any."""
    assert setting.architecture is not None, "the condition of what reads the examples says whether it reads classes"
    condition = setting.architecture.output_stack.condition
    return None if condition is None else condition.classes


def _errors(model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
    """(B,) fp32: the mean squared error of every image's velocity."""
    assert examples.times is not None, "an image at a time between data and noise"
    found = velocity(model, examples.tokens, examples.times, examples.classes, noise, auxiliary)
    return (found - examples.targets).square().mean((1, 2, 3))
