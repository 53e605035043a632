"""Where the processes of a run are in its code, when one of them does not come."""

from __future__ import annotations

import json
import socket
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from traceback import FrameSummary, format_list

import torch

OURS = str(Path(__file__).parents[2])
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
TIMER = f"{OURS}/training/parallel/exchange_clock.py"
"""Code of ours around every call of torch that waits for other processes: no process is said to be in it."""
WAITING = (TIMER, *(f"{Path(torch.__file__).parent}/{name}" for name in ("distributed/", "autograd/graph.py", "_ops.py")))
"""Code that waits for other processes; the last two of torch do when a backward pass or a compiled step does."""
FRAMES = 12
"""Calls of a stack that are shown, the innermost ones."""
SHOWN = 3
"""Processes whose stacks are shown."""


@dataclass(frozen=True)
class Whereabouts:
    """Where a process is: its machine, the line of the innermost code that is no library's, the calls that led to it, and
    whether it waits there for other processes."""

    machine: str
    place: str
    stack: str
    waits: bool

    @staticmethod
    def of(calls: Sequence[FrameSummary]) -> Whereabouts:
        """Read off a stack, the innermost call last."""
        inner = max((number for number, call in enumerate(calls) if _own(call)), default=len(calls) - 1)
        call, beneath = calls[inner], calls[inner + 1 :]
        waits = any(each.filename.startswith(WAITING) for each in beneath)
        stack = "".join(format_list(list(calls[-FRAMES:])))
        return Whereabouts(socket.gethostname(), f"{call.name} ({_short(call.filename)}:{call.lineno})", stack, waits)

    def text(self) -> str:
        """Text that `read` reads."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str) -> Whereabouts:
        return Whereabouts(**json.loads(text))


def told(found: Mapping[int, Whereabouts | None]) -> list[str]:
    """Lines about processes by rank, all of which answer: those that are elsewhere, with their stacks, and those that wait."""
    absent = {rank: where for rank, where in found.items() if where is not None and not where.waits}
    lines = []
    for number, (rank, where) in enumerate(absent.items()):
        lines.append(f"rank {rank} on {where.machine} did not come: it is in {where.place}")
        if number < SHOWN:
            lines += [f"  {line}" for line in where.stack.splitlines()]
    waiting = _by_place(found, waits=True).items()
    return lines + [f"{_ranks(ranks)} wait{'s' * (len(ranks) == 1)} in {place}" for place, ranks in waiting]


def lost(found: Mapping[int, Whereabouts | None], machines: Sequence[str]) -> str:
    """One sentence about processes by rank where some do not answer: these, with the machines of all ranks, and where the
    others were. Empty where all answer."""
    silent = [rank for rank, where in found.items() if where is None]
    if not silent:
        return ""
    one, on = len(silent) == 1, ", ".join(dict.fromkeys(machines[rank] for rank in silent))
    said = [f"{_ranks(silent)} on {on} {'is' if one else 'are'} lost ({'it' if one else 'they'} ended, or cannot be reached)"]
    them = "it" if one else "them"
    said += [f"{_ranks(ranks)} waited for {them} in {place}" for place, ranks in _by_place(found, waits=True).items()]
    for place, ranks in _by_place(found, waits=False).items():
        said.append(f"{_ranks(ranks)} {'was' if len(ranks) == 1 else 'were'} in {place}")
    return "; ".join(said)


def _by_place(found: Mapping[int, Whereabouts | None], *, waits: bool) -> dict[str, list[int]]:
    """The ranks by place, of those that wait for other processes or of those that do not."""
    places: dict[str, list[int]] = {}
    for rank, where in found.items():
        if where is not None and where.waits == waits:
            places.setdefault(where.place, []).append(rank)
    return places


def _own(call: FrameSummary) -> bool:
    if call.filename == TIMER:
        return False
    return call.filename.startswith(OURS) or not call.filename.startswith((*LIBRARIES, "<"))


def _short(file: str) -> str:
    return file.removeprefix(f"{OURS}/")


def _ranks(ranks: Sequence[int]) -> str:
    """`ranks 0-2, 5`."""
    groups: list[list[int]] = []
    for rank in sorted(ranks):
        if groups and rank == groups[-1][-1] + 1:
            groups[-1].append(rank)
        else:
            groups.append([rank])
    words = (f"{group[0]}-{group[-1]}" if len(group) > 1 else str(group[0]) for group in groups)
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(words)}"
