"""A client that sends requests when they come, and writes down when their tokens come back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SentRequest:
    """Sent `at` so many seconds after the beginning: a prompt of so many tokens, for as many answered."""

    at: float
    prompt: int
    output: int


@dataclass(frozen=True)
class Answered:
    """Seconds after the beginning: when it was sent, and when each token came; the tokens of its `prompt`."""

    prompt: int
    sent: float
    times: tuple[float, ...]

    @property
    def first(self) -> float:
        return self.times[0]

    @property
    def last(self) -> float:
        return self.times[-1]


async def ask(port: int, prompt: int, output: int, token: int, begin: float) -> Answered:
    """One request, its answer read piece by piece."""
    body = json.dumps(
        {
            "prompt": [token + i % 7 for i in range(prompt)],
            "max_tokens": output,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "seed": 1,
        }
    )
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    sent = time.perf_counter() - begin
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((head + body).encode())
    await writer.drain()
    status = await reader.readline()
    if b" 200 " not in status:
        raise SystemExit(f"the server answered {status!r}: {(await reader.read())[-400:]!r}")
    times, made = [], 0
    async for line in reader:
        if line.startswith(b"data: {"):
            now, piece = time.perf_counter() - begin, json.loads(line[6:])
            if "error" in piece:
                raise SystemExit(f"the server ended a text: {piece['error']}")
            times += [now] if piece["choices"] else []
            made = (piece.get("usage") or {}).get("completion_tokens", made)
    writer.close()
    if not made == output == len(times):
        raise SystemExit(
            f"{output} tokens were asked for, {made} were made and {len(times)} pieces came: one without a piece has no time"
        )
    return Answered(prompt, sent, tuple(times))


async def open_loop(port: int, requests: Sequence[SentRequest], token: int, begin: float) -> list[Answered]:
    """Every request at its time after `begin`, whatever became of those before."""

    async def later(request: SentRequest) -> Answered:
        await asyncio.sleep(begin + request.at - time.perf_counter())
        return await ask(port, request.prompt, request.output, token, begin)

    return list(await asyncio.gather(*map(later, requests)))


async def mixed_loop(
    port: int, clients: int, requests: Sequence[tuple[int, int]], token: int, pause: float = 0.0
) -> list[Answered]:
    """So many clients, each of which takes the next prompt and its length of answer a pause after its last one."""
    begin, left = time.perf_counter(), iter(requests)

    async def client() -> list[Answered]:
        answers = []
        for prompt, output in left:
            answers.append(await ask(port, prompt, output, token, begin))
            await asyncio.sleep(pause)
        return answers

    found = await asyncio.gather(*(client() for _ in range(clients)))
    return [answer for answers in found for answer in answers]
