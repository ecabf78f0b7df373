"""A token store that is there when it is needed: the one that is there already, or a new one."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from translucid.core.errors import InputError
from translucid.data.corpus.build import Plan, Progress, Say, build_plan, locked, plan_store
from translucid.data.corpus.scan import Unit, digest_of
from translucid.data.corpus.token_store import MANIFEST, Store, open_store, write_manifest
from translucid.data.readers.lines import DEFAULT, LineRule
from translucid.data.tokenizers.tokenizer import Tokenizer


def ensure_store(
    files: Sequence[str | Path],
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    unit: Unit = "line",
    rule: LineRule = DEFAULT,
    processes: int | None = None,
    shard_bytes: int | None = None,
    progress: Progress | None = None,
    thorough: bool = False,
    say: Say = lambda line: None,
) -> Store:
    """The store in the folder if it was made from these files by this tokenizer; else a new one.

    A file of the same size and time counts as the same; one of another time is compared by its
    digest. With `thorough`, digests of all files and shards are compared whatever their time.
    """
    plan = plan_store(files, tokenizer, folder, unit, rule, processes, shard_bytes, progress)
    # Most of the time nothing has changed, and nothing has to be locked.
    store, why = (None, "") if thorough else _reusable(plan, "time")
    if store is None:
        with locked(plan.folder, say):
            store, why = _reusable(plan, "thorough" if thorough else "content")
            if store is None:
                if why:
                    say(f"building {plan.folder} again: {why}")
                return _build_and_say(plan, say)
    say(f"reused {plan.folder}: {len(store):,} tokens of {store.documents:,} documents")
    return store


def _build_and_say(plan: Plan, say: Say) -> Store:
    began = time.monotonic()
    store = build_plan(plan)
    seconds = max(time.monotonic() - began, 1e-9)
    say(
        f"built {plan.folder}: {len(store):,} tokens of {store.documents:,} documents in "
        f"{seconds:,.1f} s, {len(store) / seconds / 1e6:.2f} M tokens/s, "
        f"{plan.total / seconds / 1e6:.1f} MB/s, "
        f"{plan.processes} process{'' if plan.processes == 1 else 'es'}"
    )
    return store


def _reusable(plan: Plan, by: Literal["time", "content", "thorough"]) -> tuple[Store | None, str]:
    """The store in the folder, or why it cannot be used (nothing, if there is none).

    By content, a file of another time is read for its digest; so that nobody has to do it again,
    the time is written down. That is done under the lock only.
    """
    if not (plan.folder / MANIFEST).exists():
        return None, ""
    try:
        store = open_store(plan.folder, verify=by == "thorough")
    except InputError as error:
        return None, str(error)
    old, making = store.manifest, plan.making
    if old.making.tokenizer != making.tokenizer:
        known, wanted = old.making.tokenizer[:12], making.tokenizer[:12]
        return None, f"it was made by another tokenizer ({known}, now {wanted})"
    if old.making != making:
        before, now = old.making.model_dump(), making.model_dump()
        changed = [name for name in now if before[name] != now[name]]
        return None, f"it was made with another {', '.join(changed)}"
    if len(old.inputs) != len(plan.files):
        return None, f"it was made from {len(old.inputs)} files, now {len(plan.files)}"
    fresh = []
    for path, known_file in zip(plan.files, old.inputs, strict=True):
        try:
            stat = os.stat(path)
        except OSError as error:
            return None, f"{path}: {error.strerror}"
        same = stat.st_size == known_file.size
        if by == "thorough" or (by == "content" and stat.st_mtime_ns != known_file.mtime_ns):
            same = same and digest_of(path) == known_file.sha256
        elif stat.st_mtime_ns != known_file.mtime_ns:
            same = False
        if not same:
            return None, f"{path} has changed"
        fresh.append(known_file.model_copy(update={"mtime_ns": stat.st_mtime_ns}))
    if tuple(fresh) != old.inputs and os.access(plan.folder, os.W_OK):
        write_manifest(plan.folder, old.model_copy(update={"inputs": tuple(fresh)}))
        store = open_store(plan.folder)
    return store, ""
