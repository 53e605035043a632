"""A server over HTTP in front of a stand-in engine, which speaks as llama.cpp's, vLLM's, or another server does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, ClassVar

from anyformer.conforming import Completion, CompletionRequest, CompletionServer, TokenLogProbs

VOCABULARY = 257


class Protocol:
    """What a server says of itself, and how it tells a completion. `key`: what it wants to see; `texts`: tokens of texts."""

    found: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, engine: CompletionServer, texts: Mapping[str, tuple[int, ...]], key: str | None = None) -> None:
        self.engine, self.texts, self.key, self.asked, self.lock = engine, texts, key, [], Lock()

    def answer(self, path: str, table: Mapping[str, Any]) -> Any:
        request, top = self.request(table)
        with self.lock:  # the engine is a model of one process
            return self.told(self.engine.ask(request, top), table)

    def tokens(self, prompt: str | list[int]) -> tuple[int, ...]:
        return self.texts[prompt] if isinstance(prompt, str) else tuple(prompt)

    def request(self, table: Mapping[str, Any]) -> tuple[CompletionRequest, int]:
        raise NotImplementedError

    def told(self, completion: Completion, table: Mapping[str, Any]) -> Any:
        raise NotImplementedError


class LlamaCpp(Protocol):
    """As `llama-server`; tokens from `odd` on spell half a character, and are not shown."""

    odd = 250
    found: ClassVar[Mapping[str, Any]] = {
        "/props": {"default_generation_settings": {"n_ctx": 224}, "build_info": "b1"},
        "/v1/models": {"data": [{"id": "tiny.gguf", "meta": {"n_vocab": VOCABULARY}}]},
    }

    def answer(self, path, table):
        if path == "/detokenize":
            return {"content": "?" if table["tokens"][0] < 5 else "word"}
        return super().answer(path, table)

    def request(self, table):
        (forced,) = [token for token, _ in table.get("logit_bias", [])] or [None]
        prompt = self.tokens(table["prompt"])
        temperature, cached = table["temperature"], table["cache_prompt"]
        asked = CompletionRequest("", prompt, table["n_predict"], cached=cached, temperature=temperature, forced=forced)
        return asked, table["n_probs"]

    def told(self, completion, table):
        steps = [
            {"id": place.token, "logprob": place.logprob, "top_logprobs": _listed(place)}
            for place in completion.made
            if place.token < self.odd
        ]
        answer = {"completion_probabilities": steps} if steps else {}
        return answer | {
            "tokens": [place.token for place in completion.made],
            "tokens_predicted": len(completion.made),
            "tokens_evaluated": completion.read,
            "stop_type": "eos" if completion.stopped else "limit",
        }


class VLLM(Protocol):
    """As `vllm serve`."""

    found: ClassVar[Mapping[str, Any]] = {
        "/version": {"version": "0.1"},
        "/v1/models": {"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 224}]},
    }

    def request(self, table):
        forced = next((int(token) for token in table.get("logit_bias", {})), None)
        prompt, whole = self.tokens(table["prompt"]), "prompt_logprobs" in table
        temperature, count = table["temperature"], table["max_tokens"]
        self.asked.append(table["cache_salt"])
        asked = CompletionRequest("", prompt, count, whole=whole, temperature=temperature, forced=forced)
        return asked, table["logprobs"]

    def told(self, completion, table):
        shown = {
            "tokens": [f"token_id:{place.token}" for place in completion.made],
            "token_logprobs": [place.logprob for place in completion.made],
            "top_logprobs": [{f"token_id:{token}": value for token, value in place.top.items()} for place in completion.made],
        }
        prompt = [
            {str(token): {"logprob": value} for token, value in {**each.top, each.token: each.logprob}.items()}
            for each in completion.prompt
        ]
        choice = {"logprobs": shown, "finish_reason": "stop" if completion.stopped else "length"}
        choice["prompt_logprobs"] = [None, *prompt] if prompt else None
        return {"choices": [choice], "usage": {"prompt_tokens": completion.read}}


class Echoing(Protocol):
    """As other servers of OpenAI's protocol, which name tokens by their text and repeat the prompt where asked."""

    found: ClassVar[Mapping[str, Any]] = {"/v1/models": {"data": [{"id": "one"}, {"id": "tiny"}]}}

    def request(self, table):
        forced = next((int(token) for token in table.get("logit_bias", {})), None)
        prompt, whole = self.tokens(table["prompt"]), table.get("echo", False)
        temperature, count = table["temperature"], table["max_tokens"]
        asked = CompletionRequest("", prompt, count, whole=whole, temperature=temperature, forced=forced)
        return asked, table["logprobs"]

    def told(self, completion, table):
        places = (*completion.prompt, *completion.made)
        first = [f"w{table['prompt'][0]}"] if completion.prompt else []
        shown = {
            "tokens": [*first, *(f"w{place.token}" for place in places)],
            "token_logprobs": [*(None for _ in first), *(place.logprob for place in places)],
            "top_logprobs": [*(None for _ in first), *({f"w{t}": v for t, v in place.top.items()} for place in places)],
        }
        finish = "stop" if completion.stopped else "length"
        return {"choices": [{"logprobs": shown, "finish_reason": finish}], "usage": {"prompt_tokens": completion.read}}


def _listed(place: TokenLogProbs) -> list[dict[str, Any]]:
    return [{"id": token, "logprob": value} for token, value in place.top.items()]


@contextmanager
def serving(protocol: Protocol) -> Iterator[str]:
    """The address of a server that speaks so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.tell(protocol.found.get(self.path))

        def do_POST(self) -> None:
            table = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.tell(protocol.answer(self.path, table))

        def tell(self, said: Any) -> None:
            wrong = protocol.key is not None and self.headers.get("Authorization") != f"Bearer {protocol.key}"
            text = json.dumps(said).encode()
            self.send_response(401 if wrong else 404 if said is None else 200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
