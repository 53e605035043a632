"""The local server of the page: an application that answers questions about architectures, and never changes anything.

It answers addresses of this machine alone, whatever name another page has for it, and tells the browser to load nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyformer.describe import UserError
from anyformer.describe.plain_data import plain
from anyformer.exploring.atlas_routes import atlas_routes
from anyformer.exploring.classes import kinds
from anyformer.exploring.comparison import compared_of
from anyformer.exploring.desk import SECTIONS, Desk
from anyformer.exploring.memory import MemoryDesk
from anyformer.exploring.opening_desk import OpeningDesk
from anyformer.exploring.opening_routes import opening_routes
from anyformer.exploring.problems import RefusedChangeError, UnknownNameError, plain_problem
from anyformer.exploring.question import SheetQuestion, check_keys, question_of
from anyformer.exploring.searching import search_data
from anyformer.exploring.start import start_data

PAGE = Path(__file__).with_name("page")
HOSTS = ("127.0.0.1", "localhost")
"""The names by which this machine alone is called: another one means that a foreign page had its name point here."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
FOREIGN = ("cross-site", "same-site")
"""Where a browser says that a request comes from, if from another page."""


def application(desk: Desk, memory: MemoryDesk, models: OpeningDesk | None = None) -> Starlette:
    """The application. `desk` answers questions, `memory` traces, `models` looks into those that were opened."""
    models = OpeningDesk(desk) if models is None else models

    def answered(*names: str) -> Callable[[Request], Response]:
        return _asked(lambda question: JSONResponse(desk.sections(question, *names)))

    def traced(question: SheetQuestion) -> JSONResponse:
        made = desk.architecture(question.of, question.changes)
        found = memory.answer(made, question.call)
        told = {"of": question.of, "digest": made.digest, "set": list(question.changes)}
        return JSONResponse({**told, **found}, 202 if found["pending"] else 200)

    routes: list[BaseRoute] = [
        Route("/api/start", _plain(lambda: start_data(desk))),
        Route("/api/kinds", _plain(kinds)),
        Route("/api/search", _plain(search_data)),
        Route("/api/sheet", answered(*SECTIONS)),
        *(Route(f"/api/{name}", answered(name)) for name in SECTIONS),
        Route("/api/memory", _asked(traced)),
        *atlas_routes(),
        Route("/api/runs", lambda request: JSONResponse(plain(desk.runs.runs(query_of(request))))),
        Route("/api/study", lambda request: JSONResponse(plain(desk.runs.study(query_of(request))))),
        Route("/api/compare", lambda request: JSONResponse(desk.compared(compared_of(query_of(request))))),
        *opening_routes(models, query_of),
        Route("/api/{rest:path}", _unknown),
        Mount("/", StaticFiles(directory=PAGE, html=True)),
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(GuardMiddleware),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False),
            Middleware(GZipMiddleware, minimum_size=2000, compresslevel=4),
        ],
        exception_handlers={UserError: _told, Exception: _broken},
        lifespan=partial(_lifespan, memory, models),
    )


@asynccontextmanager
async def _lifespan(memory: MemoryDesk, models: OpeningDesk, _: Starlette) -> AsyncIterator[None]:
    """Read what the first question needs while the browser loads the page; end the workers at the end."""
    memory.start()
    models.start()
    Thread(target=kinds, daemon=True).start()
    yield
    memory.close()
    models.close()


def _asked(answer: Callable[[SheetQuestion], Response]) -> Callable[[Request], Response]:
    """An address that takes a question."""

    def endpoint(request: Request) -> Response:
        return answer(question_of(query_of(request)))

    return endpoint


def _plain(answer: Callable[[], Any]) -> Callable[[Request], Response]:
    """An address that takes no question."""

    def endpoint(request: Request) -> Response:
        check_keys(query_of(request), ())
        return JSONResponse(answer())

    return endpoint


def query_of(request: Request) -> Mapping[str, list[str]]:
    """The values of every key of a request's query."""
    try:
        return parse_qs(request.url.query, keep_blank_values=True, errors="strict", max_num_fields=2000)
    except ValueError as error:
        raise UserError(f"the query cannot be read: {error}") from None


def _unknown(request: Request) -> Response:
    return _problems([plain_problem(f"no answer is at {request.url.path}: docs/explore.md lists the addresses")], 404)


def _told(request: Request, error: Exception) -> Response:
    """What is wrong with a question."""
    if isinstance(error, RefusedChangeError):
        return _problems(error.found, 422)
    return _problems([plain_problem(str(error))], 404 if isinstance(error, UnknownNameError) else 400)


def _broken(request: Request, error: Exception) -> Response:
    return _problems([plain_problem(f"the server failed: {type(error).__name__}; the terminal says where")], 500)


def _problems(found: Any, status: int) -> JSONResponse:
    return JSONResponse({"errors": [each.data() for each in found]}, status)


class GuardMiddleware:
    """Refuses what comes from other pages and all but reading, and adds the headers that keep the page on this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(key.encode(), value.encode()) for key, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        if scope["method"] not in ("GET", "HEAD"):
            refusal: Response = _problems(
                [plain_problem(f"{scope['method'][:20]}: nothing can be changed here, only read")], 405
            )
            await refusal(scope, receive, guarded)
        elif headers.get("sec-fetch-site") in FOREIGN:
            foreign = plain_problem("the question comes from another page: open this address itself")
            await _problems([foreign], 403)(scope, receive, guarded)
        else:
            await self.app(scope, receive, guarded)
