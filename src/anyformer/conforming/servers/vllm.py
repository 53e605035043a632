"""vLLM's server: OpenAI's protocol, tokens by numbers, log-probabilities of prompts, and a salt that parts its prefix cache."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from anyformer.conforming.request import CompletionRequest, TokenLogProbs
from anyformer.conforming.servers.http_json import HttpJson
from anyformer.conforming.servers.openai import OpenAIServer


class VLLMServer(OpenAIServer):
    """`vllm serve`. Requests of one salt may use one another's blocks: those of a run that may go on from others share one."""

    def __init__(self, http: HttpJson, served: Mapping[str, Any]) -> None:
        super().__init__(http, served)
        version = (http.found("/version") or {}).get("version", "of unknown version")
        self.called = f"vLLM {version}"
        self.salt = secrets.token_hex(8)

    def _asked(self, request: CompletionRequest, top: int) -> dict[str, Any]:
        asked = super()._asked(request, top)
        asked["return_tokens_as_token_ids"] = True
        asked["ignore_eos"] = request.forced is None
        asked["cache_salt"] = self.salt if request.cached else secrets.token_hex(8)
        if asked.pop("echo", False):
            asked["prompt_logprobs"] = top
        return asked

    def _prompt(self, choice: Mapping[str, Any], request: CompletionRequest) -> tuple[TokenLogProbs, ...]:
        shown = choice.get("prompt_logprobs")
        if not shown:
            return ()
        tables = ({int(number): float(each["logprob"]) for number, each in table.items()} for table in shown[1:])
        return tuple(TokenLogProbs(token, top[token], top) for token, top in zip(request.tokens[1:], tables, strict=True))
