"""Engines over HTTP, each by the protocol that it speaks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from anyformer.conforming.servers.anyformer_server import AnyformerServer
from anyformer.conforming.servers.http_json import KEY, EngineError, HttpJson
from anyformer.conforming.servers.llama_cpp import LlamaCppServer
from anyformer.conforming.servers.openai import OpenAIServer
from anyformer.conforming.servers.server import CompletionServer
from anyformer.conforming.servers.vllm import VLLMServer
from anyformer.describe import did_you_mean

__all__ = ["AnyformerServer", "CompletionServer", "EngineError", "LlamaCppServer", "OpenAIServer", "VLLMServer", "open_server"]


def open_server(
    url: str,
    *,
    served: str | None = None,
    timeout: float = 600.0,
    pieces: Callable[[], Mapping[str, int] | None] = lambda: None,
) -> CompletionServer:
    """The server at `url`, by what it says of itself; `served`: the name of the model there, if it has several.

    `pieces`: gives the tokens by what they spell, for a server that names tokens by their text.
    """
    if not url.startswith(("http://", "https://")):
        raise EngineError(f"{url}: no address of a server; give one like http://127.0.0.1:8000")
    http = HttpJson(url.rstrip("/").removesuffix("/v1"), os.environ.get(KEY), timeout)
    properties = http.found("/props")
    if isinstance(properties, dict) and "default_generation_settings" in properties:
        return LlamaCppServer(http, properties)
    listed = http.found("/v1/models")
    models = listed.get("data") if isinstance(listed, dict) else None
    if not models:
        raise EngineError(f"{http.url}: lists no model at /v1/models; is this a server of completions?")
    model = _served(http.url, models, served)
    if model.get("owned_by") == "vllm":
        return VLLMServer(http, model)
    if model.get("owned_by") == "anyformer":
        return AnyformerServer(http, model)
    return OpenAIServer(http, model, pieces())


def _served(url: str, models: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    names = [str(model.get("id")) for model in models]
    if name is None and len(models) == 1:
        return models[0]
    if name is None:
        raise EngineError(f"{url}: serves {len(models)} models: name one with --served, of {', '.join(names)}")
    if name not in names:
        raise EngineError(f"{url}: serves no model {name!r}{did_you_mean(name, names)}")
    return models[names.index(name)]
