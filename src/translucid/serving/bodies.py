"""Bodies of requests: JSON objects that are checked strictly, with errors that name the field."""

import re
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from translucid.core.config import Config
from translucid.core.errors import ConfigError, InputError
from translucid.core.untrusted_files import parsed_json

MOST_PARTS = 20_000  # lists and objects in one body
MOST_VALUES = 1_000_000  # in all lists and objects of one body
MOST_KEYS = 10_000  # in one object
MOST_TEXTS = 1000
MOST_MISTAKES = 5  # named in one message
MODEL = "Name of a model; may be omitted if only one fits"
LIBRE_PATHS = frozenset({"/translate", "/detect", "/languages"})  # of LibreTranslate's API

# Lists are checked up to the first mistake, since a body may contain a million.
Texts = Annotated[list[str], Field(max_length=MOST_TEXTS, fail_fast=True)]
Id = Annotated[int, Field(ge=0)]
Ids = Annotated[list[Id], Field(max_length=MOST_VALUES, fail_fast=True)]


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

    @property
    def seconds(self) -> int:
        """Value of the header Retry-After; 0: do not retry."""
        return 0 if self.retry_after is None else max(1, round(self.retry_after))

    def content(self, libre: bool = False) -> dict[str, Any]:
        """The body of the answer. libre: in the shape of LibreTranslate's API."""
        if libre:
            return {"error": self.message}
        return {
            "error": {
                "message": self.message, "type": self.kind, "param": self.param, "code": self.code
            }
        }  # fmt: skip


def not_finite(name: str, value: float) -> ApiError:
    """The error for an answer that contains a number which JSON cannot represent."""
    return ApiError(
        f"{name} is {value}: the numbers of the model overflow for this input; send another input, "
        "or serve a model whose training did not diverge", 422, code="not_finite",
    )  # fmt: skip


class Body(Config):
    """Base class of request bodies. Unknown fields are errors, and so are values of a wrong
    type."""

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, values: Any) -> Any:
        """JSON has only one kind of number: 5.0 is a whole number, too."""
        if not isinstance(values, dict):
            return values
        whole = {
            name: int(value)
            for name, value in values.items()
            if isinstance(value, float) and value.is_integer() and name in cls.model_fields
            and cls.model_fields[name].annotation in (int, int | None)
        }  # fmt: skip
        return values | whole if whole else values

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
            check_values(values)
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


def check_values(values: dict[str, Any]) -> None:
    """Raise an error for a text that is not valid Unicode, and for a body with very many values,
    which would take long to check."""
    left = MOST_VALUES
    waiting: list[tuple[str | None, object]] = [(None, values)]
    while waiting:
        param, value = waiting.pop()
        if isinstance(value, str):
            _check_text(value, param)
            continue
        assert isinstance(value, list | dict)
        left -= len(value)
        if left < 0:
            raise ApiError(f"the body has more than {MOST_VALUES:,} values", param=param)
        if isinstance(value, dict):
            if len(value) > MOST_KEYS:
                raise ApiError(f"an object has more than {MOST_KEYS:,} keys", param=param)
            for key, part in value.items():
                _check_text(key, param)
                if isinstance(part, str | list | dict):
                    waiting.append((param or key, part))
        else:
            waiting += [(param, part) for part in value if isinstance(part, str | list | dict)]


def _check_text(text: str, param: str | None) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ApiError(
            "the text contains half of a surrogate pair, which is not valid Unicode; send whole "
            "characters",
            param=param,
        ) from None


def _kind(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
