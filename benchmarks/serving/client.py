"""A client of completions as server-sent events, light enough that a thousand of them stand beside a server on two cores."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"


@dataclass
class Streamed:
    """What came of one request: when it was sent, when each piece came, in seconds of one clock; its text and tokens."""

    sent: float
    status: int = 0
    pieces: list[float] = field(default_factory=list)
    text: str = ""
    read: int = 0
    made: int = 0
    whole: bool = False
    """Whether the stream ended as the protocol has it."""
    error: str | None = None

    @property
    def first(self) -> float:
        """Seconds to the first piece."""
        return self.pieces[0] - self.sent

    @property
    def last(self) -> float:
        """Seconds to the last piece."""
        return self.pieces[-1] - self.sent


async def streamed(port: int, body: Mapping[str, Any], *, delay: float = 0.0, path: str = "/v1/completions") -> Streamed:
    """Ask for a text as a stream and read it to its end; `delay`: seconds before every piece is read."""
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    found = Streamed(time.perf_counter())
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(request_text(path, body))
        await writer.drain()
        found.status, headers = await head(reader)
        async for line in _lines(reader, chunked="chunked" in headers.get("transfer-encoding", "")):
            if delay:
                await asyncio.sleep(delay)
            _take(found, line)
    finally:
        writer.close()
    return found


def request_text(path: str, body: Mapping[str, Any], **headers: str) -> bytes:
    """A POST of JSON as it goes over a socket."""
    content = json.dumps(body).encode()
    said = {"Host": HOST, "Content-Type": "application/json", "Content-Length": str(len(content)), "Connection": "close"}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**said, **headers}.items()), "", ""]
    return "\r\n".join(lines).encode() + content


async def head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = (line.partition(":") for line in lines[1:] if line)
    return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in headers}


async def _lines(reader: asyncio.StreamReader, *, chunked: bool) -> AsyncIterator[bytes]:
    """The lines of a body."""
    rest = b""
    while True:
        if chunked:
            size = int(await reader.readline(), 16)
            data = (await reader.readexactly(size + 2))[:-2]
        else:
            data = await reader.read(65536)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
        if not data:
            if rest:
                yield rest
            return


def _take(found: Streamed, line: bytes) -> None:
    """What a line of a stream says."""
    if not line.startswith(b"data: "):
        if found.status != 200 and line.strip():
            found.error = line.decode(errors="replace")[:500]
        return
    if line.strip() == b"data: [DONE]":
        found.whole = True
        return
    event = json.loads(line[6:])
    if "error" in event:
        found.error = str(event["error"])[:500]
        return
    texts = [choice.get("text") for choice in event.get("choices", ())] or [event.get("content")]
    if any(texts):
        found.pieces.append(time.perf_counter())
        found.text += "".join(filter(None, texts))
    if event.get("usage"):
        found.read, found.made = event["usage"]["prompt_tokens"], event["usage"]["completion_tokens"]
    elif event.get("stop") is True:  # llama.cpp's own form
        found.read, found.made = event["tokens_evaluated"], event["tokens_predicted"]
