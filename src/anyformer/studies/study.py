"""`Study`: a question about runs, as one frozen value and one TOML file: a base, arms, and how they are made comparable."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from anyformer.describe import Choice, Count, DescriptionError, Named, Value, change, change_all, parse_assignment
from anyformer.model import Architecture
from anyformer.studies.lengths import at_length
from anyformer.studies.sizes import Ladder, SizeGate, Smaller, Tokens
from anyformer.training import Run

QUANTITIES = {
    "params": "parameters",
    "active_params": "active",
    "flops": "training_flops",
    "decode_bytes": "decode_bytes",
}
"""What arms can be matched in: the word of a study, and the target of `costs.Budget`."""
SECONDS = "seconds"
"""What is measured, not counted: the time of an update."""
DECIDED = {"seed": "seeds", "steps": "budget", "minutes": "budget"}
"""Fields of a run that no arm may set, and the field of the study that decides them."""
FIXED = ("seed", "steps", "batch", "length", "architecture")
"""Fields of a run that tuning may not change: seeds, budget and matching depend on them."""


class Arm(Value):
    """One side of the comparison: the base run with another architecture, or another run, and changes by path after that."""

    architecture: Architecture | None = None
    """In a file also a catalogue name or a path. Absent: that of the base."""
    run: Run | None = None
    """In a file also the path of a run's file. Absent: the base."""
    set: tuple[str, ...] = ()
    """Changes by path, written as on the command line: `set = ["decoder.layer.attention.kv_heads=1"]`."""
    values: tuple[int | float, ...] = ()
    """The grid of `tuning` for this arm alone, as many values as there; for another optimiser, which wants other rates."""

    @property
    def changes(self) -> dict[str, Any]:
        """Values by path."""
        return dict(map(parse_assignment, self.set))

    def applied(self, base: Run) -> Run:
        """The run of this arm, before it is matched. Raises `DescriptionError` where its changes do not fit."""
        run = self.run or base
        if self.architecture is not None:
            run = run.but(architecture=self.architecture)
        changes = self.changes
        for path in changes:
            if path in DECIDED:
                raise DescriptionError(f"{path} is decided by the study, for all arms alike: set {DECIDED[path]}")
        run = change_all(run, changes) if changes else run
        return run.but(seed=base.seed, steps=base.steps, minutes=None)


class Staircase(Value):
    """Arms out of the differences from the base to another architecture: one change after the other, and all but one."""

    to: Architecture
    """In a file also a catalogue name or a path; `from` beside it names the base's architecture."""
    without: bool = True
    """Whether there are arms with all changes but one, beside those that add the changes one by one."""


class Matching(Value):
    """The sizes of every arm are moved until it costs as much as the base."""

    by: tuple[Annotated[str, Choice(lambda: {**QUANTITIES, SECONDS: SECONDS})], ...] = Field(min_length=1, max_length=2)
    """`params`, `active_params` (those that a token uses), `flops` (of training, per token) or `decode_bytes` (read to decode a
    token), or two of them; FLOPs and decoding are counted at the base's `length`. Or `seconds` of an update, measured on this
    machine when the study begins: base and arm in turns, and again after every move."""
    move: tuple[Literal["width", "depth", "ffn"], ...] = Field(default=("width", "ffn"), min_length=1)
    """The sizes that may change; the last one is adjusted most finely."""
    multiple: Count = 8
    """Widths are multiples of this."""
    tolerance: Annotated[float, Field(gt=0, lt=0.1)] = 0.005
    """The greatest relative distance from the base; of `seconds` 0.05 where nothing is said."""

    @model_validator(mode="before")
    @classmethod
    def _by_the_clock(cls, data: Any) -> Any:
        """What is measured comes less near than what is counted."""
        unsaid = isinstance(data, Mapping) and SECONDS in data.get("by", ()) and "tolerance" not in data
        return {**data, "tolerance": 0.05} if unsaid else data

    @field_validator("by")
    @classmethod
    def _once(cls, by: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(by)) < len(by):
            raise ValueError(f"names {by[0]!r} twice")
        if SECONDS in by and len(by) > 1:
            raise ValueError(
                f"names {SECONDS!r}, which is measured, beside {by[1 - by.index(SECONDS)]!r}, which is counted: leave one out"
            )
        return by

    @property
    def timed(self) -> bool:
        """Whether arms are matched by the clock."""
        return SECONDS in self.by


