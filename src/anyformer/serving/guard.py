"""What stands before every address: keys, limits of size, time and rate, other machines' pages, and headers."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyformer.serving.metrics import ServingMetrics
from anyformer.serving.protocol_error import ProtocolError

OPEN = ("/", "/health")
"""Addresses that need no key: the page asks for one."""
FOREIGN = ("cross-site", "same-site")
"""Where a browser says that a request comes from, if from another page."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
MOST_CLIENTS = 10_000
"""Clients whose rates are remembered."""


@dataclass(frozen=True)
class ServingLimits:
    """`body`: bytes of a request; `body_seconds`: until they have come; `rate`: requests of one client per minute, None: any
    number; `seconds`: a text may take, None: any time; `keys`: of which a request has one, where there are any."""

    body: int = 4 * 2**20
    body_seconds: float = 30.0
    rate: int | None = None
    seconds: float | None = None
    keys: tuple[str, ...] = ()


@dataclass
class Rates:
    """Requests of clients: each has as many at once as a minute allows, and they come back evenly (a token bucket)."""

    per_minute: int
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait(self, client: str, now: float) -> float:
        """Seconds after which a client may ask; 0 lets it ask now, which counts."""
        left, then = self._left.pop(client, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - then) * self.per_minute / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / self.per_minute
        self._left[client] = (left - (wait == 0), now)
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return wait


class LimitsMiddleware:
    """Refuses what goes beyond the limits before it is read; keys are compared in constant time."""

    def __init__(self, app: ASGIApp, limits: ServingLimits, metrics: ServingMetrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self._rates = None if limits.rate is None else Rates(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                if message["status"] >= 400:
                    self.metrics.refused(message["status"])
                own = [(key.encode(), value.encode()) for key, value in HEADERS.items()]
                said = {key for key, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in own if pair[0] not in said)]
            await send(message)

        try:
            client = self._admitted(scope)
            self._check_rate(client)
            receive = await self._read(scope, receive)
        except ProtocolError as error:
            await refusal(error)(scope, receive, guarded)
            return
        await self.app(scope, receive, guarded)

    def _admitted(self, scope: Scope) -> str:
        """Who asks: the key, or the machine; refused without a right key, and from another page."""
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        if headers.get("sec-fetch-site") in FOREIGN:
            raise ProtocolError("the request comes from another page in a browser, and none is answered", 403)
        machine = (scope.get("client") or ("unknown", 0))[0]
        if not self.limits.keys or scope["path"] in OPEN:
            return machine
        scheme, _, given = headers.get("authorization", "").partition(" ")
        right = [key for key in self.limits.keys if hmac.compare_digest(key.encode(), given.strip().encode())]
        if scheme.lower() != "bearer" or not right:
            raise ProtocolError("the server wants a key: send it as Authorization: Bearer KEY", 401)
        return right[0]

    def _check_rate(self, client: str) -> None:
        wait = 0.0 if self._rates is None else self._rates.wait(client, time.monotonic())
        if wait:
            raise ProtocolError(
                f"more than {self.limits.rate:,} requests a minute (--rate): ask again in {wait:.0f} s",
                429,
                after=max(1, int(wait)),
            )

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        """The body, read whole, and then what else comes."""
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if said.isdigit() and len(said) < 20 and int(said) > self.limits.body:
            raise self._too_large(int(said))
        body = b""
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    if len(body) > self.limits.body:
                        raise self._too_large(len(body))
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise ProtocolError(f"the body did not come within {self.limits.body_seconds:g} seconds", 408) from None
        waiting = [message if message["type"] != "http.request" else {"type": "http.request", "body": body}]

        async def given() -> Message:
            return waiting.pop() if waiting else await receive()

        return given

    def _too_large(self, count: int) -> ProtocolError:
        return ProtocolError(
            f"the body has {count:,} bytes or more, and {self.limits.body:,} are the most (--body): send a shorter prompt", 413
        )


def refusal(error: ProtocolError) -> JSONResponse:
    """The answer that a refusal is."""
    headers = {} if error.after is None else {"retry-after": str(error.after)}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(error.data(), error.status, headers)
