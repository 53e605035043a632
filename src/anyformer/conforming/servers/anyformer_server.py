"""`anyformer serve`: OpenAI's protocol, tokens by numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.conforming.request import CompletionRequest
from anyformer.conforming.servers.http_json import HttpJson
from anyformer.conforming.servers.openai import OpenAIServer


class AnyformerServer(OpenAIServer):
    """The server of this package, which names tokens by number and goes on behind an end where it is asked to."""

    def __init__(self, http: HttpJson, served: Mapping[str, Any]) -> None:
        super().__init__(http, served)
        self.called = "anyformer serve"

    def _asked(self, request: CompletionRequest, top: int) -> dict[str, Any]:
        ends = {"ignore_eos": request.forced is None}
        return {**super()._asked(request, top), "return_tokens_as_token_ids": True, **ends}
