"""`ProtocolError`: what is wrong with a request, in the form of OpenAI's interface."""

from __future__ import annotations

from typing import Any, TypeVar

from anyformer.describe import UserError
from anyformer.serving.scheduler import QueueFullError
from anyformer.serving.states import NeverFitsError
from anyformer.serving.worker import StoppingError

KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    405: "invalid_request_error", 408: "timeout_error", 413: "invalid_request_error", 415: "invalid_request_error",
    429: "rate_limit_error", 500: "server_error", 503: "server_error", 504: "timeout_error",
}  # fmt: skip


class ProtocolError(UserError):
    """`status`: HTTP's number; `param`: the field at fault; `after`: seconds after which asking again may do."""

    def __init__(self, message: str, status: int = 400, *, param: str | None = None, after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.after = status, param, after

    def data(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = KINDS.get(self.status, "server_error")
        return {"error": {"message": _sent(str(self)), "type": kind, "param": _sent(self.param), "code": self.status}}


Sent = TypeVar("Sent", str, str | None)


def _sent(text: Sent) -> Sent:
    """What a client wrote may be no text of Unicode, and an answer is."""
    return text if text is None else text.encode("utf-8", "replace").decode()


def protocol_error(error: UserError) -> ProtocolError:
    """Any refusal in that form."""
    if isinstance(error, ProtocolError):
        return error
    if isinstance(error, QueueFullError):
        return ProtocolError(str(error), 429, after=1)
    if isinstance(error, StoppingError):
        return ProtocolError(str(error), 503, after=10)
    return ProtocolError(str(error), 400, param="max_tokens" if isinstance(error, NeverFitsError) else None)
