"""The page at `/`: a chat with the model, one file that asks nothing of anybody but this server."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from anyformer.serving.text_routes import Endpoint

PAGE = Path(__file__).with_name("page") / "chat.html"


def page_endpoint() -> Endpoint:
    """`/`: the page, whose own script and style alone may run."""
    text = PAGE.read_text(encoding="utf-8")
    headers = {"content-security-policy": policy(text)}

    async def endpoint(request: Request) -> Response:
        return Response(text, media_type="text/html", headers=headers)

    return endpoint


def policy(text: str) -> str:
    """What a browser lets a page do: its one script and its one style by their digests, and requests to the server it came
    from."""
    allowed = {name: _digest(re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)) for name in ("script", "style")}
    rules = [*(f"{name}-src {digest}" for name, digest in allowed.items()), "connect-src 'self'", "img-src data:"]
    return "; ".join(["default-src 'none'", *rules, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"])


def _digest(found: list[str]) -> str:
    (inside,) = found
    return f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
