"""Who may talk to the studio: pages that it served itself, on this machine, with its token.

A page elsewhere can make a browser send requests here, and a name elsewhere can be made to point
here. So the name that was asked for is checked first, then the page that asks, then the token;
nothing is taken from what a request claims.
"""

import hmac
import json
from http.cookies import SimpleCookie
from typing import Any

LARGEST = 1_000_000  # bytes of a request
COOKIE = "translucid"
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Around an ASGI application."""

    def __init__(self, app: Any, *, token: str, hosts: frozenset[str]) -> None:
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        given: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        why = self._refusal(scope, given)
        if why is not None:
            return await _refuse(scope, receive, send, *why)

        async def sealed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        await self.app(scope, receive, sealed if scope["type"] == "http" else send)

    def _refusal(self, scope: Any, given: dict[str, list[str]]) -> tuple[int, str] | None:
        hosts = given.get("host", [])
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return 403, "this studio answers only under its own address"
        origins = given.get("origin", [])
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return 403, "another page may not ask the studio"
        if scope["type"] == "websocket" and not origins:
            return 403, "the request does not say which page it comes from"
        if not self._known(scope, given):
            return 403, "open the address that `translucid explore` has printed: it holds the token"
        if scope.get("method", "GET") not in ("GET", "HEAD"):
            kinds = given.get("content-type", [])
            if [kind.partition(";")[0].strip() for kind in kinds] != ["application/json"]:
                return 415, "only application/json is read"
        lengths = given.get("content-length", ["0"])
        if len(lengths) != 1 or not lengths[0].isdigit() or int(lengths[0]) > LARGEST:
            return 413, f"a request may have {LARGEST:,} bytes"
        return None

    def _known(self, scope: Any, given: dict[str, list[str]]) -> bool:
        """The token stands in a cookie, which the address that was printed sets."""
        if scope["type"] == "http" and scope["path"] == f"/open/{self.token}":
            return True
        for line in given.get("cookie", []):
            cookies = SimpleCookie()
            try:
                cookies.load(line)
            except Exception:
                return False
            if COOKIE in cookies and hmac.compare_digest(
                cookies[COOKIE].value.encode(), self.token.encode()
            ):
                return True
        return False


async def _refuse(scope: Any, receive: Any, send: Any, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
        return
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
