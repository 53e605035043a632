"""A server that speaks OpenAI's `/v1/completions`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anyformer.conforming.request import Completion, CompletionRequest, TokenLogProbs
from anyformer.conforming.servers.http_json import EngineError, HttpJson, RequestRefusedError
from anyformer.conforming.servers.server import CompletionServer

BIAS = 100
"""The greatest bias of a logit that the protocol allows."""
NUMBERED = "token_id:"
"""What stands before a token's number where tokens are named by numbers."""


class OpenAIServer(CompletionServer):
    """Any server of the protocol that takes a prompt as tokens. `pieces`: tokens by what they spell, for servers that name
    tokens by their text alone; what several tokens spell is left out."""

    def __init__(self, http: HttpJson, served: Mapping[str, Any], pieces: Mapping[str, int] | None = None) -> None:
        self.http, self.pieces = http, pieces
        self.called = f"a server of OpenAI's protocol ({served.get('owned_by', 'unknown')})"
        self.model = str(served["id"])
        self.longest = served.get("max_model_len")

    def ask(self, request: CompletionRequest, top: int) -> Completion:
        try:
            answer = self.http.post("/v1/completions", self._asked(request, top))
        except RequestRefusedError as error:
            if not request.whole or error.status not in (400, 422):
                raise
            request = replace(request, whole=False)  # a server need not show prompts
            answer = self.http.post("/v1/completions", self._asked(request, top))
        try:
            (choice,) = answer["choices"]
        except (KeyError, TypeError, ValueError):
            raise EngineError(f"{self.http.url}: answers without choices: {str(answer)[:200]}") from None
        made, prompt = self._made(choice.get("logprobs"), request), self._prompt(choice, request)
        if request.whole and not prompt:  # echoed: the prompt's tokens stand before those that were made
            at = len(made) - request.count
            prompt, made = made[1:at], made[at:]
        return Completion(
            made,
            prompt,
            read=(answer.get("usage") or {}).get("prompt_tokens"),
            stopped={"stop": True, "length": False}.get(choice.get("finish_reason")),
        )

    def _asked(self, request: CompletionRequest, top: int) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "model": self.model,
            "prompt": list(request.tokens) if request.text is None else request.text,
            "max_tokens": request.count,
            "temperature": request.temperature,
            "logprobs": top,
            "seed": 0,
        }
        if request.whole:
            asked["echo"] = True
        if request.forced is not None:
            asked["logit_bias"] = {str(request.forced): BIAS}
        return asked

    def _prompt(self, choice: Mapping[str, Any], request: CompletionRequest) -> tuple[TokenLogProbs, ...]:
        """The log-probabilities of the prompt's tokens from the second on, where they stand beside those that were made."""
        return ()

    def _made(self, shown: Mapping[str, Any] | None, request: CompletionRequest) -> tuple[TokenLogProbs, ...]:
        if request.forced is not None and not shown:
            return ()
        if not shown:
            raise EngineError(
                f"{self.http.url}: gives no log-probabilities, which conform compares; can the server be told to?"
            )
        if (steps := shown.get("content")) is not None:  # the form of chats, which some servers give here too
            return tuple(map(self._of_chat, steps))
        tops = shown.get("top_logprobs") or [None for _ in shown["tokens"]]
        return tuple(
            TokenLogProbs(self._number(token), _value(logprob), self._table(top or {token: logprob}))
            for token, logprob, top in zip(shown["tokens"], shown["token_logprobs"], tops, strict=True)
        )

    def _of_chat(self, step: Mapping[str, Any]) -> TokenLogProbs:
        numbers = {self._numbered(each): float(each["logprob"]) for each in step["top_logprobs"]}
        return TokenLogProbs(self._numbered(step), float(step["logprob"]), numbers)

    def _numbered(self, step: Mapping[str, Any]) -> int:
        return int(step["id"]) if "id" in step else self._number(step["token"])

    def _table(self, top: Mapping[str, float | None]) -> dict[int, float]:
        known = ((self._known(token), logprob) for token, logprob in top.items())
        return {number: _value(logprob) for number, logprob in known if number is not None}

    def _number(self, token: str) -> int:
        number = self._known(token)
        if number is None:
            raise EngineError(
                f"{self.http.url}: names a token {token!r}, which is no single token of the model; the server must name "
                "tokens by their numbers (vLLM: return_tokens_as_token_ids), or MODEL have its tokenizer"
            )
        return number

    def _known(self, token: str) -> int | None:
        if token.startswith(NUMBERED):
            return int(token.removeprefix(NUMBERED))
        return None if self.pieces is None else self.pieces.get(token)


def _value(logprob: float | None) -> float:
    return math.nan if logprob is None else float(logprob)
