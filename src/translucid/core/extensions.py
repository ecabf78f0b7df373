"""Load users' Python files, which register a task or a position scheme.

A file is loaded only if the user names it with `--code` or imports it. A model folder stores the
names of the files that define its task and positions, so that an error can ask for them; opening a
folder never loads such a file.

An error in such a file is reported with file name and line, like an error in a data file.
"""

import hashlib
import importlib.util
import sys
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError, TranslucidError
from translucid.core.registry import Registry

_LOADED: dict[Path, str] = {}  # SHA-256 of each loaded user file


class ChangedCode(UserWarning):
    """Warning that the code of a model has changed since training."""


def load(file: str | Path) -> Path:
    """Run a user's Python file once, so that it registers its classes."""
    path = Path(file).resolve()
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            f"--code {file}: no such Python file; pass the file that registers your task "
            "or positions, such as my_task.py"
        )
    if path in _LOADED:
        return path
    module = _module_name(path)
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded  # before it runs: dataclasses look themselves up there
    _LOADED[path] = hashlib.sha256(path.read_bytes()).hexdigest()
    sys.path.insert(0, str(path.parent))  # so that it can import its neighbours, as a script can
    try:
        spec.loader.exec_module(loaded)
    except BaseException as error:
        message = None if isinstance(error, TranslucidError) else explain(error)
        del sys.modules[module], _LOADED[path]
        if message is None:
            raise
        raise InputError(message) from error
    finally:
        sys.path.remove(str(path.parent))
    return path


def _module_name(path: Path) -> str:
    """A module name for the file: the file name without its extension, followed by a hash if a
    module of that name is already loaded."""
    return path.stem if path.stem not in sys.modules else f"{path.stem}_{abs(hash(path))}"


def explain(error: BaseException) -> str | None:
    """The message for an error raised in a user's file, such as `my_task.py:42 in encode: KeyError:
    'x'`; None for other errors."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").resolve() in _LOADED:
        line = (error.text or "").strip()
        return f"{Path(str(error.filename)).name}:{error.lineno}: {error.msg}: {line}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() in _LOADED
    ]
    if not frames or isinstance(error, KeyboardInterrupt | SystemExit):
        return None
    deepest = frames[-1]
    place = f"{Path(deepest.filename).name}:{deepest.lineno}"
    if deepest.name != "<module>":
        place += f" in {deepest.name}"
    return f"{place}: {type(error).__name__}: {error}"


@dataclass(frozen=True)
class Used:
    """A user's file that a model needs, as stored in the model folder."""

    what: str  # task or position
    name: str
    file: str
    sha256: str


def used(names: Iterable[tuple[Registry[Any], str]]) -> list[Used]:
    """The user files that define these names; built-in names have none."""
    sources = [(name, registry, registry.source(name)) for registry, name in names]
    return [
        Used(registry.noun, name, source.file, source.sha256)
        for name, registry, source in sources
        if source is not None
    ]


def require(noted: Any, registries: Iterable[Registry[Any]], where: str | Path) -> None:
    """Raise an error if a model's code is not loaded; warn if it has changed since training."""
    known = {registry.noun: registry for registry in registries}
    parts = {"what", "name", "file", "sha256"}
    for entry in noted if isinstance(noted, list | tuple) else [noted]:
        texts = isinstance(entry, dict) and all(isinstance(entry.get(part), str) for part in parts)
        if not texts or entry["what"] not in known:
            raise InputError(
                f"{where}: its list of code files contains {str(entry)[:80]!r}, not an object "
                f"with {', '.join(sorted(parts))}"
            )
        registry = known[entry["what"]]
        try:
            source = registry.source(entry["name"])
        except TranslucidError:
            raise InputError(
                f"{where}: its {entry['what']} {entry['name']!r} is defined in {entry['file']}, "
                f"which is not loaded automatically; pass --code {entry['file']}, or in Python "
                "import it first"
            ) from None
        if source is not None and source.sha256 != entry["sha256"]:
            warnings.warn(
                f"{where}: {entry['file']} has changed since training: a different {source.file} "
                f"is loaded (SHA-256 {entry['sha256'][:12]}, now {source.sha256[:12]})",
                ChangedCode,
                stacklevel=2,
            )
