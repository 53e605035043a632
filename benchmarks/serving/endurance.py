"""A thousand streams that stay open for minutes: nothing is lost, and memory is what was foretold.

Every client asks, reads its text to the end, and asks again until the time is over. All texts go on together: as many places
as clients. A text is lost that did not end as the protocol has it, has fewer tokens than asked for, or is not the one that
another client got for the same prompt, unless two scores were as near as rounding.

Memory is foretold before: the resident size of a server with half of the clients; what each stream takes beside its state, its
connection, text and rows of a step, as the half shows it beside an eighth; and the bytes of all decode states by the
description. One client would not do: what any load loads, some 13 MB, would count as streams'.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.serving.client import Streamed, streamed
from benchmarks.serving.servers import RunningServer, Server, ours, running

LENGTH, TOKENS = 192, 96
EIGHTH, HALF, REHEARSED = 8, 2, 40.0
"""The parts of the clients that are tried before, and for how many seconds."""
RAMP = 0.005
"""Seconds between two clients that begin."""


def gauge(server: RunningServer, name: str) -> float:
    """A figure of /metrics."""
    found = [line.rsplit(" ", 1) for line in server.get("/metrics").decode().splitlines() if line.startswith(name)]
    return sum(float(value) for _, value in found)


async def held_open(server: RunningServer, prompts: Sequence[str], clients: int, seconds: float) -> list[tuple[int, Streamed]]:
    """What every client got, with the number of its prompt."""
    end, found = time.monotonic() + seconds, list[tuple[int, Streamed]]()

    async def client(number: int) -> None:
        await asyncio.sleep(RAMP * number)
        turn = number
        while time.monotonic() < end:
            place = turn % len(prompts)
            body = {"prompt": prompts[place], "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
            found.append((place, await streamed(server.port, body)))
            turn += 1

    async def watch() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(10)
            print(f"{len(found):,} texts; {server.resident / 1e6:,.0f} MB resident", flush=True)

    await asyncio.gather(watch(), *(client(number) for number in range(clients)))
    return found


@dataclass(frozen=True)
class Tried:
    """Bytes of a server behind a load: of its process, and those of its decode states by the description."""

    resident: int
    foretold: int


def server_of(place: Path, clients: int) -> Server:
    """A server with a place for every client."""
    options = ("--length", str(LENGTH), "--prefix-memory", "0", "--queue", str(clients), "--places", str(clients))
    return ours(place, *options, name=f"{clients} places")


def tried(place: Path, prompts: Sequence[str], clients: int, seconds: float) -> Tried:
    """What so many clients leave a server with."""
    with running(server_of(place, clients), place, threads=1) as server:
        asyncio.run(held_open(server, prompts, clients, seconds))
        return Tried(server.resident, int(gauge(server, "anyformer_state_foretold_bytes")))


def endured(place: Path, prompts: Sequence[str], clients: int, seconds: float) -> dict[str, Any]:
    """What came of it."""
    counts = clients // EIGHTH, clients // HALF
    few, half = (tried(place, prompts, count, REHEARSED) for count in counts)
    beside = ((half.resident - half.foretold) - (few.resident - few.foretold)) / (counts[1] - counts[0])
    with running(server_of(place, clients), place, threads=1) as server:
        started = server.resident
        found = asyncio.run(held_open(server, prompts, clients, seconds))
        resident, foretold = server.resident, gauge(server, "anyformer_state_foretold_bytes")
        held, made = gauge(server, "anyformer_state_bytes"), gauge(server, "anyformer_generated_tokens_total")
        said = server.said
    wanted = half.resident - half.foretold + foretold + beside * (clients - counts[1])
    texts = [each for _, each in found]
    return {
        "clients": clients,
        "seconds": seconds,
        "texts": len(texts),
        "lost": sum(each.status != 200 or each.error is not None or not each.whole or each.made != TOKENS for each in texts),
        "texts_that_differ": differing(found),
        "tokens_per_second": round(sum(each.made for each in texts) / seconds, 1),
        "tokens_of_clients": sum(each.made for each in texts),
        "tokens_of_server": int(made),
        "state_bytes": {"foretold": int(foretold), "held": int(held)},
        "stream_bytes_beside_state": int(beside),
        "resident_bytes": {
            "an eighth": few.resident,
            "half": half.resident,
            "at start": started,
            "in the end": resident,
            "foretold": int(wanted),
        },
        "resident_over_foretold": round(resident / wanted, 4),
        "tracebacks": said.count("Traceback"),
    }


def differing(found: Sequence[tuple[int, Streamed]]) -> int:
    """Texts that are not the commonest one of their prompt."""
    texts: dict[int, Counter[str]] = defaultdict(Counter)
    for place, each in found:
        texts[place][each.text] += 1
    return sum(sum(each.values()) - max(each.values()) for each in texts.values())
