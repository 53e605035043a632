"""llama.cpp's server, by its own `/completion`: the prompt as tokens, no end of the vocabulary left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
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
        answer = self._completion(request, top, request.forced)
        made = _places(answer.get("tokens") or (), _steps(answer))
        if not made and request.forced is None and answer.get("tokens_predicted"):
            # It shows no token whose bytes are not yet a character. With another one made, the logits are those asked for.
            made = tuple(
                replace(step, token=step.likeliest, logprob=step.top[step.likeliest])
                for step in _steps(self._completion(request, top, self.whole))[:1]
            )
        if not any(made) and request.forced is None:
            raise EngineError(f"{self.http.url}: gives no log-probabilities: its /completion has no completion_probabilities")
        return Completion(
            made,
            read=answer.get("tokens_evaluated"),
            stopped={"eos": True, "limit": False, "word": True, "none": None}.get(str(answer.get("stop_type"))),
        )

    def _completion(self, request: CompletionRequest, top: int, forced: int | None) -> Mapping[str, Any]:
        asked: dict[str, Any] = {
            "prompt": list(request.tokens) if request.text is None else request.text,
            "n_predict": request.count,
            "n_probs": top,
            "temperature": request.temperature,
            "cache_prompt": request.cached,
            "return_tokens": True,
            "ignore_eos": request.forced is None,  # else it would show nothing of a text that ends at once
            "seed": 0,
        }
        if forced is not None:
            asked["logit_bias"] = [[forced, BIAS]]
        answer = self.http.post("/completion", asked)
        if not isinstance(answer, dict):
            raise EngineError(f"{self.http.url}: answers {str(answer)[:80]}, which is no completion")
        return answer

    @cached_property
    def whole(self) -> int:
        """A token that spells whole characters."""
        for token in range(self.vocabulary or 0):
            text = self.http.post("/detokenize", {"tokens": [token]}).get("content")
            if text and text.isascii() and text.isalnum():
                return token
        raise EngineError(f"{self.http.url}: none of its tokens spells letters, so that it shows no log-probabilities")


def _steps(answer: Mapping[str, Any]) -> list[TokenLogProbs]:
    steps = answer.get("completion_probabilities") or ()
    tops = [{each["id"]: float(each["logprob"]) for each in step["top_logprobs"]} for step in steps]
    return [TokenLogProbs(step["id"], float(step["logprob"]), top) for step, top in zip(steps, tops, strict=True)]


def _places(made: Sequence[int], shown: Sequence[TokenLogProbs]) -> tuple[TokenLogProbs | None, ...]:
    """The tokens that were made, those shown at their places: where both the first and the last fit agree."""
    if not shown:
        return ()
    if len(shown) >= len(made):
        return tuple(shown)
    first, last = _fit(made, shown), _fit(made[::-1], shown[::-1])[::-1]
    return tuple(one if one is other else None for one, other in zip(first, last, strict=True))


def _fit(made: Sequence[int], shown: Sequence[TokenLogProbs]) -> list[TokenLogProbs | None]:
    waiting = list(shown)
    return [waiting.pop(0) if waiting and waiting[0].token == token else None for token in made]
