"""llama.cpp's server, by its own `/completion`: the prompt as tokens, no end of the vocabulary left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.conforming.request import Completion, CompletionRequest, TokenLogProbs
from anyformer.conforming.servers.http_json import EngineError, HttpJson
from anyformer.conforming.servers.server import CompletionServer

BIAS = 1e4
"""What is added to the logit of a token that is forced."""


class LlamaCppServer(CompletionServer):
    """`llama-server`. It shows no log-probabilities of a prompt; `cache_prompt`: whether a request may go on from others."""

    def __init__(self, http: HttpJson, properties: Mapping[str, Any]) -> None:
        self.http = http
        build = properties.get("build_info")
        self.called = f"llama.cpp's server{f' ({build})' if build else ''}"
        self.longest = properties.get("default_generation_settings", {}).get("n_ctx") or None
        first: Mapping[str, Any] = next(iter(http.get("/v1/models").get("data", [])), {})
        self.model = first.get("id")
        self.vocabulary = (first.get("meta") or {}).get("n_vocab")

    def ask(self, request: CompletionRequest, top: int) -> Completion:
        asked: dict[str, Any] = {
            "prompt": list(request.tokens) if request.text is None else request.text,
            "n_predict": request.count,
            "n_probs": top,
            "temperature": request.temperature,
            "cache_prompt": request.cached,
            "return_tokens": True,
            "seed": 0,
        }
        if request.forced is not None:
            asked["logit_bias"] = [[request.forced, BIAS]]
        answer = self.http.post("/completion", asked)
        steps = answer.get("completion_probabilities")
        if steps is None and request.forced is None:
            raise EngineError(f"{self.http.url}: gives no log-probabilities: its /completion has no completion_probabilities")
        return Completion(
            tuple(map(_step, steps or ())),
            read=answer.get("tokens_evaluated"),
            stopped={"eos": True, "limit": False, "word": True, "none": None}.get(str(answer.get("stop_type"))),
        )


def _step(step: Mapping[str, Any]) -> TokenLogProbs:
    top = {each["id"]: float(each["logprob"]) for each in step["top_logprobs"]}
    return TokenLogProbs(step["id"], float(step["logprob"]), top)
