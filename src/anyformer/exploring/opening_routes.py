"""The addresses of models that were opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from anyformer.describe.plain_data import plain
from anyformer.exploring.opening_desk import OpeningDesk
from anyformer.exploring.question import Query


def opening_routes(models: OpeningDesk, query_of: Callable[[Request], Query]) -> tuple[Route, ...]:
    """`/api/values`, and of a model with weights `/api/open`, `/api/attention`, `/api/value`, `/api/patch`, `/api/samples`, and
    with a sparse dictionary beside it `/api/dictionaries`, `/api/features`, `/api/feature`."""

    def told(answer: Callable[[Query], dict[str, Any]]) -> Callable[[Request], JSONResponse]:
        def endpoint(request: Request) -> JSONResponse:
            found = answer(query_of(request))
            return JSONResponse(plain(found), 202 if found.get("pending") else 200)

        return endpoint

    answers = {
        "values": models.values, "open": models.reading, "attention": models.attention, "value": models.strongest,
        "patch": models.patched, "samples": models.samples, "dictionaries": models.dictionaries, "features": models.features,
        "feature": models.feature,
    }  # fmt: skip
    return tuple(Route(f"/api/{name}", told(answer)) for name, answer in answers.items())
