"""Find the data files of a run again, and check that they have not changed.

files.json stores the folder in which the run was started, for relative names, and a fingerprint of
each file, so that a resume or an evaluation from elsewhere uses the same files.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from translucid.core.atomic_files import digest_of, digests, write_text
from translucid.core.errors import InputError
from translucid.core.untrusted_files import read_object
from translucid.runs.recipe.recipe import Recipe

FILES = "files.json"


@dataclass(frozen=True)
class OwnFiles:
    """The contents of files.json."""

    folder: str = ""  # where the run was started; empty: unknown
    files: Mapping[str, str] = field(default_factory=dict)  # fingerprint by name in the recipe

    def save(self, run: Path) -> None:
        write_text(run / FILES, json.dumps(asdict(self), indent=2) + "\n")


def own_files(run: Path) -> OwnFiles:
    """Read files.json or, if a run has none, the newest checkpoint."""
    noted: Any = None
    if (run / FILES).is_file():
        noted = read_object(run / FILES)
    elif checkpoints := sorted(run.glob("state/step-*/state.json")):
        noted = read_object(checkpoints[-1]).get("fingerprint")
    folder, files = (
        noted.get(key) if isinstance(noted, dict) else None for key in ("folder", "files")
    )
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        files = {}
    return OwnFiles(folder if isinstance(folder, str) else "", files)


def fingerprint_of_file(path: Path) -> str:
    """SHA-256 of a file, or of all files in a folder."""
    if path.is_dir():
        return hashlib.sha256(str(sorted(digests(path).items())).encode()).hexdigest()
    return digest_of(path)


def reachable(chosen: Recipe, names: Sequence[str], run: Path) -> Recipe:
    """The recipe of a run, with data.folder set to the folder in which these files are now. If
    several folders contain files of these names, prefer those with the run's fingerprints."""
    noted = own_files(run)
    places = [place for place in _places(chosen, noted, run) if _there(place, names)]
    if not places:
        raise InputError(_where_looked(chosen, names, noted, run))
    same = places
    if len({_resolved(place, names) for place in places}) > 1:
        same = [place for place in places if not changed(place, names, noted)] or places
    if _resolved(same[0], names) == _resolved(Path(chosen.data.folder), names):
        return chosen
    data = chosen.data.model_copy(update={"folder": str(same[0])})
    return chosen.model_copy(update={"data": data})


def unchanged(
    chosen: Recipe, names: Sequence[str], run: Path, say: Callable[[str], None]
) -> Recipe:
    """The same as `reachable`, but raise an error if a file has changed since training."""
    noted = own_files(run)
    if missing := [name for name in names if name not in noted.files]:
        say(
            f"{run} contains no fingerprint of {', '.join(missing)}, so changes since training "
            "cannot be detected"
        )
    now = reachable(chosen, names, run)
    if wrong := changed(Path(now.data.folder), names, noted):
        paths = now.data.paths(tuple(names))
        again = shlex.join(["translucid", "evaluate", str(run), *paths])
        before = next(_places(chosen, noted, run)) / wrong[0]
        raise InputError(
            f"{now.data.paths((wrong[0],))[0]} has changed since {run} was trained (the original "
            f"was {before}), so scores on it cannot be compared with those of the run. Restore the "
            f"file, or score the model on it as it is now: {again}"
        )
    return now


def changed(folder: Path, names: Sequence[str], noted: OwnFiles) -> list[str]:
    """The files whose fingerprints have changed."""
    return [
        name
        for name in names
        if name in noted.files and fingerprint_of_file(folder / name) != noted.files[name]
    ]


def _places(chosen: Recipe, noted: OwnFiles, run: Path) -> Iterator[Path]:
    """Folders that may contain the files: the one in which the run was started, the current one
    and, if there are fingerprints to check, the parents of the run folder, since the project may
    have been moved."""
    data = chosen.data.folder
    if noted.folder:
        yield Path(noted.folder, data)
    yield Path(data)
    if noted.files:
        for parent in (run.resolve(), *run.resolve().parents):
            yield Path(parent, data)


def _there(place: Path, names: Sequence[str]) -> bool:
    return all((place / name).exists() for name in names)


def _resolved(place: Path, names: Sequence[str]) -> tuple[Path, ...]:
    return tuple((place / name).resolve() for name in names)


def _where_looked(chosen: Recipe, names: Sequence[str], noted: OwnFiles, run: Path) -> str:
    place = next(_places(chosen, noted, run))
    missing = next(name for name in names if not (place / name).exists())
    started = f" (the run was started in {noted.folder})" if noted.folder else ""
    return (
        f"{missing}: no such file; {run} needs it. Translucid looked for {place / missing}{started}"
        ", then in this folder and in the parents of the run folder; move the file back, or pass "
        "a file"
    )
