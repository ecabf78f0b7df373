"""Pickles without their programs: a pickle says which functions to call, and this reader calls none
but a handful of its own.

An object of a class that is not known here becomes a `Foreign`: its name and what was written about
it. That opens checkpoints whose vocabularies and options are objects of the tool that saved them,
and there is nothing to trust.
"""

import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import IO, Any, ClassVar

from translucid.errors import InputError

# Not offered by pickles of tensors, and ways to reach something that is not written in the file.
REFUSED = (
    pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.INST, pickle.OBJ, pickle.PERSID,
    pickle.NEXT_BUFFER, pickle.READONLY_BUFFER, pickle.BYTEARRAY8,
)  # fmt: skip


class Foreign:
    """What was written about an object of a class that is not known here."""

    class_name = "?"

    def __new__(cls, *arguments: object, **options: object) -> "Foreign":
        made = object.__new__(cls)
        object.__setattr__(made, "arguments", arguments)
        object.__setattr__(made, "attributes", {})
        object.__setattr__(made, "entries", [])
        return made

    def __init__(self, *arguments: object, **options: object) -> None:
        pass

    arguments: tuple[object, ...]
    attributes: dict[str, Any]
    entries: list[Any]  # of something like a list or a dictionary

    def __setitem__(self, key: object, value: object) -> None:
        self.entries.append((key, value))

    def append(self, value: object) -> None:
        self.entries.append(value)

    def extend(self, values: list[object]) -> None:
        self.entries.extend(values)

    def set_state(self, state: object) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.attributes.update({str(key): value for key, value in part.items()})
            elif part is not None:
                self.attributes["state"] = part


def _as_dictionary(values: Any = ()) -> dict[Any, Any]:
    return dict(values)


def _default_dictionary(factory: object = None, values: Any = ()) -> dict[Any, Any]:
    return dict(values)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")  # how old pickles write bytes


KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): _as_dictionary,
    ("collections", "defaultdict"): _default_dictionary,
    ("_codecs", "encode"): _encode,
    **{
        (module, kind.__name__): kind
        for module in ("builtins", "__builtin__")
        for kind in (set, frozenset, list, dict, tuple, bool, float)
    },
}


class InertUnpickler(pickle._Unpickler):
    """The reader in Python, whose table of remembered objects no file can make huge."""

    def __init__(
        self,
        file: IO[bytes],
        known: Mapping[tuple[str, str], Any],
        storage: Callable[[Any], Any] | None = None,
    ) -> None:
        """known: what else may be named; storage: what stands for a tensor's values."""
        super().__init__(file, encoding="utf-8")
        self._known_names = KNOWN | dict(known)
        self._storage = storage
        self._classes: dict[tuple[str, str], type[Foreign]] = {}

    def find_class(self, module: str, name: str) -> Any:
        place = (module, name)
        if place in self._known_names:
            return self._known_names[place]
        if place not in self._classes:
            self._classes[place] = type(
                "Foreign", (Foreign,), {"class_name": f"{module}.{name}"[:200]}
            )
        return self._classes[place]

    def persistent_load(self, identity: Any) -> Any:
        if self._storage is None:
            raise pickle.UnpicklingError("it names something outside of itself")
        return self._storage(identity)

    def _build(self) -> None:
        """BUILD: the usual one would set attributes of whatever stands there."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Foreign):
            target.set_state(state)
        elif not isinstance(target, OrderedDict):  # whose attributes are of no use here
            raise pickle.UnpicklingError(f"it changes {type(target).__name__}")

    def _refuse(self) -> None:
        raise pickle.UnpicklingError("it uses an instruction that no checkpoint needs")

    # The instructions and what carries them out, as the base class has them.
    stack: list[Any]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        **dict.fromkeys((code[0] for code in REFUSED), _refuse),
        pickle.BUILD[0]: _build,
    }


def load_inert(
    file: IO[bytes],
    where: str,
    known: Mapping[tuple[str, str], Any] | None = None,
    storage: Callable[[Any], Any] | None = None,
) -> Any:
    """What one pickle holds, from where the file stands; where: for the message."""
    try:
        return InertUnpickler(file, known or {}, storage).load()
    except InputError:
        raise
    except (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RecursionError,
            TypeError, ValueError, pickle.UnpicklingError, struct.error) as error:  # fmt: skip
        raise InputError(
            f"{where} cannot be read as a checkpoint of torch ({type(error).__name__}: "
            f"{str(error)[:200]}); save the model as safetensors with the tool that made it"
        ) from None
