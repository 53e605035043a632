"""The addresses that give texts: whole, or piece by piece as server-sent events."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from anyformer.describe import UserError
from anyformer.serving.dialect import Dialect, made
from anyformer.serving.forms import TokenNames, usage
from anyformer.serving.gathered import GatheredText
from anyformer.serving.inquiry import TextInquiry
from anyformer.serving.protocol_error import protocol_error
from anyformer.serving.served_model import AskedTexts, ServedModel
from anyformer.serving.worker import ServingWorker

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class TextAnswer:
    """An answer that is being written."""

    dialect: Dialect
    model: ServedModel
    asked: AskedTexts
    name: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def names(self) -> TokenNames:
        return TokenNames(self.model.tokenizer, self.asked.body.return_tokens_as_token_ids)

    def table(self, kind: str, choices: list[Any], **more: Any) -> dict[str, Any]:
        """The fields around choices."""
        seed = {"seed": self.asked.seed} if self.asked.drawn else {}
        name = f"{self.dialect.prefix}-{self.name}"
        beside = {"created": self.created, "model": self.asked.body.model or self.model.name, **seed}
        return {"id": name, "object": kind, **beside, "choices": choices, **more}

    async def whole(self, inquiry: TextInquiry) -> dict[str, Any]:
        """All texts."""
        found = [GatheredText() for _ in self.asked.texts]
        async with aclosing(inquiry.events()) as events:
            async for event in events:
                found[event.number].add(event)
        choices = [self.dialect.choice(self.asked, place, each, self.names) for place, each in enumerate(found)]
        return self.table(self.dialect.whole, choices, usage=usage(self.asked.read, made(self.asked, found)))

    async def pieces(self, inquiry: TextInquiry) -> AsyncIterator[bytes]:
        """The texts as server-sent events, an error among them if there is one."""
        kind, options = self.dialect.piece, self.asked.body.stream_options
        counts = options is not None and options.include_usage
        more: dict[str, Any] = {"usage": None} if counts else {}
        whole = [GatheredText() for _ in self.asked.texts]
        written = [self.dialect.pieces(self.asked, place, self.names) for place in range(len(self.asked.texts))]
        try:
            for place in range(len(self.asked.texts)):
                if (opening := self.dialect.opening(place)) is not None:
                    yield _event(self.table(kind, [opening], **more))
            async with aclosing(inquiry.events()) as events:
                async for event in events:
                    found, place = GatheredText(), event.number
                    found.add(event)
                    whole[place].add(event)
                    if (part := written[place].part(found)) is not None:
                        yield _event(self.table(kind, [part], **more))
            if counts:
                yield _event(self.table(kind, [], usage=usage(self.asked.read, made(self.asked, whole))))
        except UserError as error:
            yield _event(protocol_error(error).data())
        yield b"data: [DONE]\n\n"


class InquiryResponse(StreamingResponse):
    """A stream that frees its texts however it ends, begun or not, and ends when its client goes away."""

    def __init__(self, inquiry: TextInquiry, content: AsyncIterator[bytes], **how: Any) -> None:
        super().__init__(content, **how)
        self._inquiry = inquiry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await _unless_gone(receive, self.stream_response(send))
        finally:
            self._inquiry.close()


def text_endpoint(dialect: Dialect, model: ServedModel, worker: ServingWorker, seconds: float | None) -> Endpoint:
    """An address of one dialect; `seconds`: a text may take at most."""

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        asked = await run_in_threadpool(dialect.asked, model, body)
        answer, inquiry = TextAnswer(dialect, model, asked), TextInquiry(worker, request.app.state.post, asked.texts, seconds)
        if asked.body.stream:
            headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
            return InquiryResponse(inquiry, answer.pieces(inquiry), media_type="text/event-stream", headers=headers)
        found = await _unless_gone(request.receive, answer.whole(inquiry))
        return Response(status_code=499) if found is None else JSONResponse(found)

    return endpoint


async def _unless_gone(receive: Receive, work: Awaitable[T]) -> T | None:
    """What comes of work, which ends when the client goes away; then None."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    """Waits until the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(table: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n\n"
