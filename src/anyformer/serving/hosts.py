"""By which names the server answers: a page elsewhere whose own name points here is refused."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from anyformer.serving.guard import refusal
from anyformer.serving.protocol_error import ProtocolError


class HostsMiddleware:
    """Refuses a request whose `Host` names another host than `hosts`, at any port."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self._hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (name := host_of(scope)) not in self._hosts:
            said = f"the server does not answer as {name[:80]!r}: ask {', '.join(sorted(self._hosts))}"
            await refusal(ProtocolError(said))(scope, receive, send)
            return
        await self.app(scope, receive, send)


def host_of(scope: Scope) -> str:
    """The name in `Host`, without its port; a number of IPv6 in its brackets."""
    given = next((value.decode("latin-1").strip().lower() for name, value in scope["headers"] if name == b"host"), "")
    return given.partition("]")[0] + "]" if given.startswith("[") else given.partition(":")[0]
