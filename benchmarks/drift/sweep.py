"""The sweep: every base, every key, every value; what was tried is remembered in one line each."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import queue
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks.drift.asked import HIDDEN, NEVER
from benchmarks.drift.keys import Path as Keys
from benchmarks.drift.keys import bases, keys_of, own, suspect, untested
from benchmarks.drift.outcome import BAD, Outcome
from benchmarks.drift.trial import Base
from benchmarks.drift.values import Move, values

from anyformer.huggingface.config import INERT

DONE = "done"
"""What the line says that ends a job."""
QUICK = "quick "
"""What it begins with where only what needs no model was tried."""
USEFUL, IDLE = 2, 2
"""Values of one key that are compared or refused here, after which no more are tried; and those that change nothing there."""


@dataclass(frozen=True)
class Tried:
    """One line: a value of a key and how it ended."""

    base: str
    key: str
    value: str
    ended: str
    why: str = ""
    moves: bool | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        return self.base, self.key, self.value


@dataclass(frozen=True)
class Job:
    """Keys of one base to be moved."""

    base: str
    keys: tuple[Keys, ...]

    @property
    def digest(self) -> str:
        """By which a line says that all of it was tried."""
        return hashlib.sha256(repr(self.keys).encode()).hexdigest()[:12]


def lines(path: Path) -> dict[tuple[str, str, str], Tried]:
    """What was tried before; a line that was cut short is tried again."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError, TypeError):
            tried = Tried(**json.loads(line))
            found[tried.name] = tried
    return found


def jobs(types: Iterable[str], keys: Iterable[str], of: str) -> list[Job]:
    """Keys of every base, in the order in which they are tried: those that a class declares and no test moves, those that a
    class asks for and that are inert here, the others that no test moves, and all others.

    `of`: `untested`, `others` or `all`.
    """
    types, keys = set(types), set(keys)
    order: tuple[list[Job], ...] = ([], [], [], [], [])
    for name, case in bases().items():
        if types and not types & {case.model_type, name}:
            continue
        every = [path for path in keys_of(name) if not keys or path[-1] in keys]
        new, declared = set(untested(name)), own(case.model_type)
        places: tuple[list[Keys], ...] = ([], [], [], [], [])
        for path in every:
            place = 0 if path[-1] in declared else 1 if suspect(case, path[-1]) else 3 if path[-1] in INERT else 2
            places[place if path in new else 4].append(path)
        for jobs, paths in zip(order, places, strict=True):
            jobs.append(Job(name, tuple(paths)))
    chosen = {"untested": order[:4], "others": order[4:], "all": order}[of]
    return [job for jobs in chosen for job in jobs if job.keys]


def listed(path: Path, types: Iterable[str], keys: Iterable[str], of: str) -> list[Job]:
    """The jobs, from the list of an earlier run if there is one: to make it takes as long as some hundred values."""
    if not path.exists():
        every = [[job.base, of, job.keys] for of in ("untested", "others") for job in jobs((), (), of)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(every), encoding="utf-8")
    types, keys = set(types), set(keys)
    found = []
    for base, place, paths in json.loads(path.read_text(encoding="utf-8")):
        chosen = tuple(tuple(each) for each in paths if not keys or each[-1] in keys)
        if chosen and of in (place, "all") and (not types or types & {base, base.partition(" ")[0]}):
            found.append(Job(base, chosen))
    return found


def moves(base: Base, path: Keys, usual: Any) -> list[Move]:
    """The values of a key; `usual`: its default."""
    case = base.case
    table: Any = case.config
    for key in path[:-1]:
        table = table[key]
    effective = base.effective
    for key in path[:-1]:
        effective = effective.get(key) or {}
    kind = str(table.get("model_type", case.model_type)) if len(path) > 1 else case.model_type
    return values(kind, path[-1], usual, table.get(path[-1], effective.get(path[-1], usual)), base.frequencies)


def run(of: Iterable[Job], known: dict[tuple[str, str, str], Tried], quick: bool = False) -> Iterator[Tried]:
    """Try every value of the keys of jobs of one base that is not known; `quick`: only what is known without a model."""
    todo = [job for job in of if not _is_done(job, known, quick)]
    if not todo:
        return
    torch.set_num_threads(1)
    base = Base(bases()[todo[0].base])
    for job in todo:
        if base.outcome.ended != "equal":
            yield Tried(job.base, "", "{}", "crash", f"the tiny configuration: {base.outcome.ended} {base.outcome.why}")
            return
        yield from _run(job, base, known, quick)


