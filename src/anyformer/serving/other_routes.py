"""The addresses beside those of texts: models, embeddings, tokens, health and metrics."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from anyformer.evaluation.retrieval import embeddings
from anyformer.evaluation.subject import Subject
from anyformer.serving.bodies import DetokenizeBody, EmbeddingBody, TokenizeBody, body_of
from anyformer.serving.protocol_error import ProtocolError
from anyformer.serving.served_model import ServedModel
from anyformer.serving.text_routes import Endpoint
from anyformer.serving.worker import ServingWorker

Body = TypeVar("Body", TokenizeBody, DetokenizeBody)
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
LONGEST = 2**20
"""Tokens of a text that is embedded, where the model has no table of positions."""


def model_table(model: ServedModel, name: str) -> dict[str, Any]:
    """The model, or the model with an adapter, as a list of models has it."""
    table = {"id": name, "object": "model", "created": model.created, "owned_by": "anyformer"}
    beside = {} if name == model.name else {"parent": model.name}
    return {**table, **beside, "max_model_len": model.length, "chats": model.chats}


def models_endpoint(model: ServedModel) -> Endpoint:
    """`/v1/models`, and each of them."""

    async def endpoint(request: Request) -> Response:
        name = request.path_params.get("name")
        model.adapter(name)
        if name is not None:
            return JSONResponse(model_table(model, name))
        return JSONResponse({"object": "list", "data": [model_table(model, each) for each in model.names]})

    return endpoint


def tokenize(model: ServedModel, body: TokenizeBody) -> dict[str, Any]:
    """The tokens of a text."""
    tokens = model.tokens_of(body.prompt) if body.add_special_tokens else model.text().encode(body.prompt)
    return {"tokens": tokens, "count": len(tokens), "max_model_len": model.length}


def detokenize(model: ServedModel, body: DetokenizeBody) -> dict[str, Any]:
    """The text of tokens."""
    tokenizer = model.text()
    beyond = [token for token in body.tokens if token >= tokenizer.vocab_size]
    if beyond:
        raise ProtocolError(f"token {beyond[0]:,} is beyond the vocabulary of {tokenizer.vocab_size:,}", param="tokens")
    return {"prompt": tokenizer.decode(body.tokens, special=not body.skip_special_tokens)}


def plain_endpoint(model: ServedModel, kind: type[Body], answer: Callable[[ServedModel, Body], dict[str, Any]]) -> Endpoint:
    """An address whose answer needs no model's passes."""

    async def endpoint(request: Request) -> Response:
        body = body_of(kind, await request.body())
        model.adapter(body.model)
        return JSONResponse(await run_in_threadpool(answer, model, body))

    return endpoint


def embeddings_endpoint(model: ServedModel, worker: ServingWorker) -> Endpoint:
    """`/v1/embeddings`: vectors of length 1, as `anyformer eval --pairs` compares them, between two steps of texts."""

    async def endpoint(request: Request) -> Response:
        body = body_of(EmbeddingBody, await request.body())
        if not model.embeds:
            raise ProtocolError("texts are embedded by the own engine alone: start the server with --engine own")
        model.adapter(body.model)
        if body.encoding_format not in ("float", "base64"):
            raise ProtocolError(
                f"encoding_format = {body.encoding_format[:20]!r} should be float or base64", param="encoding_format"
            )
        texts = (body.input,) if isinstance(body.input, str) else body.input
        counts = await run_in_threadpool(lambda: [len(model.tokens_of(text)) for text in texts])
        if model.length is not None and max(counts) > model.length:
            raise ProtocolError(f"input: a text has {max(counts):,} tokens, and {model.length:,} are the most", param="input")
        found = await computed(worker, lambda: _embedded(model, body.model, texts))
        data = [
            {"object": "embedding", "index": place, "embedding": _written(vector, body.encoding_format)}
            for place, vector in enumerate(found)
        ]
        used = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
        return JSONResponse({"object": "list", "data": data, "model": body.model or model.name, "usage": used})

    return endpoint


def _embedded(model: ServedModel, name: str | None, texts: Sequence[str]) -> Any:
    subject = Subject(Path(model.name), model.named(name), model.tokenizer, model.length or LONGEST)
    return embeddings(subject, list(texts)).numpy().astype("<f4")


def _written(vector: Any, format: str) -> Any:
    return vector.tolist() if format == "float" else base64.b64encode(vector.tobytes()).decode()


async def computed(worker: ServingWorker, work: Callable[[], Any]) -> Any:
    """What comes of work in the worker's thread."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, problem: Exception | None) -> None:
        if answer.done():  # nobody waits any more
            return
        if problem is None:
            answer.set_result(result)
        else:
            answer.set_exception(problem)

    def done(result: Any, problem: Exception | None) -> None:
        loop.call_soon_threadsafe(settle, result, problem)

    worker.call(work, done)
    return await answer


def reload_endpoint(reload: Callable[[], int] | None, keys: Sequence[str]) -> Endpoint:
    """`/reload`: new weights, for who has a key."""

    async def endpoint(request: Request) -> Response:
        if not keys or reload is None:
            raise ProtocolError("weights are loaded again for who has a key (--key-file), or at SIGHUP", 403)
        return JSONResponse({"status": "ok", "texts_with_old_weights": await run_in_threadpool(reload)})

    return endpoint


def health_endpoint(worker: ServingWorker) -> Endpoint:
    """200 while requests are taken, 503 while the server stops."""

    async def endpoint(request: Request) -> Response:
        state = "stopping" if worker.stopping else "ok" if worker.alive else "failed"
        return JSONResponse({"status": state}, 200 if state == "ok" else 503)

    return endpoint


def metrics_endpoint(worker: ServingWorker) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return Response(worker.metrics.text(), media_type=PROMETHEUS)

    return endpoint
