"""A line of JSON for every request, which says what was asked and how it ended, and nothing of what was written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

OTHER = "another address"


class RequestLogMiddleware:
    """`addresses`: those that are named; others may hold anything. `tell` is given a line when a request is over.

    A line that cannot be written, as on a full disk, fails no request: `lost` is called instead.
    """

    def __init__(self, app: ASGIApp, addresses: Collection[str], tell: Callable[[str], None], lost: Callable[[], None]) -> None:
        self.app, self._addresses, self._tell, self._lost = app, addresses, tell, lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        came, status, sent = time.perf_counter(), 0, 0

        async def seen(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, seen)
        finally:
            line = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "address": scope["path"] if scope["path"] in self._addresses else OTHER,
                "status": status,
                "seconds": round(time.perf_counter() - came, 6),
                "bytes": sent,
            }
            try:
                self._tell(json.dumps(line))
            except OSError:
                self._lost()
