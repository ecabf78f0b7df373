"""Configuration: frozen, strict, and explained.

Every configuration is a pydantic model that stands beside what it configures and derives from
`Config`. A mistake becomes one ConfigError that lists all mistakes: the key, what was given,
what is allowed, and the nearest valid name.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from translucid.errors import ConfigError, nearest


class Config(BaseModel):
    """The base of every configuration: no unknown keys, no silent conversion, no change later."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(explain(error, type(self))) from None


def explain(error: ValidationError, config: type[BaseModel]) -> str:
    """All mistakes of a configuration, one per line."""
    lines = [_explain_one(detail, config) for detail in error.errors()]
    if len(lines) == 1:
        return lines[0]
    return f"{len(lines)} mistakes in {config.__name__}:\n" + "\n".join(
        f"  {line}" for line in lines
    )


def _explain_one(detail: Any, config: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        close = nearest(key, config.model_fields)
        hint = (
            f"did you mean {close[0]}?"
            if close
            else "the keys are " + ", ".join(config.model_fields)
        )
        return f"{key}: no such key; {hint}"
    if detail["type"] == "missing":
        return f"{key}: must be given"
    if not key:  # a rule over several keys names them itself
        return str(message)
    return f"{key} = {detail['input']!r}: {message[:1].lower()}{message[1:]}"