class ArmTuning(Value):
    """Every arm is tried at every value of a grid, with seeds of their own; the best mean decides, and other seeds use it.

    Where the best value of an arm is at an end of the grid, one value more is tried at that end by all arms, so that all have
    equally many trials: as far from its neighbour, as a ratio, as that one from the next.
    """

    path: str = "optimiser.learning_rate"
    """What is tuned."""
    values: tuple[int | float, ...] = Field(min_length=2)
    """In rising order, more than 0."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    """Of the trials; none of the study's. More than one where training now and then goes astray at a good rate."""
    widen: Annotated[int, Field(ge=0)] = 2
    """How often the grid may grow; a best value that is at an end after that is flagged."""
    size: Smaller | None = None
    """A smaller size at which the value is chosen for all sizes, as a multiple of the whole; every arm has muP then, so that
    what is best there is best at others. Absent: chosen at every size by itself."""

    @field_validator("values")
    @classmethod
    def _rising(cls, values: tuple[int | float, ...]) -> tuple[int | float, ...]:
        check_rising(values)
        return values


def check_rising(values: tuple[int | float, ...]) -> None:
    """Raise `ValueError` for a grid that is no grid."""
    if list(values) != sorted(set(values)) or min(values) <= 0:
        raise ValueError(f"should be different numbers more than 0 in rising order, got {list(values)}")


def _check_once(name: str, seeds: tuple[int, ...]) -> None:
    """Raise `ValueError` where a seed stands twice."""
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{name}: {list(seeds)} holds one twice")


def _words(data: Any) -> Any:
    """`match = "params"` and `match = ["params", "flops"]` in place of a table."""
    if isinstance(data, str):
        return {"by": [data]}
    return {"by": data} if isinstance(data, list | tuple) else data


