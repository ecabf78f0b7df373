"""The WebSocket of the Train view: everything so far, then updates four times a second.

    text     {"about": {...}}                 once, and again when the run restarts
    binary   two frames (`run_follower`)      all records so far; again at the end and on a restart
    text     {"points": ..., "state": ...}    new records, or a new state

The page sends nothing.
"""

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from translucid.runs.recorder import about
from translucid.studio.run_follower import RunFollower, RunReading, history, message
from translucid.studio.server.questions import as_json

BETWEEN = 0.25  # seconds between messages
ENDED = ("finished", "interrupted", "failed", "stopped")


async def follow(socket: WebSocket, run: RunFollower) -> None:
    """Send updates until the page disconnects or the server stops."""
    await socket.accept()
    gone = asyncio.create_task(_gone(socket))
    run.pages[id(socket)] = False
    try:
        await _send_all(socket, run, gone)
    except (WebSocketDisconnect, RuntimeError):  # the page disconnected while a message was sent
        pass
    finally:
        gone.cancel()
        del run.pages[id(socket)]


async def _send_all(socket: WebSocket, run: RunFollower, gone: "asyncio.Task[None]") -> None:
    while not gone.done():
        reading = await run_in_threadpool(RunReading, run)
        news = await run_in_threadpool(reading.more)
        state = reading.state()
        await socket.send_text(_json({"about": reading.about}))
        await socket.send_bytes(history(news, state))
        run.pages[id(socket)] = state["state"] in ENDED
        reading.again = False
        while not gone.done():
            await asyncio.wait([gone], timeout=BETWEEN)
            if gone.done():
                return
            before, news = state, await run_in_threadpool(reading.more)
            state = reading.state()
            if reading.again or about(run.folder).get("layers", []) != reading.layers:
                break  # restarted, or recording has just begun
            if state != before and state["state"] in ENDED:
                break  # send everything again: updates of a fast run were thinned
            if news.some or state != before:
                await socket.send_text(_json(message(news, state)))
                run.pages[id(socket)] = state["state"] in ENDED


async def _gone(socket: WebSocket) -> None:
    """Wait until the page disconnects; close the connection if it sends anything."""
    if (await socket.receive())["type"] != "websocket.disconnect":
        await socket.close(1008, "the Train view sends nothing")


def _json(content: dict[str, Any]) -> str:
    return as_json(content).decode()
