"""The studio's server: pages and numbers, for this machine only."""

import asyncio
import mimetypes
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from translucid.studio.desk import Act, Asked, Desk, as_json, read_query
from translucid.studio.following import Followed
from translucid.studio.guard import Guard, Refused, cookie_name
from translucid.studio.live import follow
from translucid.studio.runs import Library

STATIC = Path(__file__).parent / "static"
FOREVER = {"cache-control": "private, max-age=31536000, immutable"}  # a run never changes
WAITING = 64  # requests that may wait for the models
LIVE = 16  # pages that may follow a training at once

# What the page's policy insists on, whatever this machine's own table says.
mimetypes.add_type("text/javascript", ".js")
mimetypes.add_type("text/css", ".css")
mimetypes.add_type("image/svg+xml", ".svg")


class Told(JSONResponse):
    def render(self, content: Any) -> bytes:
        return as_json(content)


class Pages(StaticFiles):
    """The page's files; a browser asks each time whether they have changed."""

    def file_response(self, *given: Any, **more: Any) -> Response:
        answer = super().file_response(*given, **more)
        answer.headers["cache-control"] = "no-cache"
        return answer


class Studio:
    """What the routes answer with."""

    def __init__(self, library: Library, token: str, followed: Mapping[str, Followed]) -> None:
        self.desk, self.token = Desk(library, followed), token
        self.turn, self.waiting = asyncio.Lock(), 0  # one thing at a time runs through the models
        self.live = 0

    def routes(self) -> list[Route | Mount | WebSocketRoute]:
        return [
            Route("/", self.page),
            Route("/open/{token}", self.open),
            *(
                Route(path, self._in_turn(act), methods=[method])
                for (method, path), act in self.desk.acts.items()
            ),
            WebSocketRoute("/api/train/{m}", self.train),
            Mount("/static", Pages(directory=STATIC, follow_symlink=False)),
        ]

    def _in_turn(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        """One at a time, on a thread."""

        async def in_turn(request: Request) -> Response:
            body = await request.body()  # to its end, so that it is seen when nobody waits any more
            asked = Asked(request.path_params, read_query(request.url.query), body)
            if self.waiting >= WAITING:
                return Told({"error": "the studio is busy; ask again in a moment"}, 503)
            self.waiting += 1
            try:
                async with self.turn:
                    if await request.is_disconnected():
                        raise ClientDisconnect
                    reply = await run_in_threadpool(self.desk.answer, act, asked)
            finally:
                self.waiting -= 1
            headers = FOREVER if reply.forever else None
            return Response(reply.body, reply.status, headers, reply.kind)

        return in_turn

    # ---- the page ----

    async def page(self, request: Request) -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html")

    async def open(self, request: Request) -> Response:
        """Sets the cookie. A page goes on from here, and not a redirection: a browser would hold
        the page that had the link for the one that asks, and keep the cookie to itself."""
        answer = Response((STATIC / "open.html").read_bytes(), media_type="text/html")
        answer.set_cookie(
            cookie_name(request.headers["host"]), self.token,
            httponly=True, samesite="strict", path="/",
        )  # fmt: skip
        return answer

    # ---- training ----

    async def train(self, socket: WebSocket) -> None:
        run = self.desk.followed.get(socket.path_params["m"])
        if run is None or self.live >= LIVE:
            await socket.close(1008)
            return
        self.live += 1
        try:
            await follow(socket, run)
        finally:
            self.live -= 1


async def _wrong(request: Request, error: Exception) -> Response:
    """No such address, another method, a request that was cut short, a mistake of ours."""
    match error:
        case HTTPException():
            return Told({"error": error.detail}, error.status_code, headers=error.headers)
        case Refused():
            return Told({"error": error.why}, error.status, headers={"connection": "close"})
        case ClientDisconnect():
            return Response(status_code=400)  # nobody reads it
        case _:
            said = "the studio has made a mistake; what went wrong stands where it was started"
            return Told({"error": said}, 500)


def make_app(
    library: Library,
    *,
    token: str | None = None,
    hosts: frozenset[str],
    once: str = "",
    followed: Mapping[str, Followed] | None = None,
) -> Guard:
    """The guarded application; `guard.token` stands in the address to open, or, for one time,
    `once`."""
    token = token or secrets.token_urlsafe(24)
    kinds: tuple[type[Exception], ...] = (HTTPException, Refused, ClientDisconnect, Exception)
    app = Starlette(
        routes=Studio(library, token, followed or {}).routes(),
        exception_handlers=dict.fromkeys(kinds, _wrong),
    )
    return Guard(app, token=token, hosts=hosts, once=once)
