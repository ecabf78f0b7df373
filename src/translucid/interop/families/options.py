"""The configuration of a foreign model, key by key: refuses missing keys and wrong types by name,
and remembers which keys were read, so that the others can be refused too."""

from collections.abc import Mapping
from typing import Any

from translucid.core.errors import InputError

MISSING = object()


class Options:
    """A config.json, or the facts of a header. where: its name, for messages."""

    def __init__(self, values: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self._values, self.where, self._prefix = values, where, prefix
        self._read: set[str] = set()
        self._parts: dict[str, Options] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The value as it is in the file; null counts as missing."""
        self._read.add(self._prefix + name)
        value = self._values.get(self._prefix + name)
        return default if value is None else value

    def whole(self, name: str, default: Any = MISSING) -> int:
        value = self._checked(name, default)
        if type(value) is not int or not 0 < value < 1 << 40:
            self._refuse(name, value, "a whole number above 0")
        return value

    def id(self, name: str, default: int) -> int:
        """Of a token."""
        return 0 if self.get(name, default) == 0 else self.whole(name, default)

    def number(self, name: str, default: Any = MISSING) -> float:
        value = self._checked(name, default)
        if type(value) not in (int, float) or not 0 < value < 1e30:
            self._refuse(name, value, "a number above 0")
        return float(value)

    def flag(self, name: str, default: Any = MISSING) -> bool:
        value = self._checked(name, default)
        if type(value) is not bool:
            self._refuse(name, value, "true or false")
        return bool(value)

    def text(self, name: str, default: Any = MISSING) -> str:
        value = self._checked(name, default)
        if type(value) is not str:
            self._refuse(name, value, "a text")
        return str(value)

    def part(self, name: str) -> "Options":
        """Options inside of options; none where there are none."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            self._refuse(name, value, "an object")
        return self._parts.setdefault(name, Options(value, f"{self.where}: {name}"))

    def has(self, name: str) -> bool:
        """Whether the file names a key, if only as null."""
        return self._prefix + name in self._values

    def ignore(self, *names: str) -> None:
        """Count keys as read: they do not change what this model computes."""
        self._read.update(self._prefix + name for name in names)

    def unread(self) -> dict[str, Any]:
        """Keys that have a value and were never asked for; those of a part as `part.key`."""
        unread = {
            key: value
            for key, value in self._values.items()
            if key not in self._read and value is not None
        }
        for name, part in self._parts.items():
            unread |= {f"{name}.{key}": value for key, value in part.unread().items()}
        return unread

    def must_be(self, name: str, allowed: object, meaning: str) -> None:
        """Refuse a model that computes something which no option of ours says."""
        value = self.get(name, allowed)
        if value != allowed:
            raise InputError(
                f"{self.where}: {name} = {str(value)[:100]!r} ({meaning}) cannot be computed here; "
                f"{allowed!r} can"
            )

    def choice(self, name: str, names: Mapping[str, str], default: Any = MISSING) -> str:
        """One of our names, by one of theirs."""
        value = self.text(name, default)
        if value not in names:
            self._refuse(name, value, "one of " + ", ".join(names))
        return names[value]

    def _checked(self, name: str, default: Any) -> Any:
        value = self.get(name, default)
        if value is MISSING:
            raise InputError(
                f"{self.where}: {self._prefix}{name} is missing, without which the model cannot be "
                "built; copy the file again, whole"
            )
        return value

    def _refuse(self, name: str, value: object, wanted: str) -> None:
        raise InputError(
            f"{self.where}: {self._prefix}{name} = {str(value)[:100]!r}, but {wanted} is wanted"
        )


ACTIVATIONS = {  # of a plain feed-forward layer, by the names that transformers has for them
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "silu": "silu", "swish": "silu", "tanh": "tanh",
    "quick_gelu": "quick_gelu", "relu2": "relu_squared",
}  # fmt: skip
GATED = {  # of a gated one
    "silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "gelu_new": "geglu_tanh",
    "gelu_pytorch_tanh": "geglu_tanh", "gelu_fast": "geglu_tanh",
}  # fmt: skip


def name_of(activation: str, names: Mapping[str, str]) -> str:
    """The first of their names for one of ours; where they have none, their first name of all."""
    return next((theirs for theirs, ours in names.items() if ours == activation), next(iter(names)))