class Study(Value):
    """Base, arms, matching, budget, tuning and seeds: what `anyformer compare` answers."""

    versioned: ClassVar[bool] = True
    title: Annotated[str, Field(min_length=1)]
    """The question."""
    metric: str = "loss"
    """What is compared: the held-out `loss`, or a metric of the objective such as `accuracy`."""
    better: Literal["lower", "higher"] = "lower"
    """Which values of the metric are better."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(1, 2, 3, 4, 5), min_length=1)
    """Every arm is trained once per seed; arms are compared seed by seed, since a seed gives all arms the same batches,
    and the same initial values wherever names and shapes of weights agree."""
    match: Annotated[Matching | None, BeforeValidator(_words)] = None
    """What arms have as much of as the base; also `match = "params"`. Absent: sizes stay as they are."""
    budget: Literal["tokens", "flops"] = "tokens"
    """What all arms are trained with as much of as the base: tokens, or training FLOPs."""
    tuning: ArmTuning | None = None
    """What is chosen per arm by itself before it is compared. Absent: every arm keeps its values."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """The greatest probability of any verdict "better" or "worse" where there is no difference, over all arms together."""
    threads: Count = 1
    """Threads of a trial; part of what it computes, since sums in another order differ in their last bits."""
    base_name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = "base"
    """What the base is called."""
    base: Run
    """The run that arms change, and are compared with; in a file also a path."""
    arms: Named[Arm] = Named()
    """What is compared with the base, by name."""
    staircase: Staircase | None = None
    """More arms, part of the way from the base to another architecture."""
    gates: tuple[SizeGate, ...] = ()
    """Small sizes in rising order; only the best arms go on from one to the next."""
    ladder: Ladder | None = None
    """Smaller sizes at which every arm is trained too, for a law of loss and compute."""
    lengths: tuple[Annotated[int, Field(ge=2)], ...] = ()
    """Other lengths than the base's, in rising order, that every trained model is asked at: does what it learnt hold there?"""
    smaller: Tokens = "proportional"
    """What smaller sizes are trained with: tokens in proportion to their parameters, or as many as the whole."""

    @field_validator("lengths")
    @classmethod
    def _rising_lengths(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if list(lengths) != sorted(set(lengths)):
            raise ValueError(f"should be different lengths in rising order, got {list(lengths)}")
        return lengths

    @model_validator(mode="after")
    def _adds_up(self) -> Study:
        if not self.arms and self.staircase is None:
            raise ValueError("has nothing to compare: add arms or a staircase")
        if self.base.steps is None:
            raise ValueError(
                "base.minutes: the updates of a comparison must not depend on how busy the machine is: set base.steps, and "
                "leave minutes out"
            )
        if self.base_name in self.arms:
            raise ValueError(f"arms.{self.base_name}: the base has this name: give the arm another one, or set base_name")
        _check_once("seeds", self.seeds)
        if self.tuning is not None:
            self._check_tuning(self.tuning)
        self._check_sizes()
        self._check_lengths("base", self.base)
        for name, arm in self.arms.items():
            try:
                run = arm.applied(self.base)
                if self.tuning is not None:
                    self._check_grid(arm, run)
                self._check_lengths(name, run)
            except ValueError as error:
                raise ValueError(f"arms.{name}: {error}") from None
        return self

    def _check_tuning(self, tuning: ArmTuning) -> None:
        if twice := [seed for seed in tuning.seeds if seed in self.seeds]:
            raise ValueError(
                f"tuning.seeds: {twice[0]} is one of seeds: a value chosen with a seed looks too good with it; take other seeds"
            )
        _check_once("tuning.seeds", tuning.seeds)
        try:
            tried = [change(self.base, tuning.path, value) for value in tuning.values]
        except DescriptionError as error:
            raise ValueError(f"tuning: {error}") from None
        if any(getattr(run, name) != getattr(self.base, name) for run in tried for name in FIXED):
            raise ValueError(
                f"tuning.path: {tuning.path} changes what is equal for all arms ({', '.join(FIXED)}): make arms of its values"
            )

    def _check_sizes(self) -> None:
        smaller = self.gates or self.ladder or (self.tuning is not None and self.tuning.size is not None)
        if self.match is not None and self.match.timed and smaller:
            raise ValueError(
                "match: seconds are measured at one size: leave gates, ladder and tuning.size out, or match a count"
            )
        sizes = [gate.size for gate in self.gates]
        if sizes != sorted(set(sizes)):
            raise ValueError(f"gates: should be different sizes in rising order, got {sizes}")
        if any(after.keep >= before.keep for before, after in pairwise(self.gates)):
            raise ValueError(f"gates: a gate keeps fewer arms than the one before, got {[gate.keep for gate in self.gates]}")
        if self.tuning is None and (twice := [gate.seed for gate in self.gates if gate.seed in self.seeds]):
            raise ValueError(
                f"gates: seed = {twice[0]} is one of seeds: arms that were chosen with it are too good; take others"
            )
        if self.ladder is not None and (self.better != "lower" or self.metric != "loss"):
            raise ValueError(f"ladder: a law is fitted to the loss, and metric = {self.metric!r}: leave ladder or metric out")

    def _check_lengths(self, name: str, run: Run) -> None:
        for length in self.lengths:
            if length == run.length:
                raise ValueError(
                    f"lengths: {length} is the length that {name} is trained at, which is asked anyway: leave it out"
                )
            try:
                at_length(run, length)
            except ValueError as error:
                raise ValueError(f"lengths: {name} cannot be asked at {length}: {error}") from None

    def _check_grid(self, arm: Arm, run: Run) -> None:
        assert self.tuning is not None
        if arm.values:
            check_rising(arm.values)
            if len(arm.values) != len(self.tuning.values):
                raise ValueError(
                    f"values: has {len(arm.values)} values and tuning.values {len(self.tuning.values)}: every arm is tried "
                    "equally often"
                )
        for value in arm.values or self.tuning.values:
            change(run, self.tuning.path, value)
        if self.tuning.size is not None and run.architecture.initialisation.mup is None:
            raise ValueError(
                f"tuning.size = {self.tuning.size:g} chooses {self.tuning.path} at a smaller width for all, which takes muP: "
                "set base.architecture.initialisation.mup = { base_width = D }"
            )

    def grid(self, name: str) -> tuple[int | float, ...]:
        """The values that an arm is first tried at."""
        assert self.tuning is not None
        return (self.arms[name].values if name in self.arms else ()) or self.tuning.values
