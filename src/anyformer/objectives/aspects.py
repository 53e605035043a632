"""What an objective says of itself, in values: what its loss is of, what its samples take, what suits an architecture, which
models it needs beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from anyformer.data import Corpus, Data
from anyformer.model import Architecture
from anyformer.model.loss_bytes import backward_bytes
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.own_samples import OwnSamples
from anyformer.objectives.teacher_answers import AskedTeacher
from anyformer.operations import Shape
from anyformer.rewards.reward import Judge
from anyformer.text import Tokenizer

Baseline: TypeAlias = Callable[[Feed, int, Feed, int, int], "tuple[str, float] | None"]
"""What a simple model is, in words, and the loss that it reaches: of the feed and updates of training, the held-out feed, its
windows, and the model's outputs."""


def anything(*given: object) -> None:
    """Refuse nothing."""


def nothing(corpus: Corpus, number: int) -> str:
    """No text."""
    return ""


def no_answers(model: Transformer, examples: Examples, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """No sums: the model is asked for no text."""
    return {}


def nothing_told(metrics: Mapping[str, float]) -> tuple[str, float] | None:
    """No baseline: the metrics say none."""
    return None


def no_fields(architecture: Architecture) -> Mapping[str, Any]:
    """No fields: the defaults suit every architecture."""
    return {}


def no_work(architecture: Architecture, shape: Shape) -> int:
    """The loss computes no products of its own."""
    return 0


def usual_length(architecture: Architecture, data: Data) -> int:
    """256, or the length of a shorter position table."""
    return min(256, *(stack.max_length or 256 for stack in architecture.stacks.values()))


@dataclass(frozen=True)
class LossTraits:
    """What the loss of an objective is of, and what its figures say."""

    of_tokens: bool = False
    """Whether the loss is -log p of tokens, whose exponential is a perplexity."""
    likelihood: bool = False
    """Whether the loss is that of every token of running text, of which bits per byte can be told."""
    two_inputs: bool = False
    """Whether the model is given a source beside a target."""
    chats: bool = False
    """Whether the model answers questions that a chat template writes, and `prompt` gives such a question."""
    classes: str | None = None
    """The column of the data whose classes need a logit each."""
    pictures: bool = False
    """Whether the model so trained makes pictures."""
    each_row: frozenset[str] = frozenset()
    """Names of statistics that hold a number of each row, and no sum."""
    prompt: Callable[[Corpus, int], str] = nothing
    """A text that a model so trained can go on with, from a held-out example by its number; empty where none suits."""
    answers: Callable[[Transformer, Examples, Tokenizer], dict[str, Tensor]] = no_answers
    """Further sums for `metrics`, of the text that the model gives for examples. Not asked in a run of several processes."""
    told: Callable[[Mapping[str, float]], tuple[str, float] | None] = nothing_told
    """As `Objective.baseline`, where another model makes the targets: what the metrics of the last evaluation say of it."""
    own_samples: Callable[[Data, Any, Mapping[str, Judge]], OwnSamples] | None = None
    """Of data, a `Setting` and the models at `judges`, what makes examples of the model's own answers, to which what a feed
    gives are the prompts; None: what a feed gives are the examples."""
    uses: int = 1
    """Steps of the optimisers that an update takes on its examples."""
    judges: tuple[str, ...] = ()
    """The paths of the models that grade the model's own answers."""
    unread: Baseline | None = None
    """As `Objective.baseline`, of a model that reads nothing of its input; None where the baseline is that."""


@dataclass(frozen=True)
class SampleSizes:
    """What samples of an objective take."""

    rows: int = 1
    """The rows of a sample: 2 where two texts of it are read."""
    least_held_out: int = 1
    """Tokens, or records, that must be held out at least."""
    position_bytes: int = 0
    """Bytes per position of a batch beside those of tokens, targets and masks."""
    loss_bytes: Callable[[int, int], int] = backward_bytes
    """Bytes that the backward pass of the loss takes beside what it saved, of which the logits are the first number; each of
    those that the model gives has as many bytes as the second says."""
    work: Callable[[Architecture, Shape], int] = no_work
    """FLOPs of the products that the loss computes beside those of the models, forward and backward."""
    source_target: Callable[[int], tuple[int, int]] | None = None
    """S and T of rows of so many positions, where they differ from those of the architecture."""
    source: Callable[[Architecture, Data], int] | None = None
    """S of any length, where the source is no text: positions of the longest sound that the data may hold."""
    read: Callable[[Architecture, Data], int] | None = None
    """T that the run's model reads of a row, where it is less than the row's."""
    shows_image: bool = False
    """Whether every row has an image where the architecture has a tower for images."""
    frames: Callable[[Architecture, Data], int] | None = None
    """Frames of a sound, the longest that the data may hold, where every row has one among its tokens."""
    check: Callable[[int, int, int], None] = anything
    """Refuses a length, a batch and an accumulation under which the examples cannot be made."""

    def shape(self, architecture: Architecture, data: Data, samples: int, length: int) -> Shape:
        """The sizes of a micro-batch of data: its rows, and T and S of rows of `length` positions."""
        source, target = (architecture.source_of(length), length) if self.source_target is None else self.source_target(length)
        if self.source is not None:
            source = max(self.source(architecture, part) for part in data.components.values())
        if self.read is not None:
            target = max(self.read(architecture, part) for part in data.components.values())
        images = int(self.shows_image and architecture.images is not None)
        frames = 0
        if self.frames is not None:
            frames = max(self.frames(architecture, part) for part in data.components.values())
        return Shape(
            batch=samples * self.rows, length=target, source=source, images=images, audio=int(frames > 0), frames=frames
        )


def compares_rows(kind: str, finds: str) -> Callable[[int, int, int], None]:
    """A `SampleSizes.check` of an objective that finds something in the other rows of a micro-batch."""

    def check(length: int, batch: int, accumulation: int) -> None:
        if accumulation > 1:
            raise ValueError(
                f"the {kind} objective finds {finds} in the micro-batch, and accumulation = {accumulation} cuts the "
                "batch: set accumulation = 1, with a smaller batch or plan.checkpointing if memory is short"
            )
        if batch < 2:
            raise ValueError(f"the {kind} objective finds {finds} in the batch: set batch to 2 or more")

    return check


@dataclass(frozen=True)
class Usual:
    """What suits an architecture where nobody says it."""

    data: Callable[[Architecture, tuple[str, ...]], Data]
    """The data at some paths."""
    fields: Callable[[Architecture], Mapping[str, Any]] = no_fields
    """Fields of the objective itself."""
    length: Callable[[Architecture, Data], int] = usual_length
    """T."""


@dataclass(frozen=True)
class Partner:
    """A second model of a run: `architecture`, or the one at `path`; without either, the model as it was when the run began.

    `derived`: the architecture as a function of the run's own, if `architecture` is not given. `learns`: whether it is trained
    beside the first (a generator), or stays as it is (a teacher, a reference). `predicted`: how many positions of a row of T
    its head reads; None: all. `length`: the positions that it reads, from the run's architecture and data, where it reads
    what the run's model gives. `check` refuses an architecture that does not suit the run's own, the second it is given.
    `asked`: what it is asked about every training example before the first update, after which it is needed no more.
    `prepares`: what it makes of examples before the loss reads them, without gradients and outside the graph of the loss.
    `of_samples`: it is asked about the model's own samples when these are made, and not by the loss.
    """

    architecture: Architecture | None = None
    path: str | None = None
    learns: bool = False
    derived: Callable[[Architecture], Architecture] | None = None
    predicted: Callable[[int], int] | None = None
    check: Callable[[Architecture, Architecture], None] = anything
    asked: AskedTeacher | None = None
    length: Callable[[Architecture, Data], int] | None = None
    prepares: Callable[[Transformer, Examples], Examples] | None = None
    of_samples: bool = False

    def described(self, own: Architecture) -> Architecture | None:
        """Its architecture beside that of the run; None if it is the run's model itself, or the one at `path`."""
        if self.architecture is not None or self.derived is None:
            return self.architecture
        return self.derived(own)
