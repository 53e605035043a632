"""Run: all settings of one training run, as one frozen value and one TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from anyformer.data import Data
from anyformer.data.tokenizer_specs import learnt
from anyformer.describe import PLUGINS, BinarySize, Count, DescriptionError, Value, change_all, read_data, with_kind
from anyformer.model import Architecture
from anyformer.model.adapted import adapted
from anyformer.model.mup import computed
from anyformer.objectives import CausalObjective, Objective, asked_of, default_objective
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.resolving import architecture, inside, path_beside, pop_changes
from anyformer.stores import check_no_secrets, is_url
from anyformer.training.average import Average
from anyformer.training.instability import NonFinite, Spikes, StopRun
from anyformer.training.loggers import LoggerList
from anyformer.training.schedule import Cosine, Schedule
from anyformer.training.size import Smaller, beside
from anyformer.training.starting import base_of, completed
from anyformer.tuning import AdamW, Optimiser, Tuning

_INSIDE = "architecture."


class Evaluation(Value):
    """When and how to evaluate on held-out text."""

    every: Count = 100
    """Steps between evaluations; there is always one at the end."""
    batches: Count = 16
    """Batches of every evaluation but the last, spread evenly over the split."""
    final_tokens: Count = 131_072
    """Held-out tokens of the last evaluation, spread evenly over the split; all of them where there are no more."""
    baseline: bool = True
    """Print at the end what an interpolated bigram model of the tokens trained on reaches on the held-out ones."""


def _url(place: str) -> str:
    if not is_url(place):
        raise ValueError(f"{place!r} is no URL of a store, as in 's3://bucket/runs' or 'file:///mnt/runs'")
    check_no_secrets(place)
    return place


class Checkpoints(Value):
    """When to save checkpoints, which ones to keep, and where a copy of them is."""

    every: Count = 200
    """Steps between checkpoints; there is always one at the end."""
    keep: Count = 2
    """How many of the latest checkpoints to keep; the best one is always kept."""
    keep_every: Count | None = None
    """Checkpoints of steps that are multiples of this number are kept for ever. Absent: of none."""
    store: Annotated[str, AfterValidator(_url)] | None = None
    """A place in a store, as in `s3://bucket/runs` (any that fsspec knows): beneath it, under the name of the run's directory,
    the checkpoints that are kept have a copy, made in the background, with what the run needs to go on elsewhere."""

    def most(self, steps: int | None) -> int:
        """How many checkpoints of a run of so many steps are on its disk at once, at most: that being written counts too.

        Where the steps are not known yet, as of a run in minutes, those that are kept for ever are left out.
        """
        return self.keep + self.forever(steps) + 2

    def forever(self, steps: int | None) -> int:
        """How many checkpoints of a run of so many steps are kept for ever, at most: a best one, or that of a stop, may be
        saved at any multiple."""
        return 0 if steps is None or self.keep_every is None else steps // self.keep_every

    def room(self, steps: int | None) -> str:
        """Which checkpoints need room on the disk, in words."""
        more = f", {forever} for ever" if (forever := self.forever(steps)) else ""
        return f"{self.keep} kept{more}, the best one and the one being written"


AVERAGED = 4
"""Bytes of a weight that an average of weights can follow."""


class Run(Value):
    """Architecture, plan, data, objective, optimiser and schedule: what `anyformer train` runs."""

    versioned: ClassVar[bool] = True
    through: ClassVar[tuple[str, ...]] = ("architecture",)
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the initial weights, the order of the data and dropout."""
    steps: Count | None = None
    """Number of updates. Absent: as many as `minutes` allow, measured at the start and written into the run's directory."""
    minutes: Annotated[float, Field(gt=0)] | None = None
    """Wall-clock budget of the whole command, when `steps` is absent: preparing the data, compiling, updates, evaluations, the
    sample and the picture. A run that would end late is shortened, and the new number of steps is recorded."""
    smaller: tuple[Smaller, ...] = ()
    """Smaller sizes of a run in `minutes`, for slow machines: which one is trained is measured at the start and written into
    the run's directory. A run in `steps` is trained as it stands."""
    batch: Annotated[Count, BinarySize()] = 16
    """Sequences per update."""
    length: Annotated[int, Field(ge=2), BinarySize()] = 256
    """T, tokens per sequence."""
    accumulation: Count = 1
    """Micro-batches per update, computed one after the other: the same update up to the order of sums, which Muon in bf16
    enlarges (see its `precision`)."""
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    """Largest norm of the gradient; a larger gradient is scaled down."""
    sample: str | None = None
    """Prompt of the sample printed at the end. Absent: the first words of a held-out document."""
    start_from: Annotated[str, Field(min_length=1)] | None = None
    """The directory of a run, a checkpoint or a Hugging Face model: weights whose names and shapes fit are taken, others are
    new. In a file, `architecture` and `data.tokenizer` are then those of this model unless they are named."""
    data: Annotated[Data, BeforeValidator(with_kind("text"))]
    """The examples, and how they become tokens."""
    objective: Annotated[Objective, BeforeValidator(with_kind("causal"))] = CausalObjective()
    """What the model is trained to do."""
    optimiser: Annotated[Optimiser, BeforeValidator(with_kind("adamw"))] = AdamW()
    """How gradients change the weights."""
    tuning: Tuning = Tuning()
    """Which weights are trained: all, unless patterns or an adapter say otherwise."""
    average: Average | None = None
    """An average of the weights that is evaluated, sampled and exported in their place."""
    schedule: Schedule = Cosine()
    """How the learning rate changes over the steps."""
    non_finite: NonFinite = StopRun()
    """What to do about a batch whose loss or gradient is not finite."""
    spikes: Spikes | None = None
    """What to do about loss spikes. Absent: they are not looked for."""
    evaluation: Evaluation = Evaluation()
    """When and how to evaluate on held-out text."""
    checkpoints: Checkpoints = Checkpoints()
    """When to save, and which checkpoints to keep."""
    loggers: LoggerList = ()
    """Places to which the metrics are told, beside `metrics.jsonl`: `loggers = ["tensorboard"]`."""
    plan: Plan = Plan()
    """How to compute: precision, kernels, compilation."""
    architecture: Architecture
    """The architecture: a table, or in a file also a catalogue name or a path."""

    @model_validator(mode="after")
    def _adds_up(self) -> Run:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("give either steps or minutes: a run needs an end")
        if self.batch % self.accumulation:
            raise ValueError(f"accumulation must divide batch, got accumulation = {self.accumulation} and batch = {self.batch}")
        self.objective.check(self.architecture)
        for part in self.data.components.values():
            self.objective.check_data(part, self.architecture, self.length)
        if asked_of(self.objective) is not None and self.steps is None:
            raise ValueError(
                "objective.kept: the teacher is asked about every example before the first update, and minutes do not say "
                "how many these are: set steps in their place, or leave objective.kept out"
            )
        self.objective.sizes.check(self.length, self.batch, self.accumulation)
        tokenizer = learnt(self.data.tokenizer)
        for name, vocab in self.architecture.vocabularies.items():
            if tokenizer is not None and tokenizer.vocab > vocab:
                raise ValueError(
                    f"the tokenizer's vocab {tokenizer.vocab} is larger than the {name}'s {vocab}: make them equal"
                )
        for name, stack in self.architecture.stacks.items():
            read = self.piece.source if name == "encoder" and self.architecture.two_inputs else self.length
            longest = read + (adapted(self.architecture, self.tuning.adapter).virtual_tokens or 0)
            if stack.max_length is not None and longest > stack.max_length:
                raise ValueError(f"length {self.length} is longer than the position table of the {name} ({stack.max_length})")
        if self.optimiser.averages and self.schedule.falls:
            raise ValueError(
                f"optimiser.kind = {self.optimiser.kind!r} averages weights instead of lowering the rate, and schedule.kind = "
                f"{self.schedule.kind!r} lowers it: set schedule = {{ kind = 'constant' }}"
            )
        if self.optimiser.averages and self.average is not None:
            raise ValueError(f"optimiser.kind = {self.optimiser.kind!r} averages weights already: leave average out")
        precision = self.plan.precision
        if self.average is not None and precision.weight_bytes < AVERAGED:
            raise ValueError(
                f"average keeps weights in fp32, and plan.precision = {precision.kind!r} has none but the optimiser's: leave "
                "average out, or set plan.precision = 'bf16'"
            )
        if precision.narrow is not None and precision.narrow.experts:
            raise ValueError(
                f"plan.precision.experts: the products of experts in {precision.kind} are priced, not computed: leave it out"
            )
        if self.tuning.adapter is not None and precision.narrow is not None:
            raise ValueError(
                f"tuning.adapter stands beside frozen matrices; plan.precision = {precision.kind!r} is for those that learn: "
                "set plan.precision = 'bf16'"
            )
        computed(self.architecture)  # which muP refuses for sizes and parts that it does not fit
        if self.optimiser.groups:
            self.optimiser.paces(self.tuning.of(self.architecture.trained_cost(Shape(source=1))).learning)
        return self

    @property
    def piece(self) -> Shape:
        """The sizes of a micro-batch."""
        return self.objective.sizes.shape(self.architecture, self.data, self.batch // self.accumulation, self.length)

    @property
    def tokens(self) -> int:
        """Tokens of an update: those of every row that is read."""
        return self.batch * self.objective.sizes.rows * self.length

    @property
    def batches(self) -> int:
        """Training batches that are read at most: one per update, and those that are left out for instabilities."""
        assert self.steps is not None, "refused where examples must be known before the first update"
        back = 0 if self.spikes is None else self.spikes.rewinds * min(self.checkpoints.every, self.steps)
        return self.steps + self.non_finite.most + back

    @property
    def sizes(self) -> str:
        """Sizes of the model and of an update, in words."""
        depth, width = self.architecture.output_stack.depth, self.architecture.width
        return f"{depth} layers of width {width}, {self.batch} x {self.length} tokens per step"

    def learning_rate(self, step: int) -> float:
        """The rate of update number `step` (from 0), once the number of steps is known."""
        assert self.steps is not None
        return self.optimiser.learning_rate * self.schedule.factor(step, self.steps)


def load_run(path: Path | str, changes: Mapping[str, Any] | None = None) -> Run:
    """The run that a TOML or JSON file describes, with `changes` by path.

    In the file, `architecture` may be a catalogue name or a path, and a table `[set]` may change it by path. All changes
    are made at once: only the result must be valid. They come before what `smaller` sizes set.
    """
    run = _loaded(path, changes or {})
    return run.but(smaller=beside(run.smaller, run, changes)) if run.smaller and changes else run


def _loaded(path: Path | str, changes: Mapping[str, Any]) -> Run:
    path = Path(path)
    data = read_data(path)
    if not isinstance(data, dict):
        raise DescriptionError(f"should be a table, got {type(data).__name__}", where=str(path))
    changes, plugins = {**pop_changes(data, str(path)), **changes}, data.get(PLUGINS, ())
    source = changes.pop("start_from", data.get("start_from"))
    data = completed({**data, "start_from": source}, path.parent)
    if isinstance(named := data.get("architecture"), str):
        data["architecture"] = architecture(path_beside(named, path.parent)).plain()
    own = {key.removeprefix(_INSIDE): value for key, value in changes.items() if key.startswith(_INSIDE)}
    others = {key: value for key, value in changes.items() if not key.startswith(_INSIDE)}
    if own and "architecture" in data:
        # First of all, since the file's objective may suit the changed architecture alone.
        changed = change_all(Architecture.parse(inside(data, data["architecture"]), where=str(path)), own, plugins)
        try:
            run = Run.parse({**data, "architecture": changed.plain()}, where=str(path))
        except DescriptionError:
            if not others:
                raise
        else:
            return change_all(run, others, plugins) if others else run
    run = Run.parse(data, where=str(path))
    return change_all(run, changes, plugins) if changes else run


def default_run(
    model: Architecture, paths: tuple[str, ...], objective: Objective | None = None, data: Data | None = None
) -> Run:
    """A run of five minutes with an objective, by default the usual one, on data at `paths` as it suits the architecture."""
    objective = objective or default_objective(model)
    data = data or objective.usual.data(model, paths)
    return Run(minutes=5.0, length=objective.usual.length(model, data), data=data, objective=objective, architecture=model)


def started(run: Run, source: str, *, named: bool = False) -> Run:
    """The run from the weights of `source`, and with its tokenizer, unless another one is `named`."""
    text = {key: value for key, value in run.plain()["data"].items() if named or key != "tokenizer"}
    data = completed({"start_from": source, "architecture": "kept", "data": text})
    tokenizer = {"tokenizer": data["data"]["tokenizer"]} if "tokenizer" in data["data"] else {}
    return Run.parse({**run.plain(), "start_from": data["start_from"], "data": {**run.plain()["data"], **tokenizer}})


def on_stored_base(run: Run) -> Run:
    """The run with the weights beside its adapter in the few bits in which they are stored where it starts, if they are."""
    stored = base_of(run.start_from) if run.start_from is not None and run.tuning.adapter is not None else None
    return run if stored is None else run.but(tuning=run.tuning.but(base=stored))
