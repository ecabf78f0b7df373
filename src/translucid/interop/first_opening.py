"""The first opening of a folder in Hugging Face's layout compares the model with transformers where
it is installed; the result is stored, so that later openings cost nothing.

TRANSLUCID_VERIFY=off turns it off. The result is stored in the user's cache folder
(XDG_CACHE_HOME, or ~/.cache) under the fingerprint of the folder's files.
"""

import hashlib
import json
import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from translucid._version import __version__
from translucid.core.atomic_files import write_text
from translucid.core.errors import TranslucidError
from translucid.core.untrusted_files import entries, read_object
from translucid.tasks.model_folder import Bundle

VARIABLE = "TRANSLUCID_VERIFY"
OFF = ("off", "0", "no", "false")
MOST_BYTES = 300 << 20  # of weights; above that it would take too long
WHOLE = 4 << 20  # bytes of a file whose contents are part of the fingerprint
TEXTS = 2


def compared(folder: Path, held: Bundle) -> str | None:
    """A note for the user, None: transformers is not installed or the comparison is turned off.
    A difference is an InputError."""
    try:
        library = version("transformers")
    except PackageNotFoundError:
        return None
    if os.environ.get(VARIABLE, "").lower() in OFF:
        return None
    remedy = f"compare it with: translucid import {folder} OUT --verify"
    size = sum(parameter.nbytes for parameter in held.network.parameters())
    if size > MOST_BYTES:
        return f"not compared with transformers: {size / 1e6:,.0f} MB of weights; {remedy}"
    file = _cache() / f"{_fingerprint(folder, library)}.json"
    with suppress(TranslucidError):
        note = read_object(file).get("note")
        if isinstance(note, str):
            return note
    from translucid.interop.answers import TEXTS as SAMPLES
    from translucid.interop.answers import NotCompared, compare_answers

    try:
        note = "; ".join(compare_answers(folder, held, SAMPLES[:TEXTS]))
    except NotCompared as reason:
        note = f"not compared with transformers: {reason}; {remedy}"
    except TranslucidError:
        raise
    except Exception as error:  # of the other library: opening must not fail because of it
        note = f"not compared with transformers, which fails ({str(error)[:200]}); {remedy}"
    with suppress(TranslucidError, OSError):  # a cache that cannot be written is no fault
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"note": note, "folder": str(folder)}) + "\n")
    return note


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "translucid" / "compared"


def _fingerprint(folder: Path, library: str) -> str:
    """Of small files the contents, of others the size and the time of the last change."""
    made = hashlib.sha256(f"{__version__} {library}".encode())
    for entry in sorted(entries(folder), key=lambda entry: entry.path):
        status = entry.stat()
        made.update(f"\0{Path(entry.path).relative_to(folder)}\0{status.st_size}\0".encode())
        if not entry.is_file():
            continue
        if status.st_size > WHOLE:
            made.update(str(status.st_mtime_ns).encode())
        else:
            made.update(Path(entry.path).read_bytes())
    return made.hexdigest()[:32]
