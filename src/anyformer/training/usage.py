"""What an update makes of the machine: its rate, the share of the peak, memory, where time goes, and which process is slow.

Processes that train together take equally long for an update, since each waits for the others: a slow one is the one that waits
least. So each tells its own time, which is the update's without its waits, and all hear of it when they next ask one another
whether to stop (`Ranks.meet`): no exchange is made for it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from anyformer.costs import scaled
from anyformer.training.memory_meter import peak_of_process
from anyformer.training.parallel.ranks import Ranks
from anyformer.training.precision import Host
from anyformer.training.priced import flops_of, step_of
from anyformer.training.run import Run
from anyformer.training.summary import update_figures

clock: Callable[[], float] = time.perf_counter
"""Seconds; tests replace it."""
SHARES = ("communication", "data", "saving")
"""Where the time goes that is not spent on computing."""
LITTLE = 0.01
"""A share of the time below which it is not worth words."""


@dataclass(frozen=True)
class OwnTime:
    """What a process tells the others of its newest update: `seconds` without waits, None where they are not known, and the
    most bytes that it held so far, None where the system does not say."""

    host: str
    seconds: float | None
    memory: int | None


@dataclass(frozen=True)
class UpdateWork:
    """`tokens` of an update, its `model_flops` (every query-key pair), FLOPs `executed` (counted with those of layers that the
    backward pass computes again), and the `peak` of all devices together, FLOP/s."""

    tokens: int
    model_flops: float
    executed: float
    peak: float

    def rates(self, seconds: float, devices: int) -> dict[str, float]:
        """Tokens a second and device, MFU and HFU (Chowdhery et al. 2022, arXiv 2204.02311, appendix B)."""
        # A peak that was measured while the machine was busy is too low; none is exceeded.
        peak = max(self.peak, self.executed / seconds)
        return {
            "tokens_per_second_per_device": round(self.tokens / seconds / devices, 2),
            "mfu": round(self.model_flops / seconds / peak, 5),
            "hfu": round(self.executed / seconds / peak, 5),
        }


@dataclass
class UsageMeter:
    """Of the updates of one process. `memory`: the most bytes that it held so far; `seen`: whether its waits are counted."""

    ranks: Ranks
    work: UpdateWork
    memory: Callable[[], int | None]
    seen: bool = True
    own: OwnTime = field(init=False)
    """Of the newest update, to be told to the others."""
    others: Sequence[OwnTime] = ()
    """What all processes told, in order."""
    _held: int | None = field(default=None, init=False)
    _line: float = field(init=False)
    """When the line before was written."""
    _waits: float = field(init=False)
    """Of this process until then."""
    _saved: float = field(default=0.0, init=False)
    _began: float = field(init=False)
    """Waits until the newest update began."""
    _loading: float = field(default=0.0, init=False)

    @staticmethod
    def of(run: Run, directory: Path, machine: Host, ranks: Ranks) -> UsageMeter:
        """The meter of a run; of layers that are compiled, what waits within them is not seen.

        The first process, which alone writes, counts what is executed; the summary at the end has use for the count again.
        """
        model, peak = flops_of(run, directory), ranks.size * machine.rated(run.plan)
        counted = update_figures(step_of(run, directory), run.piece, run.accumulation, run.plan)[0] if ranks.first else None
        work = UpdateWork(run.tokens, model, max(model, (counted and counted.measured) or 0), peak)
        mesh = run.plan.mesh
        within = run.plan.compile == "on" and mesh.tensor * mesh.context > 1
        return UsageMeter(ranks, work, partial(peak_of_process, machine.device), seen=not within)

    def __post_init__(self) -> None:
        self.own = OwnTime(platform.node(), None, self._most())
        self._line, self._waits = clock(), self.ranks.waited()
        self._began = self._waits

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Around the first work of an update: to fetch its examples."""
        self._began, start = self.ranks.waited(), clock()
        yield
        self._loading += clock() - start - (self.ranks.waited() - self._began)

    def row(self, seconds: float, saved: float) -> dict[str, Any]:
        """The figures of an update that took `seconds`, in a run that waited `saved` seconds for checkpoints so far.

        Shares are of the time since the line before: an evaluation or a checkpoint between them is part of it.
        """
        now, waits = clock(), self.ranks.waited()
        period = max(now - self._line, 1e-9)
        own = max(seconds - (waits - self._began), 0.0) if self.seen else None
        self.own = OwnTime(self.own.host, own, self._most())
        held = [each.memory for each in (*self.others, self.own) if each.memory is not None]
        figures: dict[str, Any] = self.work.rates(seconds, self.ranks.size) if seconds > 0 else {}
        figures |= {
            "memory": max(held, default=None),
            "communication": _share(waits - self._waits, period) if self.seen else None,
            "data": _share(self._loading, period),
            "saving": _share(saved - self._saved, period),
            **extremes(self.others),
        }
        self._line, self._waits, self._saved, self._loading = now, waits, saved, 0.0
        return figures

    def _most(self) -> int | None:
        now = self.memory()
        self._held = now if self._held is None else max(self._held, now or 0)
        return self._held


def extremes(every: Sequence[OwnTime]) -> dict[str, Any]:
    """The slowest and the fastest of several processes: rank, host, and own time as a multiple of the median's."""
    seconds = [each.seconds for each in every if each.seconds is not None]
    middle = median(seconds) if len(seconds) == len(every) > 1 else 0.0
    if not middle:
        return {}

    def named(rank: int) -> dict[str, Any]:
        return {"rank": rank, "host": every[rank].host, "own": round(seconds[rank] / middle, 3)}

    ranks = range(len(every))
    return {"slowest": named(max(ranks, key=seconds.__getitem__)), "fastest": named(min(ranks, key=seconds.__getitem__))}


def words(figures: Mapping[str, Any]) -> list[str]:
    """What is worth a word of a line's figures beside the rate, the most important first."""
    said = [f"HFU {figures['hfu']:.0%}"] if figures.get("hfu", 0) > (1 + LITTLE) * figures.get("mfu", 0) else []
    if ends := [figures[name] for name in ("slowest", "fastest") if name in figures]:
        named = (f"rank {each['rank']} on {each['host']} {each['own']:.2f}" for each in ends)
        said.append(f"own time: {', '.join(named)} of the median's")
    said += [f"{name} {share:.0%}" for name in SHARES if (share := figures.get(name) or 0) >= LITTLE]
    return [*said, f"memory {scaled(figures['memory'])}B"] if figures.get("memory") else said


def _share(part: float, whole: float) -> float:
    return round(min(max(part / whole, 0.0), 1.0), 4)
