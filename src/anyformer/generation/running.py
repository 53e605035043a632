"""The tokens of several prompts as they come: all together, some at a time, with proposals, or by a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.beams import Beams, Hypothesis, searched
from anyformer.generation.chances import Token, chances
from anyformer.generation.continuous_batching import served
from anyformer.generation.decode import continued
from anyformer.generation.drafting import Draft, Drafter
from anyformer.generation.images import joined, of_prompts, on
from anyformer.generation.places import PlaceMaker
from anyformer.generation.sampling import Sampling
from anyformer.generation.sounds import SoundFrames
from anyformer.generation.speculative import Acceptance, check_verifies, speculated
from anyformer.generation.state_rows import state_rows
from anyformer.generation.steps import stepper
from anyformer.model.transformer import Transformer
from anyformer.parts.images.encoder_module import Images

Given = Iterator[list[Token]]
"""The tokens of the rows that get one, step by step."""


@dataclass(frozen=True)
class GenerationJob:
    """What is asked of a model: prompts, and how each is gone on with."""

    model: Transformer
    prompts: Sequence[Sequence[int]]
    sampling: Sampling
    max_tokens: int
    ends: tuple[int, ...] = ()
    start: int | None = None
    answers: int = 1
    images: Images | None = None
    batch: int | None = None
    compile: bool | None = None
    likeliest: int | None = None
    source: Tensor | None = None
    """Of a model that reads no text as source: that of every prompt, which begins the target."""
    sounds: SoundFrames | None = None
    """Those of all prompts, in order."""
    places: PlaceMaker | None = None
    """What computes logits where the model itself does not."""

    def __post_init__(self) -> None:
        rows, seed = len(self.prompts) * self.answers, self.sampling.seed
        if isinstance(seed, tuple) and len(seed) != rows:
            raise InputError(f"{len(seed)} seeds are given, and {rows} texts are made: give one per text, or one for all")

    def choice(self) -> dict[str, Any]:
        """How tokens are chosen, and where texts end."""
        return {"sampling": self.sampling, "max_tokens": self.max_tokens, "ends": self.ends, "start": self.start}

    def steps(self) -> dict[str, Any]:
        """How the model itself goes on by a token."""
        step, multiple = stepper(self.max_tokens, self.compile)
        return {"step": step, "multiple": multiple}

    def how(self) -> dict[str, Any]:
        """What a way of running by the model itself is told."""
        return self.choice() | self.steps()

    def read(self) -> Tensor | None:
        """The sources where the model is."""
        return None if self.source is None else self.source.to(self.model.device)

    def shown(self) -> Images | None:
        """The images where the model is."""
        return None if self.images is None else on(self.model.device, self.images)

    def heard(self) -> SoundFrames | None:
        """The sounds where the model is."""
        return None if self.sounds is None else self.sounds.on(self.model.device)

    def check_sounds(self, how: str) -> None:
        """Refuse sounds where all prompts are not read together."""
        if self.sounds is not None:
            raise InputError(f"sounds are read together with all of their texts: leave {how} out, or give one prompt at a time")


def running(
    job: GenerationJob, *, draft: Drafter | Transformer | None, acceptance: Acceptance | None, ended: Callable[[int], bool]
) -> Given:
    """The tokens of every row; those of one prompt stand one behind the other.

    `draft`: what proposes tokens for one row after the other; `acceptance` counts them. `ended`: whether a row has ended, asked
    when its token was given; it may get more tokens, which mean nothing.
    """
    if draft is not None:
        job.check_sounds("the draft")
        return _proposed(job, Draft(draft) if isinstance(draft, Transformer) else draft, acceptance, ended)
    if job.places is None and (job.batch is None or job.batch >= len(job.prompts) * job.answers):
        return _together(job)
    prompts = _several(job)
    make, batch = job.places or _own_places(job), min(job.batch or len(prompts), len(prompts))
    return served(make(prompts, batch, job.max_tokens), prompts, ended=ended, likeliest=job.likeliest, **job.choice())


def searching(
    job: GenerationJob,
    beams: Beams,
    *,
    stops: Callable[[Sequence[int]], bool] | None,
    over: Callable[[], bool] | None,
) -> Iterator[list[Hypothesis]]:
    """The best texts of each prompt, one prompt's after the other; `batch` prompts are searched together."""
    job.check_sounds("the beams")
    images, source = of_prompts(job.model, job.prompts, job.shown()), job.read()
    size = job.batch or len(job.prompts)
    for first in range(0, len(job.prompts), size):
        here = slice(first, first + size)
        yield from searched(
            job.model, job.prompts[here], beams, answers=job.answers, stops=stops, over=over, first=first,
            images=joined([each for each in images[here] if each is not None]), source=None if source is None else source[here],
            **job.how(),
        )  # fmt: skip


def _together(job: GenerationJob) -> Given:
    steps = continued(
        job.model, job.prompts, answers=job.answers, images=job.shown(), source=job.read(), sounds=job.heard(), **job.how()
    )  # fmt: skip
    for next_B, logits in steps:
        told = chances(logits, next_B, job.likeliest)
        yield [Token(row, *each) for row, each in enumerate(zip(next_B.tolist(), told, strict=True))]


def _own_places(job: GenerationJob) -> PlaceMaker:
    """Rows of the model's own decode state."""
    job.check_sounds(f"batch = {job.batch}")
    if job.source is not None:
        raise InputError(
            f"images are read together with all of their texts: give at most batch = {job.batch} at once, or a larger batch"
        )
    images = job.shown()
    if images is not None and job.answers > 1:
        images = joined([each for each in of_prompts(job.model, job.prompts, images) for _ in range(job.answers) if each])
    return partial(state_rows, job.model, start=job.start, images=images, **job.steps())


def _proposed(job: GenerationJob, drafter: Drafter, acceptance: Acceptance | None, ended: Callable[[int], bool]) -> Given:
    if job.images is not None or job.source is not None:
        raise InputError("tokens are proposed for text alone: leave the images or the draft out")
    if job.batch not in (None, 1):
        raise InputError(f"with a draft one prompt is computed at a time: leave batch = {job.batch} out")
    check_verifies(job.model, max(map(len, job.prompts), default=0) + job.max_tokens)
    drafter.check(job.model, job.prompts, job.max_tokens, job.start)
    return speculated(
        job.model, _several(job), drafter, ended=ended, acceptance=acceptance, likeliest=job.likeliest, **job.how()
    )  # fmt: skip


def _several(job: GenerationJob) -> list[Sequence[int]]:
    """Each prompt as often as it is answered."""
    return [prompt for prompt in job.prompts for _ in range(job.answers)]
