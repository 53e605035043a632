"""Which size of a run this machine trains in the run's minutes, by updates of made-up examples."""

from __future__ import annotations

from statistics import median

from anyformer.costs import scaled
from anyformer.describe import DescriptionError, change_all
from anyformer.operations import Shape
from anyformer.training.precision import Host, autocast, deterministic, resolve, units
from anyformer.training.priced import models_of, step_of
from anyformer.training.run import Run
from anyformer.training.timing import seconds_of

SECONDS = 1.0
"""Time after which no further update of a size is timed."""
TIMED = 5
"""Updates timed at most; the first of all, which warms up, does not count."""


def sizes(run: Run) -> list[Run]:
    """The run as it stands and its smaller forms, none with a choice. Raises `DescriptionError` for one that does not fit."""
    whole = run.but(smaller=())
    if run.minutes is None:
        return [whole]
    found = [whole]
    for number, size in enumerate(run.smaller):
        try:
            found.append(change_all(whole, size.changes))
        except DescriptionError as error:
            raise DescriptionError(f"smaller.{number}.set: {error}") from None
    return found


def sized(run: Run, machine: Host, left: float, processes: int = 1) -> tuple[Run, list[str]]:
    """The size of which `left` seconds hold enough tokens, and a line if it is not the run as it stands.

    From the smallest to larger ones, so that nothing is timed that takes much longer than what is trained. Updates are not
    compiled, which takes longer than this choice may; `processes`: those that share the batch.
    """
    found = sizes(run)
    for number in range(len(found) - 1, 0, -1):
        larger = found[number - 1]
        rate = processes * tokens_per_second(larger, machine)
        if rate * left < run.smaller[number - 1].below:
            return found[number], [
                f"this machine trains {rate:,.0f} tokens/s of {_parameters(larger)} parameters: "
                f"{_parameters(found[number])} parameters instead" + f" of {_parameters(found[0])}" * (number > 1)
            ]
    return found[0], []


def tokens_per_second(run: Run, machine: Host) -> float:
    """Tokens of forward and backward passes of a micro-batch per second, not compiled: the median of a few."""
    plan, _ = resolve(run.plan.but(compile="off"), machine, run.tuning.base, long=False)
    step = step_of(run)
    signal = step.signal
    assert signal is not None, "a run has an objective"
    model, others = models_of(step, plan, machine.device)

    def gradients() -> None:
        with autocast(plan, machine.device):
            loss = signal.loss(model, run.piece, others)
        loss.backward()  # type: ignore[no-untyped-call]
        loss.item()  # an accelerator has computed it by then

    durations = list[float]()
    with deterministic(), units(plan):
        while len(durations) < 2 or (len(durations) <= TIMED and sum(durations) < SECONDS):
            durations.append(seconds_of(gradients))
    return run.tokens / run.accumulation / median(durations[1:])


def _parameters(run: Run) -> str:
    return scaled(run.architecture.trained_cost(Shape(source=1)).parameters).rstrip()
