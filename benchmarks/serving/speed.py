"""Servers side by side: the same model, bits, prompts and arrivals.

All servers stand ready and idle; they are asked in turn, round after round. `one`: a single client, one request after another;
`full`: as many clients as there are places; `half`: requests arrive by a Poisson process at half the rate that ours reached
with `full` in that round, the same arrivals for all. A server takes part whose greedy texts are ours.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.serving.client import Streamed, streamed
from benchmarks.serving.servers import OWN, RunningServer, Server, running

AGREE = 0.75
"""Of our characters of the gate's texts, the least part before the first other one: rounding decides ties."""
GATE = 24
"""Tokens of each text of the gate."""


@dataclass(frozen=True)
class Load:
    """`texts`: clients at once; `tokens`: that each request makes; `requests` of one round."""

    texts: int = 8
    tokens: int = 32
    requests: int = 16


@dataclass
class Contest:
    """A server that runs, and what it did in every round: the figures of each way of asking."""

    running: RunningServer
    agrees: float = 1.0
    resident: int = 0
    """Bytes of its process that are in memory in the end."""
    rounds: list[dict[str, dict[str, float]]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.running.server.name


def asked_of(server: RunningServer, prompt: str, tokens: int) -> Coroutine[Any, Any, Streamed]:
    """A request that is greedy and makes so many tokens."""
    most = "n_predict" if server.server.path == OWN else "max_tokens"
    body = {"model": "model", "prompt": prompt, most: tokens, "temperature": 0, **server.server.more}
    return streamed(server.port, body, path=server.server.path)


async def one_by_one(server: RunningServer, prompts: Sequence[str], tokens: int, clients: int) -> list[Streamed]:
    """`clients` that each ask for the next prompt when their last text has ended."""
    left, found = list(reversed(prompts)), list[Streamed]()

    async def client() -> None:
        while left:
            found.append(await asked_of(server, left.pop(), tokens))

    await asyncio.gather(*(client() for _ in range(clients)))
    return found


async def arriving(server: RunningServer, prompts: Sequence[str], tokens: int, rate: float, seed: int) -> list[Streamed]:
    """Requests that arrive at random, `rate` a second on the average, whether others have ended or not."""
    drawn, asked = random.Random(seed), list[asyncio.Task[Streamed]]()
    due = time.perf_counter()
    for prompt in prompts:
        due += drawn.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        asked.append(asyncio.create_task(asked_of(server, prompt, tokens)))
    return list(await asyncio.gather(*asked))


def figures(found: Sequence[Streamed], seconds: float) -> dict[str, float]:
    """Of all texts of one load: tokens a second, and what a client waits for."""
    for each in found:
        if each.status != 200 or each.error or not each.pieces:
            raise SystemExit(f"a request failed: {each.status} {each.error}")
    first = sorted(each.first for each in found)
    between = [(each.last - each.first) / max(1, each.made - 1) for each in found]
    return {
        "requests_per_second": len(found) / seconds,
        "tokens_per_second": sum(each.made for each in found) / seconds,
        "first_token_seconds": statistics.median(first),
        "first_token_seconds_worst": first[-1],
        "between_tokens_seconds": statistics.median(between),
        "prompt_tokens": statistics.mean(each.read for each in found),
        "tokens": sum(each.made for each in found),
    }


def timed(contest: Contest, work: Coroutine[Any, Any, list[Streamed]]) -> dict[str, float]:
    """The figures of a load that is run now."""
    start, before = time.perf_counter(), contest.running.processor_seconds
    found = asyncio.run(work)
    made = figures(found, time.perf_counter() - start)
    made["processor_seconds"] = contest.running.processor_seconds - before
    rate, wait, each = (made[name] for name in ("tokens_per_second", "first_token_seconds", "between_tokens_seconds"))
    print(f"{contest.name}: {rate:.1f} tokens/s, first token {wait:.3f} s, between tokens {each:.4f} s", flush=True)
    return made


def one_round(contests: Sequence[Contest], fresh: Callable[[int], list[str]], load: Load, seed: int) -> None:
    """All ways of asking, everybody in turn with prompts that nobody has had."""
    single, full, half = fresh(max(2, load.requests // 8)), fresh(load.requests), fresh(load.requests)
    made = [dict[str, dict[str, float]]() for _ in contests]
    for contest, its in zip(contests, made, strict=True):
        its["one"] = timed(contest, one_by_one(contest.running, single, load.tokens, 1))
        its["full"] = timed(contest, one_by_one(contest.running, full, load.tokens, load.texts))
    rate = made[0]["full"]["requests_per_second"] / 2
    for contest, its in zip(contests, made, strict=True):
        its["half"] = timed(contest, arriving(contest.running, half, load.tokens, rate, seed))
        contest.rounds.append(its)


def agreement(texts: Sequence[str], ours: Sequence[str]) -> float:
    """The part of our characters before the first other one."""
    same = 0
    for text, own in zip(texts, ours, strict=True):
        pairs = zip(text, own, strict=False)
        same += next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(text), len(own)))
    return same / max(1, sum(map(len, ours)))


def compared(
    servers: Sequence[Server], place: Path, prompts: Callable[[int], list[str]], load: Load, rounds: int, seed: int = 0
) -> Iterator[list[Contest]]:
    """What every server has done, after each round; ours is the first."""
    with ExitStack() as stack:
        contests, ours = list[Contest](), list[str]()
        gate = prompts(4)
        for server in servers:
            up = stack.enter_context(running(server, place))
            texts = [each.text for each in asyncio.run(one_by_one(up, gate, GATE, 1))]
            ours = ours or texts
            contest = Contest(up, agreement(texts, ours))
            print(f"ready: {server.name}, {contest.agrees:.0%} of its greedy characters as ours", flush=True)
            if contest.agrees < AGREE:
                print(f"left out: {server.name} gives {texts[0]!r} where ours gives {ours[0]!r}", flush=True)
                continue
            contests.append(contest)
            asyncio.run(one_by_one(up, prompts(load.texts), 4, load.texts))
        for number in range(rounds):
            one_round(contests, prompts, load, seed + number)
            for contest in contests:
                contest.resident = contest.running.resident
            yield contests


def summary(contests: Sequence[Contest]) -> list[dict[str, Any]]:
    """Medians over rounds, and of the ratio within a round of ours to each."""
    ours, rows = contests[0], list[dict[str, Any]]()
    for contest in contests:
        row: dict[str, Any] = {"name": contest.name, "greedy_agreement": round(contest.agrees, 3)}
        row["resident_bytes"] = contest.resident
        for way in contest.rounds[0]:
            for figure in contest.rounds[0][way]:
                row.setdefault(way, {})[figure] = round(statistics.median(each[way][figure] for each in contest.rounds), 4)
            pairs = list(zip(ours.rounds, contest.rounds, strict=True))
            rate, wait = "tokens_per_second", "first_token_seconds"
            row[way]["ours_is_faster_by"] = round(statistics.median(a[way][rate] / b[way][rate] for a, b in pairs), 3)
            row[way]["ours_waits_times"] = round(statistics.median(a[way][wait] / b[way][wait] for a, b in pairs), 3)
        row["rounds"] = contest.rounds
        rows.append(row)
    return rows
