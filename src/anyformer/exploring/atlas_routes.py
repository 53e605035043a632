"""The addresses of the atlas: the catalogue as a whole, and a page for each topic."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from anyformer.describe import UserError
from anyformer.exploring.problems import UnknownNameError


def atlas_routes() -> tuple[Route, ...]:
    """`/api/atlas`, and `/api/topics/NAME`."""
    return Route("/api/atlas", _atlas), Route("/api/topics/{name}", _topic)


def _atlas(request: Request) -> JSONResponse:
    from anyformer.atlas import atlas_data

    return JSONResponse(atlas_data())


def _topic(request: Request) -> JSONResponse:
    from anyformer.atlas import topic_data

    try:
        return JSONResponse(topic_data(request.path_params["name"]))
    except UserError as error:
        raise UnknownNameError(str(error)) from None