def _run(job: Job, base: Base, known: dict[tuple[str, str, str], Tried], quick: bool) -> Iterator[Tried]:
    usual, left = keys_of(job.base), False
    for path in job.keys:
        useful = idle = 0
        for move in moves(base, path, usual[path]):
            value = json.dumps(move, default=lambda each: "..." if each is ... else str(each))
            name = (job.base, ".".join(path), value)
            tried = known.get(name)
            if tried is None:
                outcome = base.quick(path, move) if quick else _guarded(base, path, move)
                if outcome is None:
                    left = True
                    break
                tried = Tried(*name, **vars(outcome))
                yield tried
            useful += tried.ended != "transformers refuses"
            # What no code asks for moves nothing whatever it is.
            idle += IDLE if tried.why in (NEVER, HIDDEN) else tried.moves is False
            if (useful >= USEFUL or idle >= IDLE) and path[-1] not in ("rope_parameters", "rope_scaling"):
                break
    yield Tried(job.base, "", QUICK + job.digest if left else job.digest, DONE)


def _is_done(job: Job, known: dict[tuple[str, str, str], Tried], quick: bool) -> bool:
    marks = (job.digest, QUICK + job.digest) if quick else (job.digest,)
    return any((job.base, "", mark) in known for mark in marks)


def _guarded(base: Base, path: Keys, move: Move) -> Outcome:
    try:
        return base.tried(path, move)
    except Exception as error:  # a mistake of the sweep's own, which must not end it
        return Outcome("crash", f"the sweep: {type(error).__name__}: {error}"[:300])


def _work(of: list[Job], known: dict[tuple[str, str, str], Tried], quick: bool, results: Any) -> None:
    for tried in run(of, known, quick):
        results.put(tried)
    results.put(None)


def sweep(
    todo: list[Job],
    path: Path,
    redo: Iterable[str],
    count: int,
    tell: Callable[[Job | None, Counter[str]], None],
    quick: bool = False,
) -> None:
    """Run the jobs, those of one base in a process of their own, `count` at a time; append what they try.

    `redo`: outcomes that are tried again; `quick`: only what is known without a model.
    """
    redo = set(redo)
    before = lines(path)
    again = {tried.base for tried in before.values() if tried.ended in redo}
    ended = redo | {DONE}
    known = {name: each for name, each in before.items() if each.ended not in (ended if each.base in again else redo)}
    counts = Counter(tried.ended for tried in known.values() if tried.ended != DONE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file, ThreadPoolExecutor(count) as pool:

        def one(of: list[Job]) -> None:
            own = {name: tried for name, tried in known.items() if name[0] == of[0].base}
            left = {job.digest: job for job in of}
            for tried in _in_process(of, own, quick) if not all(_is_done(job, own, quick) for job in of) else ():
                file.write(json.dumps(vars(tried)) + "\n")
                file.flush()
                counts[tried.ended] += tried.ended != DONE
                tell(left.pop(tried.value.removeprefix(QUICK), None) if tried.ended == DONE else None, counts)
            for job in left.values():
                tell(job, counts)

        list(pool.map(one, _by_base(todo)))


def _by_base(todo: Iterable[Job]) -> list[list[Job]]:
    """Jobs of one base together, in the order of the first: a base is made once."""
    found: dict[str, list[Job]] = {}
    for job in todo:
        found.setdefault(job.base, []).append(job)
    return list(found.values())


def _in_process(of: list[Job], known: dict[tuple[str, str, str], Tried], quick: bool) -> Iterator[Tried]:
    """What jobs of one base try; where their process dies, the line says so and the rest is left for a rerun."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=_work, args=(of, known, quick, results), daemon=True)
    process.start()
    while True:
        try:
            tried = results.get(timeout=5)
        except queue.Empty:
            if process.is_alive():
                continue
            yield Tried(of[0].base, "", "{}", "crash", f"the process ended with {process.exitcode}")
            return
        if tried is None:
            process.join()
            return
        yield tried


def bad(tried: Iterable[Tried]) -> list[Tried]:
    """What must not be."""
    return [each for each in tried if each.ended in BAD]
