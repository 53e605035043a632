"""The application: addresses, what stands before them, and errors in the protocol's form."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from anyformer.describe import UserError
from anyformer.serving.bodies import DetokenizeBody, TokenizeBody
from anyformer.serving.chat_page import page_endpoint
from anyformer.serving.chats import ChatDialect
from anyformer.serving.completions import CompletionDialect
from anyformer.serving.guard import LimitsMiddleware, ServingLimits, refusal
from anyformer.serving.hosts import HostsMiddleware
from anyformer.serving.loop_post import LoopPost
from anyformer.serving.openapi import openapi_endpoint
from anyformer.serving.other_routes import (
    detokenize,
    embeddings_endpoint,
    health_endpoint,
    metrics_endpoint,
    models_endpoint,
    plain_endpoint,
    reload_endpoint,
    tokenize,
)
from anyformer.serving.protocol_error import ProtocolError, protocol_error
from anyformer.serving.request_log import RequestLogMiddleware
from anyformer.serving.served_model import ServedModel
from anyformer.serving.text_routes import text_endpoint
from anyformer.serving.worker import ServingWorker

HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine: another one means that a foreign page had its name point here."""


@dataclass(frozen=True)
class ModelService:
    """A model, the worker that computes for it, and limits. `hosts`: names under which it answers; None: any.

    `grace`: seconds that texts have to end when the server stops.
    """

    model: ServedModel
    worker: ServingWorker
    limits: ServingLimits
    hosts: tuple[str, ...] | None = HOSTS
    grace: float = 30.0
    log: Callable[[str], None] | None = None
    """Is given a line of JSON for every request."""
    reload: Callable[[], int] | None = None
    """Loads the weights again; how many texts go on with the old."""


def application(service: ModelService) -> Starlette:
    """The application, whose worker runs as long as it does."""
    model, worker = service.model, service.worker
    texts = partial(text_endpoint, model=model, worker=worker, seconds=service.limits.seconds)
    routes = [
        Route("/", page_endpoint()),
        Route("/v1/completions", texts(CompletionDialect()), methods=["POST"]),
        Route("/v1/chat/completions", texts(ChatDialect()), methods=["POST"]),
        Route("/v1/embeddings", embeddings_endpoint(model, worker), methods=["POST"]),
        Route("/v1/models", models_endpoint(model)),
        Route("/v1/models/{name:path}", models_endpoint(model)),
        Route("/tokenize", plain_endpoint(model, TokenizeBody, tokenize), methods=["POST"]),
        Route("/detokenize", plain_endpoint(model, DetokenizeBody, detokenize), methods=["POST"]),
        Route("/reload", reload_endpoint(service.reload, service.limits.keys), methods=["POST"]),
        Route("/health", health_endpoint(worker)),
        Route("/metrics", metrics_endpoint(worker)),
        Route("/openapi.json", openapi_endpoint(model)),
    ]
    named, lost = [route.path for route in routes], worker.metrics.log_lost
    log = [] if service.log is None else [Middleware(RequestLogMiddleware, addresses=named, tell=service.log, lost=lost)]
    hosts = [] if service.hosts is None else [Middleware(HostsMiddleware, hosts=service.hosts)]
    return Starlette(
        routes=routes,
        middleware=[*log, Middleware(LimitsMiddleware, limits=service.limits, metrics=worker.metrics), *hosts],
        exception_handlers={
            UserError: _refused,
            HTTPException: _unknown,
            ClientDisconnect: _gone,
            RecursionError: _too_deep,
            Exception: _broken,
        },
        lifespan=partial(_lifespan, service),
    )


@asynccontextmanager
async def _lifespan(service: ModelService, app: Starlette) -> AsyncIterator[None]:
    app.state.post = LoopPost(asyncio.get_running_loop())
    service.worker.start()
    yield
    await run_in_threadpool(service.worker.close, service.grace)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError), "registered for these"
    return refusal(protocol_error(error))


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for these"
    where = f"{request.method[:20]} {request.url.path[:200]}"
    said = {404: "nothing is at this address", 405: "the address takes another method"}.get(error.status_code, error.detail)
    return refusal(ProtocolError(f"{where}: {said}; docs/serve.md lists the addresses", error.status_code))


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


async def _too_deep(request: Request, error: Exception) -> Response:
    return refusal(ProtocolError("the body is nested too deeply: send a flatter one"))


async def _broken(request: Request, error: Exception) -> Response:
    traceback.print_exception(error)
    return refusal(ProtocolError(f"the server failed ({type(error).__name__}); its terminal says where", 500))
