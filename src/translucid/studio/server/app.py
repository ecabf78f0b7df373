"""The studio's web application, for this machine only.

The page appears while the models are still loading, and its requests wait for them. Therefore
nothing here may import torch, which takes longer than everything else.
"""

import asyncio
import base64
import hashlib
import mimetypes
import re
import secrets
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from translucid.core.cancellation import CANCELLED, Cancelled
from translucid.core.errors import TranslucidError
from translucid.core.http_requests import Refused
from translucid.studio.server.guard import POLICY, Guard, cookie_name
from translucid.studio.server.questions import (
    QUESTIONS,
    Question,
    Reply,
    as_json,
    read_query,
)

if TYPE_CHECKING:
    from translucid.studio.handlers import Handlers

STATIC = Path(__file__).parents[1] / "static"
FOREVER = {"cache-control": "private, max-age=31536000, immutable"}  # a run never changes
MAIN = '<script type="module" src="/static/js/main.js">'  # in index.html
# Files in the head of index.html, without which the browser paints nothing.
BLOCKING = re.compile(
    r'<script src="/static/([^"]+)"></script>|<link rel="stylesheet" href="/static/([^"]+)">'
)
WAITING = 64  # maximum requests waiting for the models
LIVE = 16  # maximum pages that follow training at once

# Required by the content security policy, regardless of the machine's MIME table.
mimetypes.add_type("text/javascript", ".js")
mimetypes.add_type("text/css", ".css")
mimetypes.add_type("image/svg+xml", ".svg")
mimetypes.add_type("font/woff", ".woff")


class JsonReply(JSONResponse):
    def render(self, content: Any) -> bytes:
        return as_json(content)


class Pages(StaticFiles):
    """Serves the page's files; the browser revalidates them on each use."""

    def file_response(self, *args: Any, **more: Any) -> Response:
        answer = super().file_response(*args, **more)
        answer.headers["cache-control"] = "no-cache"
        return answer


