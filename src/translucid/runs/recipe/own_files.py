"""The files of a run: where they are now, and whether they are still what it was trained on.

Relative names belong to the folder in which the run was started. The run keeps that folder and a
fingerprint of each file in files.json, so that a resume or an evaluation from elsewhere finds the
same files, and never a file that only has the same name.
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
    """What a run noted of its files when it was started."""

    folder: str = ""  # in which it was started; empty: not known
    files: Mapping[str, str] = field(default_factory=dict)  # name in the recipe: fingerprint

    def save(self, run: Path) -> None:
        write_text(run / FILES, json.dumps(asdict(self), indent=2) + "\n")


def own_files(run: Path) -> OwnFiles:
    """From files.json; for a run without it, from its newest checkpoint."""
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
    """SHA-256 of a file, or of all files of a folder."""
    if path.is_dir():
        return hashlib.sha256(str(sorted(digests(path).items())).encode()).hexdigest()
    return digest_of(path)


def reachable(chosen: Recipe, names: Sequence[str], run: Path) -> Recipe:
    """The recipe of a run with the folder in which these of its files are now. Where several
    folders hold files of these names, those with the run's fingerprints are taken."""
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
    """The same where the files must be those that the run was trained on."""
    noted = own_files(run)
    if missing := [name for name in names if name not in noted.files]:
        say(
            f"{run} holds no fingerprint of {', '.join(missing)}: it was not checked whether the "
            "file changed since training"
        )
    now = reachable(chosen, names, run)
    if wrong := changed(Path(now.data.folder), names, noted):
        paths = now.data.paths(tuple(names))
        again = shlex.join(["translucid", "evaluate", str(run), *paths])
        before = next(_places(chosen, noted, run)) / wrong[0]
        raise InputError(
            f"{now.data.paths((wrong[0],))[0]}: its content is not that of {before} when {run} "
            "was trained, so a score on it cannot be compared with that of the run. Restore the "
            f"file, or score it as it is now: {again}"
        )
    return now


def changed(folder: Path, names: Sequence[str], noted: OwnFiles) -> list[str]:
    """Which of these files have another fingerprint than the run noted."""
    return [
        name
        for name in names
        if name in noted.files and fingerprint_of_file(folder / name) != noted.files[name]
    ]


def _places(chosen: Recipe, noted: OwnFiles, run: Path) -> Iterator[Path]:
    """Folders that may hold the files: where the run was started, this one, and, for a project that
    was moved whole, those around the run folder; there a fingerprint must agree."""
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
    started = f", since the run was started in {noted.folder}" if noted.folder else ""
    return (
        f"{missing}: no such file; {run} needs it and looked for {place / missing}{started}, then "
        "in this folder and in those around the run folder; move it back, or give a file"
    )
