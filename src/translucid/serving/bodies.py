"""Bodies of requests: JSON objects that are checked strictly, with errors that name the field."""

import re
from typing import Any, Self

from translucid.core.config import Config
from translucid.core.errors import ConfigError, InputError
from translucid.core.untrusted_files import parsed_json

MOST_PARTS = 20_000  # lists and objects in one body
MOST_MISTAKES = 5  # named in one message


class ApiError(Exception):
    """A request that is answered with an error.

    param: the field that is wrong. code: a word for programs. retry_after: seconds.
    """

    def __init__(
        self,
        message: str,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.param, self.code = message, status, param, code
        self.retry_after = retry_after

    @property
    def kind(self) -> str:
        """The type of the error in the OpenAI API."""
        kinds = {
            401: "authentication_error", 403: "permission_error", 404: "not_found_error",
            429: "rate_limit_error",
        }  # fmt: skip
        return kinds.get(
            self.status, "server_error" if self.status >= 500 else "invalid_request_error"
        )


class Body(Config):
    """Base class of request bodies. Unknown fields are errors, and so are values of a wrong
    type."""

    @staticmethod
    def values(raw: bytes) -> dict[str, Any]:
        """Parse a body as a JSON object."""
        try:
            values = parsed_json(raw or b"{}", "the body", MOST_PARTS)
        except InputError as error:
            raise ApiError(str(error), code="invalid_json") from None
        if not isinstance(values, dict):
            raise ApiError(
                f"the body is a JSON {_kind(values)}; send an object", code="invalid_json"
            )
        return values

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Check the fields; raises an ApiError that names the first one that is wrong."""
        try:
            check_text(values)
            return cls(**values)
        except ConfigError as error:
            first = error.mistakes[0]
            name = re.match(r"\w+", first)
            raise ApiError(
                "; ".join(dict.fromkeys(error.mistakes[:MOST_MISTAKES])),
                param=name[0] if name else None,
                code="unknown_field" if "no such key" in first else None,
            ) from None
        except RecursionError:
            raise ApiError("the body is nested too deeply", code="invalid_json") from None


def check_text(value: object, param: str | None = None) -> None:
    """Raise an error if a text contains a lone surrogate, which is not valid Unicode."""
    match value:
        case str():
            if any("\ud800" <= character <= "\udfff" for character in value):
                raise ApiError(
                    "the text contains half of a surrogate pair, which is not valid Unicode; send "
                    "whole characters",
                    param=param,
                )
        case dict():
            for key, part in value.items():
                check_text(key, param or key)
                check_text(part, param or key)
        case list():
            for part in value:
                check_text(part, param)


def _kind(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
