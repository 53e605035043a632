"""A grid of decoding cases, one after the other, into one result file that a later call goes on with.

Contenders of one model and one kind of weights stay alive from case to case, since starting them takes longer than measuring.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby, product
from pathlib import Path
from typing import Any

from benchmarks.cases import WEIGHTS, Case
from benchmarks.contenders import BASE, grid
from benchmarks.sitting import Contender, GaveUpError, begun, machine, start, summary, take_turns, taking_part, told, written

Start = Callable[[str, list[str]], Contender]


def cases(models: Sequence[str], weights: Sequence[str], batches: Sequence[int], contexts: Sequence[int]) -> list[Case]:
    """All cases, those that take longest last; cases of one model and one kind of weights stand together."""
    found = [Case(*each) for each in product(models, weights, batches, contexts)]
    return sorted(found, key=lambda case: (case.heavy, list(WEIGHTS).index(case.weights), models.index(case.model)))


SHORT = 64
"""The prompt with which contenders warm up."""


@dataclass
class Grid:
    """What is measured so far, in a file (None: nowhere). `rounds` of one generation each; heavy cases have one."""

    path: Path | None
    rounds: int
    begin: Start
    reading: Callable[[], float]
    """Bytes per second of reading memory."""
    extras: Sequence[str] = ()
    """Contenders beside the usual ones."""
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            self.record = json.loads(self.path.read_text())
        self.record.setdefault("what", "decoding, a grid of cases")
        self.record.setdefault("base", BASE["decoding"])
        self.record.setdefault("cases", {})

    def missing(self, wanted: Iterable[Case], again: bool) -> list[Case]:
        """The cases that are to be measured."""
        return [case for case in wanted if again or case.name not in self.record["cases"]]

    def measure(self, wanted: Sequence[Case], seconds: float) -> list[Case]:
        """Measure one case after another until `seconds` are over; returns those that are left."""
        end = time.monotonic() + seconds
        left = list(wanted)
        for (model, weights, _), group in groupby(wanted, key=lambda case: (case.model, case.weights, case.heavy)):
            if time.monotonic() >= end:
                break
            try:
                with ExitStack() as stack:
                    contenders = self._started(stack, Case(model, weights, 1, SHORT))
                    reading = self.reading()
                    for case in group:
                        if time.monotonic() >= end:
                            break
                        self._keep(case, contenders, reading)
                        left.remove(case)
            except GaveUpError as error:
                print(f"no result, and on to the next model: {error}", flush=True)
        return left

    def _started(self, stack: ExitStack, case: Case) -> list[Contender]:
        """All contenders, ready for a short case."""
        return begun(
            stack, (self.begin(name, [*command, "--warmup", "1"]) for name, command in grid(case, self.extras).items())
        )

    def _keep(self, case: Case, contenders: list[Contender], reading: float) -> None:
        """Measure a case and write it down. A contender that gives up before is named, and takes part no more."""
        print(f"--- {case.name}", flush=True)
        units = 1 if case.context <= SHORT else 0
        contenders[:] = taking_part(contenders, lambda contender: contender.case(case.batch, case.context, units))
        ours = [contender for contender in contenders if contender.name == BASE["decoding"]]
        if not ours:
            raise GaveUpError(f"nothing to compare with in {case.name}")
        take_turns(contenders, 1 if case.heavy else self.rounds, 1)
        rows = summary(contenders, BASE["decoding"])
        told(rows)
        bound = ours[0].ready["bytes_per_step"] / reading
        share = bound * rows[0]["tokens_per_second"] / case.batch
        print(f"{share:.1%} of the tokens/s that reading its {ours[0].ready['bytes_per_step'] / 1e6:,.0f} MB a step allows")
        self.record["cases"][case.name] = {
            "model": case.model, "weights": case.weights, "batch": case.batch, "context": case.context,
            "date": date.today().isoformat(), "machine": machine(), "reading": round(reading),
            "share_of_reading": round(share, 3), "results": rows,
        }  # fmt: skip
        if self.path is not None:
            written(self.path, self.record)


def starting(peers_python: str, tiny: bool) -> Start:
    """How contenders of a grid are started."""
    return lambda name, command: start(name, [*command, *(["--tiny"] if tiny else [])], peers_python, {})
