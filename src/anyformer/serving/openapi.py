"""The addresses as an OpenAPI document, made from the classes that read bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import anyformer
from anyformer.describe import Value
from anyformer.serving.bodies import ChatBody, CompletionBody, DetokenizeBody, EmbeddingBody, TokenizeBody
from anyformer.serving.served_model import ServedModel
from anyformer.serving.text_routes import Endpoint

BODIES: Mapping[str, tuple[type[Value], str]] = {
    "/v1/completions": (CompletionBody, "Texts behind prompts."),
    "/v1/chat/completions": (ChatBody, "Answers to what was said."),
    "/v1/embeddings": (EmbeddingBody, "Vectors of texts."),
    "/tokenize": (TokenizeBody, "Tokens of a text."),
    "/detokenize": (DetokenizeBody, "The text of tokens."),
}
"""Addresses that take a body."""
PLAIN: Mapping[str, tuple[str, str]] = {
    "/": ("A page to chat with the model.", "text/html"),
    "/v1/models": ("The model that is served.", "application/json"),
    "/health": ("Whether requests are taken.", "application/json"),
    "/metrics": ("Prometheus' text.", "text/plain"),
    "/openapi.json": ("This document.", "application/json"),
}
"""Addresses that are only read, and the type of what they give."""
TOLD: Mapping[str, str] = {"/reload": "Reads the weights again; texts that go on end with the old."}
"""Addresses that are told to do something, without a body."""
REFUSALS = ("400", "401", "403", "404", "408", "413", "429", "499", "503", "504")


def document(name: str) -> dict[str, Any]:
    """The document of a server of this model."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for path, (body, said) in BODIES.items():
        schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {}) | {body.__name__: schema}
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}
        types = ("application/json", "text/event-stream") if "completions" in path else ("application/json",)
        paths[path] = {"post": {**_operation(said, types), "requestBody": {"required": True, "content": content}}}
    for path, (said, kind) in PLAIN.items():
        paths[path] = {"get": _operation(said, (kind,))}
    paths |= {path: {"post": _operation(said, ("application/json",))} for path, said in TOLD.items()}
    info = {"title": f"{name}, served by anyformer", "version": anyformer.__version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def openapi_endpoint(model: ServedModel) -> Endpoint:
    """`/openapi.json`."""
    found = document(model.name)

    async def endpoint(request: Request) -> Response:
        return JSONResponse(found)

    return endpoint


def _operation(said: str, types: tuple[str, ...]) -> dict[str, Any]:
    answer = {"description": said, "content": {each: {} for each in types}}
    refused = {"description": "A refusal in the protocol's form.", "content": {"application/json": {}}}
    return {"summary": said, "responses": {"200": answer, **dict.fromkeys(REFUSALS, refused)}}