class Studio:
    """The studio's routes and their handlers."""

    def __init__(
        self,
        opening: "Future[Handlers]",
        token: str,
        view: Path | None = None,
        loaded: threading.Event | None = None,
    ) -> None:
        """`view`: a JavaScript file with the user's own view (docs/guides/extend.md)."""
        self.opening, self.token, self.view = opening, token, view
        self.turn, self.waiting = asyncio.Lock(), 0  # models process one request at a time
        self.live = 0
        self.loaded = loaded or threading.Event()

    def routes(self) -> list[Route | Mount | WebSocketRoute]:
        return [
            Route("/", self.page),
            Route("/open/{token}", self.open),
            *(
                Route(path, self._in_turn(name), methods=[method])
                for (method, path), name in QUESTIONS.items()
            ),
            Route("/own/view.js", self.own_view),
            Route("/own/register.js", self.register),
            WebSocketRoute("/api/train/{m}", self.train),
            Mount("/static", Pages(directory=STATIC, follow_symlink=False)),
        ]

    async def _handlers(self) -> "Handlers":
        """Wait until the models are open; a page that disconnects does not cancel the opening."""
        return await asyncio.shield(asyncio.wrap_future(self.opening))

    def _in_turn(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """A route that answers one request at a time, on a thread."""

        async def in_turn(request: Request) -> Response:
            self.loaded.set()
            body = await request.body()  # read it completely, so that a disconnect is detected
            asked = Question(request.path_params, read_query(request.url.query), body)
            if self.waiting >= WAITING:
                return JsonReply({"error": "the studio is busy; try again in a moment"}, 503)
            self.waiting += 1
            try:
                handlers = await self._handlers()
                async with self.turn:
                    if await request.is_disconnected():
                        raise ClientDisconnect
                    reply = await _unless_gone(request, handlers.answer, name, asked)
            finally:
                self.waiting -= 1
            headers = FOREVER if reply.forever else None
            return Response(reply.body, reply.status, headers, reply.kind)

        return in_turn

    # ---- the page ----

    async def page(self, request: Request) -> Response:
        content, policy = first_paint()
        if self.view is not None:  # register the view before the page draws
            own = '<script type="module" src="/own/register.js"></script>'
            content = content.replace(MAIN, f"{own}\n    {MAIN}")
        return Response(
            content, headers={"content-security-policy": policy}, media_type="text/html"
        )

    async def own_view(self, request: Request) -> Response:
        """The user's file, read each time so that changes appear when the page is reloaded."""
        if self.view is None:
            raise HTTPException(404, "there is no custom view; pass its file with --view FILE.js")
        return Response(self.view.read_bytes(), media_type="text/javascript")

    async def register(self, request: Request) -> Response:
        """A script that adds the user's view to the page, under the name of its file."""
        name = as_json(self.view.stem if self.view is not None else "").decode()
        script = (
            "import { VIEWS } from '/static/js/views/index.js';\n"
            "import view from '/own/view.js';\n"
            f"VIEWS[{name}] = {{ ...view, draw: async (...given) => view.draw(...given) }};\n"
        )
        return Response(script, media_type="text/javascript")

    async def open(self, request: Request) -> Response:
        """The page, with the cookie for its requests. The page then removes the token from its
        address. This route does not redirect, because the browser would then attribute the next
        request to the site with the link, and withhold the cookie."""
        answer = await self.page(request)
        answer.set_cookie(
            cookie_name(request.headers["host"]), self.token,
            httponly=True, samesite="strict", path="/",
        )  # fmt: skip
        return answer

    # ---- training ----

    async def train(self, socket: WebSocket) -> None:
        from translucid.studio.server.live import follow

        run = (await self._handlers()).followed.get(socket.path_params["m"])
        if run is None or self.live >= LIVE:
            await socket.close(1008)
            return
        self.live += 1
        try:
            await follow(socket, run)
        finally:
            self.live -= 1


def first_paint() -> tuple[str, str]:
    """The page with the text of the files that block its first paint, and the content security
    policy that allows these texts. The browser paints such a page as soon as it arrives."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}

    def inside(match: re.Match[str]) -> str:
        kind, name = ("script", match[1]) if match[1] else ("style", match[2])
        text = (STATIC / name).read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f" 'sha256-{digest}'")
        return f"<{kind}>{text}</{kind}>"

    head, end, body = (STATIC / "index.html").read_text("utf-8").partition("</head>")
    content = BLOCKING.sub(inside, head) + end + body
    allowed = (f"; {kind}-src 'self'{''.join(texts)}" for kind, texts in hashes.items())
    return content, POLICY + "".join(allowed)


async def _unless_gone(request: Request, act: Callable[..., Reply], *arguments: Any) -> Reply:
    """Call a function on a thread. If the page disconnects, the function stops at its next
    check."""
    cancelled = threading.Event()
    CANCELLED.set(cancelled)  # in the context of this request, which the thread copies
    work = asyncio.create_task(run_in_threadpool(act, *arguments))
    gone = asyncio.ensure_future(request.receive())  # after the body, only the end is left
    try:
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            cancelled.set()
        return await work
    except Cancelled:
        raise ClientDisconnect from None
    finally:
        gone.cancel()


async def _wrong(request: Request, error: Exception) -> Response:
    """Convert an exception to a response."""
    match error:
        case HTTPException():
            return JsonReply({"error": error.detail}, error.status_code, headers=error.headers)
        case Refused():
            return JsonReply({"error": error.why}, error.status, headers={"connection": "close"})
        case TranslucidError():
            return JsonReply({"error": str(error)}, 422)  # the models could not be opened
        case ClientDisconnect():
            return Response(status_code=400)  # the client has gone
        case _:
            message = "internal error in the studio; see the terminal in which it runs"
            return JsonReply({"error": message}, 500)


def make_app(
    opening: "Future[Handlers]",
    *,
    token: str | None = None,
    hosts: frozenset[str],
    once: str = "",
    view: Path | None = None,
    loaded: threading.Event | None = None,
) -> Guard:
    """Build the application with its access control. The address to open contains `guard.token` or,
    for a single use, `once`. view: a JavaScript file with the user's own view. loaded: set when a
    page has loaded its files."""
    token = token or secrets.token_urlsafe(24)
    kinds = (HTTPException, Refused, TranslucidError, ClientDisconnect, Exception)
    app = Starlette(
        routes=Studio(opening, token, view, loaded).routes(),
        exception_handlers=dict.fromkeys(kinds, _wrong),
    )
    return Guard(app, token=token, hosts=hosts, once=once)
