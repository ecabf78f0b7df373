"""Read pickles without executing them: a pickle names functions to call, and this reader replaces
them by a few safe functions of its own.

An object of an unknown class becomes a `Foreign` with its class name and contents. This way it can
open checkpoints whose vocabularies and options are objects of the tool that saved them, without
trusting the file (`torch.load(weights_only=True)` rejects them).

A few bytes can refer to one object many times, so that hashing, printing or copying it takes
forever. Keys are therefore plain values (or tuples of them), and copies are counted.
"""

import pickle
import struct
from collections.abc import Callable, Mapping, Sized
from io import BytesIO
from typing import Any, ClassVar

from translucid.core.errors import InputError

# Instructions that are rejected: pickles of tensors do not need them, or they access objects
# outside the file.
REFUSED = (
    pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.INST, pickle.OBJ, pickle.PERSID,
    pickle.NEXT_BUFFER, pickle.READONLY_BUFFER, pickle.BYTEARRAY8,
)  # fmt: skip
LARGEST_INT = 128  # bits: a seed has 64
MOST_PARTS = 64  # elements of a tuple used as a key
MOST_COPIES = 1 << 18  # values copied between objects, in addition to one per byte of the file
PLAIN = str | bytes | int | float | None


class Foreign:
    """A stand-in for an object of an unknown class: its class name and contents."""

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
    entries: list[Any]  # elements of a list or dictionary

    def __setitem__(self, key: object, value: object) -> None:
        self.entries.append((key, value))

    def append(self, value: object) -> None:
        self.entries.append(value)

    def extend(self, values: list[object]) -> None:
        self.entries.extend(values)

    def set_state(self, state: object) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.attributes.update({name_of(key): value for key, value in part.items()})
            elif part is not None:
                self.attributes["state"] = part


def name_of(key: object) -> str:
    """A dictionary key as text."""
    return key if isinstance(key, str) else shown(key)


def shown(value: object) -> str:
    """A value as a short text, without following values that contain each other."""
    parts = value if isinstance(value, tuple) and len(value) <= MOST_PARTS else (value,)
    if not all(isinstance(part, PLAIN) for part in parts):
        return f"<{type(value).__name__}>"
    for part in parts:
        if isinstance(part, int) and part.bit_length() > LARGEST_INT:
            raise pickle.UnpicklingError(f"the pickle has an integer of {part.bit_length():,} bits")
    return str(value)[:200]


def _checked_key(key: object) -> None:
    """Raise an error for keys that could take forever to hash, such as tuples that contain
    tuples."""
    parts = key if type(key) is tuple else (key,)
    if len(parts) > MOST_PARTS or not all(isinstance(part, PLAIN | Foreign) for part in parts):
        raise pickle.UnpicklingError(f"the pickle has a key of type {type(key).__name__}")


def _dictionary(values: Any = ()) -> dict[Any, Any]:
    pairs = list(values.items() if isinstance(values, dict) else values)
    for key, _ in pairs:
        _checked_key(key)
    return dict(pairs)


def _default_dictionary(factory: object = None, values: Any = ()) -> dict[Any, Any]:
    return _dictionary(values)


def _set(values: Any = ()) -> set[Any]:
    values = list(values)
    for value in values:
        _checked_key(value)
    return set(values)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")  # how old pickles write bytes


KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _dictionary,
    ("collections", "Counter"): _dictionary,
    ("collections", "defaultdict"): _default_dictionary,
    ("_codecs", "encode"): _encode,
    **{
        (module, name): made
        for module in ("builtins", "__builtin__")
        for name, made in {
            "set": _set, "frozenset": _set, "dict": _dictionary, "list": list, "tuple": tuple,
            "bool": bool, "float": float,
        }.items()
    },
}  # fmt: skip


