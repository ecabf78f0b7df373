"""Limits on HTTP requests, for the studio and the server: size, time, and comparing secrets."""

import asyncio
import hmac
from typing import Any


class Refused(Exception):
    """A request that is rejected before it is read completely."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


def same_secret(value: str, secret: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(value.encode("utf-8", "replace"), secret.encode("utf-8", "replace"))


def check_length(lengths: list[str], largest: int) -> None:
    """Check the Content-Length headers of a request. largest: maximum size in bytes."""
    for length in lengths:
        digits = length.isascii() and length.isdigit() and len(length) < 16
        if not digits or int(length) > largest:
            raise Refused(413, too_large(largest))


def limited(receive: Any, largest: int, patience: float) -> Any:
    """Limit the size of a request's body in bytes, and the time it takes to arrive in seconds."""
    began, size, whole = asyncio.get_running_loop().time(), 0, False

    async def receive_limited() -> Any:
        nonlocal size, whole
        if whole:
            return await receive()
        left = began + patience - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(receive(), max(left, 0.001))
        except TimeoutError:
            raise Refused(
                408, f"the request was not complete after {patience:.0f} seconds"
            ) from None
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if size > largest:
            raise Refused(413, too_large(largest))
        return message

    return receive_limited


def too_large(largest: int) -> str:
    return f"a request may have at most {largest:,} bytes"
