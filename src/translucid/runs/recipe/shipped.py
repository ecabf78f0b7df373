"""The recipes that come with the package, by name."""

from dataclasses import dataclass
from pathlib import Path

from translucid.core.errors import InputError, nearest
from translucid.tasks.registry import TASKS

_PACKAGE = Path(__file__).parents[2]
# Within an installed package, or beside `src` in the repository.
FOLDER = next(f for f in (_PACKAGE / "recipes", _PACKAGE.parents[1] / "recipes") if f.is_dir())


@dataclass(frozen=True)
class Entry:
    name: str
    path: Path
    title: str  # the first line of its comment


def entries() -> list[Entry]:
    """All shipped recipes, by name."""
    paths = sorted(FOLDER.glob("*.toml"))
    return [Entry(path.stem, path, header(path.read_text("utf-8"))[0]) for path in paths]


def header(text: str) -> list[str]:
    """The comment at the top of a recipe: what it is, and how to run it."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("#:"):  # a line for editors
            lines.append(line.removeprefix("#").removeprefix(" "))
    return lines or [""]


def find(name: str | Path) -> Path:
    """A recipe file, or the shipped recipe of that name."""
    if Path(name).is_file():
        return Path(name)
    names = [entry.name for entry in entries()]
    if str(name) in names:
        return FOLDER / f"{name}.toml"
    close = nearest(str(name), [*TASKS.names(), *names])
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    tasks = ", ".join(TASKS.names())
    raise InputError(
        f"there is no recipe {name}; {hint}give a TOML file, a task ({tasks}), or a "
        "name that `translucid recipe list` shows"
    )