class InertUnpickler(pickle._Unpickler):
    """Unpickler that executes nothing from the file. It extends Python's pure Python unpickler,
    whose memo a file cannot make huge."""

    def __init__(
        self,
        file: BytesIO,
        known: Mapping[tuple[str, str], Any],
        storage: Callable[[Any], Any] | None = None,
    ) -> None:
        """known: additional functions that a pickle may call, by name. storage: returns the values
        of a tensor."""
        super().__init__(file, encoding="utf-8")
        self._known_names = KNOWN | dict(known)
        self._callable = {id(value) for value in self._known_names.values() if callable(value)}
        self._copied, self._most = 0, MOST_COPIES + file.getbuffer().nbytes
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
            raise pickle.UnpicklingError("the pickle refers to something outside the file")
        return self._storage(identity)

    def _charge(self, *values: object) -> None:
        """Count copied values, since short instructions may copy a long list again and again."""
        self._copied += sum(len(v) for v in values if isinstance(v, Sized))
        if self._copied > self._most:
            raise pickle.UnpicklingError(f"the pickle copies more than {self._most:,} values")

    def _reduce(self) -> None:
        """REDUCE and NEWOBJ: call a known function, or make a `Foreign`."""
        arguments = self.stack.pop()
        function = self.stack[-1]
        known = id(function) in self._callable
        foreign = isinstance(function, type) and issubclass(function, Foreign)
        if type(arguments) is not tuple or not (known or foreign):
            raise pickle.UnpicklingError(f"the pickle calls {type(function).__name__}")
        self._charge(arguments, *arguments)
        self.stack[-1] = function(*arguments)

    def _reduce_with_options(self) -> None:
        self.stack.pop()  # the options, which a `Foreign` ignores
        self._reduce()

    def _build(self) -> None:
        """BUILD: set the state of a `Foreign`. Python's version would set attributes of any
        object."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Foreign):
            self._charge(*(state if isinstance(state, tuple) else (state,)))
            target.set_state(state)
        elif not isinstance(target, dict):  # a dict's attributes are ignored
            raise pickle.UnpicklingError(f"the pickle changes {type(target).__name__}")

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _checked_key(key)
        self.stack[-1][key] = value

    def _set_items(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            _checked_key(key)
            self.stack[-1][key] = value

    def _dict(self) -> None:
        items = self.pop_mark()
        self.append(_dictionary(zip(items[::2], items[1::2], strict=True)))

    def _frozen_set(self) -> None:
        self.append(_set(self.pop_mark()))

    def _add_items(self) -> None:
        items = self.pop_mark()
        if not isinstance(self.stack[-1], set):
            kind = type(self.stack[-1]).__name__
            raise pickle.UnpicklingError(f"the pickle adds items to a {kind} as if it were a set")
        self.stack[-1].update(_set(items))

    def _refuse(self) -> None:
        raise pickle.UnpicklingError("the pickle uses an instruction that checkpoints do not need")

    # Attributes of the base class that this class uses or changes.
    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        **dict.fromkeys((code[0] for code in REFUSED), _refuse),
        pickle.BUILD[0]: _build,
        pickle.REDUCE[0]: _reduce,
        pickle.NEWOBJ[0]: _reduce,
        pickle.NEWOBJ_EX[0]: _reduce_with_options,
        pickle.SETITEM[0]: _set_item,
        pickle.SETITEMS[0]: _set_items,
        pickle.DICT[0]: _dict,
        pickle.FROZENSET[0]: _frozen_set,
        pickle.ADDITEMS[0]: _add_items,
    }


def load_inert(
    file: BytesIO,
    where: str,
    known: Mapping[tuple[str, str], Any] | None = None,
    storage: Callable[[Any], Any] | None = None,
) -> Any:
    """Load one pickle from the current position of the file. where: the file's name, for
    messages."""
    try:
        return InertUnpickler(file, known or {}, storage).load()
    except InputError:
        raise
    except (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RecursionError,
            TypeError, ValueError, pickle.UnpicklingError, struct.error) as error:  # fmt: skip
        raise InputError(
            f"{where} cannot be read as a torch checkpoint ({type(error).__name__}: "
            f"{str(error)[:200]}); save the model as safetensors with the tool that made it"
        ) from None
