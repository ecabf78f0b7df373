"""What a text must be before the tokenizers library sees it, and the library's errors as ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from translucid.core.errors import InputError, TranslucidError

MAX_BYTES = 1 << 20  # of one text; all kinds take a few seconds for this much, whatever it holds


def checked(text: object, max_bytes: int, what: str, by_line: bool = False) -> list[str]:
    """The text, or its lines if it is too long for one piece; all checked before Rust sees them."""
    if not isinstance(text, str):
        raise InputError(f"{what} is {type(text).__name__}, not text")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} holds half of a surrogate pair at character {error.start + 1}, which is no "
            "character; read the file as UTF-8"
        ) from None
    if size <= max_bytes:
        return [text]
    if by_line and "\n" in text:
        lines = text.split("\n")
        pieces = [line + "\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]
        return [p for piece in pieces for p in checked(piece, max_bytes, what)]
    raise InputError(
        f"{what} has {size:,} bytes in one piece, above the limit of {max_bytes:,}; split it into "
        "lines, or raise max_bytes"
    )


@contextmanager
def guarded(doing: str) -> Iterator[None]:
    """The library's errors as ours. Its panics derive from BaseException, so that `except
    Exception` would let them pass."""
    try:
        yield
    except (TranslucidError, MemoryError):
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise InputError(f"{doing} failed in the tokenizers library: {error}") from error
        raise
