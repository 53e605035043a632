"""JSON over HTTP, with errors in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

from anyformer.describe import UserError

KEY = "OPENAI_API_KEY"
"""The variable of the environment that holds a server's key, as its other clients have it."""
_SHOWN = 300


class EngineError(UserError):
    """A server that cannot be asked, or whose answer cannot be held against a model."""


class RequestRefusedError(EngineError):
    """A request that a server does not take; `status`: HTTP's number for it."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class HttpJson:
    """A server at `url`, without a slash at its end. `key`: sent as a bearer token; `timeout`: of one answer, in seconds."""

    url: str
    key: str | None = None
    timeout: float = 600.0

    def get(self, path: str) -> Any:
        """What the server answers to a GET."""
        return self._answer(UrlRequest(self.url + path, headers=self._headers()))

    def found(self, path: str) -> Any:
        """What the server answers to a GET; None where it knows no such path."""
        try:
            return self.get(path)
        except RequestRefusedError as error:
            if error.status in (404, 405, 501):
                return None
            raise

    def post(self, path: str, table: Mapping[str, Any]) -> Any:
        """What the server answers to a POST of a table."""
        headers = {**self._headers(), "Content-Type": "application/json"}
        return self._answer(UrlRequest(self.url + path, json.dumps(table).encode(), headers))

    def _headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    def _answer(self, asked: UrlRequest) -> Any:
        where = asked.full_url
        try:
            with urlopen(asked, timeout=self.timeout) as answer:
                text = answer.read()
        except HTTPError as error:
            said = error.read().decode(errors="replace")[:_SHOWN].strip()
            if error.code in (401, 403):
                given = f"the key in {KEY} is not taken" if self.key else f"put the server's key into {KEY}"
                raise RequestRefusedError(
                    f"{where}: refuses to answer without a right key ({error.code}): {given}", error.code
                ) from None
            raise RequestRefusedError(f"{where}: the server answers {error.code}: {said or error.reason}", error.code) from None
        except (URLError, OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise EngineError(
                f"{where}: no answer ({type(error).__name__}: {reason}); is the server running, and is this its address?"
            ) from None
        try:
            return json.loads(text)
        except ValueError:
            raise EngineError(f"{where}: answers {text[:80]!r}, which is no JSON; is this a server of completions?") from None
