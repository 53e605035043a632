"""What one step of the server takes, measured from outside: texts side by side, and prompts one after the other."""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

from benchmarks.queues.client import Answered, closed_loop
from benchmarks.queues.server import CHUNK, PLACES, TOKEN

from anyformer.planning.queues.measured_steps import MeasuredSteps

TEXTS = tuple(range(1, PLACES + 1))
KEYS = (24, 280)
"""Tokens of prompts behind which texts are made, so many of them."""
MADE = 40
ROUNDS, TRIES = 3, 9
"""Rounds of which the median is taken, and rounds until so many had all texts under way for half of their tokens."""
LENGTHS = (8, 32, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 3 * CHUNK, 4 * CHUNK)
BUSY = 3
"""Clients that leave the server no pause while prompts are measured."""


def calibrated(port: int) -> tuple[MeasuredSteps, float, dict[str, Any]]:
    """The steps; seconds that a request takes on its way to the server and back; all that was measured."""
    decoding = tuple(tuple(_step(port, texts, keys) for texts in TEXTS) for keys in KEYS)
    busy = tuple(_prompt(port, length, BUSY, 25) for length in LENGTHS)
    alone = [statistics.median(each.first - each.sent for each in _asked(port, 1, 9, length, 1)) for length in LENGTHS]
    way = max(0.0, statistics.median(one - many for one, many in zip(alone, busy, strict=True)))
    middle = tuple(keys + MADE / 2 for keys in KEYS)
    steps = MeasuredSteps(TEXTS, tuple(map(int, middle)), decoding, LENGTHS, busy)
    record = {
        "texts": TEXTS,
        "keys": middle,
        "decoding": decoding,
        "lengths": LENGTHS,
        "prompts": busy,
        "alone": alone,
        "way": way,
    }
    return steps, way, record


def _asked(port: int, clients: int, each: int, prompt: int, output: int) -> list[Answered]:
    return asyncio.run(closed_loop(port, clients, each, prompt, output, TOKEN))


def _step(port: int, texts: int, keys: int) -> float:
    """Seconds of a step of so many texts: of those between the last of their first tokens and the first of their last ones."""
    before = texts * -(-keys // CHUNK)
    rounds: list[float] = []
    for _ in range(TRIES):
        found = _asked(port, texts, 1, keys, MADE + before)
        slowest = max(found, key=lambda each: each.first)
        ended = min(each.last for each in found)
        steps = [each for each in slowest.times if each <= ended]
        if len(steps) >= MADE // 2:
            rounds.append((steps[-1] - steps[0]) / (len(steps) - 1))
        if len(rounds) == ROUNDS:
            return statistics.median(rounds)
    raise SystemExit(
        f"{texts} texts were seldom under way together in {TRIES} rounds: their requests come too far apart. Something else "
        "uses the cores: leave them to the server and its clients alone"
    )


def _prompt(port: int, length: int, clients: int, each: int) -> float:
    """Seconds that a server without a pause takes for a request of one token, its prompt read and all else done."""
    found = sorted(answer.last for answer in _asked(port, clients, each, length, 1))
    skipped = len(found) // 5
    return (found[-1 - clients] - found[skipped]) / (len(found) - 1 - clients - skipped)
