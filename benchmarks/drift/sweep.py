"""The sweep: every base, every key, every value; what was tried is remembered in one line each."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import queue
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.drift.asked import ABSENT, HIDDEN, NEVER
from benchmarks.drift.effects import WORDS
from benchmarks.drift.elsewhere import elsewhere, mark, open_keys, written
from benchmarks.drift.keys import Path as Keys
from benchmarks.drift.keys import bases, keys_of, own, suspect, untested
from benchmarks.drift.outcome import BAD, Tried
from benchmarks.drift.trial import Base
from benchmarks.drift.values import LENGTH

from anyformer.huggingface.config import INERT

DONE = "done"
"""What the line says that ends a job."""
QUICK = "quick "
"""What it begins with where only what needs no model was tried."""
VALUES = 2
"""Values of one key that are compared or refused here, or that change nothing there, after which no more are tried."""


SEEN = frozenset({NEVER, ABSENT, HIDDEN, *WORDS.values()})
"""Reasons for which one value of a key that moves nothing is enough."""


@dataclass(frozen=True)
class Job:
    """Keys of one base to be moved, each to so many values."""

    base: str
    keys: tuple[Keys, ...]
    values: int = VALUES

    @property
    def digest(self) -> str:
        """By which a line says that all of it was tried."""
        of = repr(self.keys) + ("" if self.values == VALUES else f" {self.values}")
        return hashlib.sha256(of.encode()).hexdigest()[:12]

    def is_done(self, known: Container[tuple[str, str, str]], quick: bool) -> bool:
        """Whether lines say that all of it was tried, with as many values or more; `quick`: what needs no model."""
        marks = [replace(self, values=count).digest for count in range(self.values, VALUES + 1)]
        return any((self.base, "", begin + mark) in known for mark in marks for begin in ([QUICK, ""] if quick else [""]))


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


def listed(path: Path, types: Iterable[str], keys: Iterable[str], of: str, count: int = VALUES) -> list[Job]:
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
            found.append(Job(base, chosen, count))
    return found


def run(of: Iterable[Job], known: dict[tuple[str, str, str], Tried], quick: bool = False) -> Iterator[Tried]:
    """Try every value of the keys of jobs of one base that is not known; `quick`: only what is known without a model.

    Keys that move nothing there are moved beside the keys of the type's other tiny configurations.
    """
    of = list(of)
    torch.set_num_threads(1)
    if todo := [job for job in of if not job.is_done(known, quick)]:
        base = Base(bases()[todo[0].base])
        if base.outcome.ended != "equal":
            yield Tried(
                base.case.model_type, "", "{}", "crash", f"the tiny configuration: {base.outcome.ended} {base.outcome.why}"
            )
            return
        for job in todo:
            for tried in _run(job, base, known, quick):
                known[tried.name] = tried
                yield tried
    if not quick and (still := _left_open(of, known)):
        name = of[0].base
        yield from elsewhere(name, bases()[name], still, keys_of(name))
        yield Tried(name, "", mark(still), DONE)


def _left_open(of: Iterable[Job], known: Mapping[tuple[str, str, str], Tried]) -> tuple[str, ...]:
    """Keys of jobs of one base that are to be moved elsewhere, if that was not done."""
    keys = {".".join(path): job.base for job in of for path in job.keys}
    found = open_keys(tried for tried in known.values() if keys.get(tried.key) == tried.base)
    return () if any((base, "", mark(found)) in known for base in keys.values()) else found


def _run(job: Job, base: Base, known: dict[tuple[str, str, str], Tried], quick: bool) -> Iterator[Tried]:
    usual, left = keys_of(job.base), False
    for path in job.keys:
        useful = idle = 0
        explained = bool(LENGTH.search(path[-1]))
        for move in base.moves(path, usual[path]):
            name = (job.base, ".".join(path), written(move))
            tried = known.get(name)
            if tried is None:
                outcome = base.quick(path, move) if quick else base.tried(path, move)
                if outcome is None:
                    left = True
                    break
                tried = Tried(*name, **vars(outcome))
                yield tried
            useful += tried.ended != "transformers refuses"
            # What no code asks for moves nothing whatever it is, and what moves the loss alone was seen to have its effect.
            idle += job.values if tried.why in SEEN else tried.moves is False
            explained |= tried.moves is not False or bool(tried.why)
            enough = explained and (useful >= job.values or idle >= job.values)
            if enough and path[-1] not in ("rope_parameters", "rope_scaling"):
                break
    yield Tried(job.base, "", QUICK + job.digest if left else job.digest, DONE)


def _all_done(of: list[Job], known: dict[tuple[str, str, str], Tried], quick: bool) -> bool:
    return all(job.is_done(known, quick) for job in of) and (quick or not _left_open(of, known))


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
            for tried in _in_process(of, own, quick) if not _all_done(of, own, quick) else ():
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
