"""What a step of the server takes, by its own clock while it serves: texts side by side, and chunks of prompts.

Some seconds of requests that come one behind the other, of 1 to 8 clients, show steps of every kind. Least squares say what a
step of so many texts takes and what a key adds, and what a chunk takes by its tokens, those before it, and its end; and how
much longer the texts take behind a chunk, whose numbers fill the caches of the processor: that is counted to the chunk.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.queues.client import Answered, mixed_loop
from benchmarks.queues.server import CHUNK, PLACES, TOKEN
from benchmarks.queues.timed_server import ServedStep
from benchmarks.queues.ways import Ways, ways

from anyformer.planning.queues.measured_steps import MeasuredSteps
from anyformer.planning.queues.requests import ArrivingRequests

TEXTS = tuple(range(1, PLACES + 1))
CLIENTS = (1, 2, 4, PLACES)
EACH = 4
"""Requests of every client."""
SITTING = EACH * sum(CLIENTS)
KEYS = (32, 288)
LENGTHS = tuple(length for whole in range(0, 5 * CHUNK, CHUNK) for length in (whole, whole + 1) if length)[:-1]
"""Prompts of whole chunks, and of a token more."""
SEEN = 0.05
"""Share of steps that are behind a chunk, and that are not, below which nothing is said of what that does."""
ALONE, PAUSE = 16, 0.05
"""Requests that find an idle server, and the seconds between them."""


@dataclass(frozen=True)
class Sitting:
    """Some seconds of a server: the steps that it `served`, and the answers that came of each group of clients."""

    served: tuple[ServedStep, ...]
    answers: tuple[list[Answered], ...]


@dataclass(frozen=True)
class Calibration:
    """The steps; what a request and its answers take on their way; and all that was worked out, to be written down."""

    steps: MeasuredSteps
    ways: Ways
    record: dict[str, Any]


def sat(port: int, log: Path, requests: ArrivingRequests) -> Sitting:
    """Of a server on a port, whose steps are in a log; `requests`: of the kind that is to be foretold."""
    begun = log.stat().st_size
    drawn = list(zip(requests.prompt.tolist(), requests.output.tolist(), strict=True))
    left = iter(drawn)
    answers = [asyncio.run(mixed_loop(port, clients, [*islice(left, EACH * clients)], TOKEN)) for clients in CLIENTS]
    answers.append(asyncio.run(mixed_loop(port, 1, [(prompt, 2) for prompt, _ in drawn[:ALONE]], TOKEN, PAUSE)))
    return Sitting(tuple(steps_since(log, begun)), tuple(answers))


def calibrated(*sittings: Sitting) -> Calibration:
    """What all of them show together."""
    steps, record = fitted([step for each in sittings for step in each.served])
    found = ways([answers for each in sittings for answers in each.answers], steps)
    return Calibration(steps, found, record | {"ways": asdict(found)})


def steps_since(log: Path, begun: int) -> list[ServedStep]:
    """The steps that a server wrote behind so many bytes."""
    with log.open() as lines:
        lines.seek(begun)
        return [ServedStep(*json.loads(line)) for line in lines]


def fitted(served: Sequence[ServedStep]) -> tuple[MeasuredSteps, dict[str, Any]]:
    """The table of steps and the curve of prompts that least squares find in steps as they were served."""
    advanced = [each for each in served if each.texts and each.between >= 0]
    seconds = np.array([each.between + each.advancing for each in advanced])
    of_texts = np.array([[float(each.alike == texts) for texts in TEXTS] for each in advanced])
    of_keys = np.array([each.alike * each.keys for each in advanced], dtype=float)
    seen = of_texts.sum(0) > 0
    behind = np.array([float(each.behind) for each in advanced])
    behind *= SEEN < behind.mean() < 1 - SEEN  # else it is told from nothing
    (*base, key, later), *_ = np.linalg.lstsq(np.column_stack([of_texts[:, seen], of_keys, behind]), seconds, rcond=None)
    known = np.array(TEXTS)[seen]
    bases = np.interp(TEXTS, known, base)
    decoding = tuple(tuple(float(bases[i] + key * texts * keys) for i, texts in enumerate(TEXTS)) for keys in KEYS)
    reading = [each for each in served if each.chunks]
    facts = np.array([sum(_facts(*chunk) for chunk in each.chunks) for each in reading])
    # Beside texts the time since the step before is theirs.
    alone = np.array([0.0 if each.texts or each.between < 0 else each.between for each in reading])
    weights, *_ = np.linalg.lstsq(facts, np.array([each.reading for each in reading]) + alone, rcond=None)
    weights[0] += later
    prompts = tuple(_prompt(length, weights) for length in LENGTHS)
    record = {"texts": TEXTS, "keys": KEYS, "decoding": decoding, "lengths": LENGTHS, "prompts": prompts, "steps": len(served)}
    return MeasuredSteps(TEXTS, KEYS, decoding, LENGTHS, prompts), record


def expected(step: ServedStep, steps: MeasuredSteps) -> float:
    """What a step takes by the table and the curve."""
    seconds = steps.step(step.alike, float(step.alike * step.keys), (), 0)
    return seconds + sum(steps.prompt(past + tokens) - steps.prompt(past) for tokens, past, _ in step.chunks)


def _prompt(length: int, weights: np.ndarray[Any, Any]) -> float:
    """Seconds of all chunks of a prompt."""
    total = 0.0
    for past in range(0, length, CHUNK):
        tokens = min(CHUNK, length - past)
        total += float(weights @ _facts(tokens, past, past + tokens == length))
    return total


def _facts(tokens: int, past: int, last: bool) -> np.ndarray[Any, Any]:
    """What the seconds of a chunk go with."""
    return np.array([1.0, tokens, tokens * past, past == 0, last])
