"""Build a token store, or reuse the one on disk.

Shards are written into a folder of their own and flushed to disk before the manifest names it, so a
process that dies leaves the old store or none. The next build removes what it left.
"""

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from translucid.core.atomic_files import flush
from translucid.core.errors import ConfigError, InputError
from translucid.data.corpus.encode import (
    TOKENIZER,
    EncodingSettings,
    Scanned,
    Shard,
    Unit,
    cut,
    digest_of,
)
from translucid.data.corpus.token_store import (
    MANIFEST,
    InputFile,
    Making,
    Manifest,
    ShardFile,
    Store,
    is_ours,
    open_store,
    write_manifest,
)
from translucid.data.corpus.workers import encode_jobs
from translucid.data.readers.lines import DEFAULT, LineRule
from translucid.data.readers.loading import Loading
from translucid.data.readers.tables import format_of
from translucid.data.tokenizers.tokenizer import Tokenizer

Progress = Callable[[int, int], None]  # bytes of the files done, and in all
Say = Callable[[str], None]
_SHARD = 32 << 20  # bytes of text: small enough that all processes end at about the same time
_MOST_SHARDS = 256  # each is an open file


@dataclass(frozen=True)
class StorePlan:
    """What is to be built."""

    files: tuple[str, ...]
    tokenizer: Tokenizer
    folder: Path
    unit: Unit
    rule: LineRule
    processes: int
    shard_bytes: int
    total: int  # bytes of the files
    progress: Progress

    def report(self, done: int) -> None:
        self.progress(done, self.total)

    @property
    def making(self) -> Making:
        return Making(
            tokenizer=self.tokenizer.fingerprint,
            unit=self.unit,
            max_line_bytes=self.rule.max_bytes,
            too_long=self.rule.too_long,
            max_text_bytes=self.tokenizer.max_bytes,
        )


def build_store(
    files: Sequence[str | Path],
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    unit: Unit = "line",
    rule: LineRule = DEFAULT,
    processes: int | None = None,
    shard_bytes: int | None = None,
    progress: Progress | None = None,
) -> Store:
    """Text files into a store that takes the place of one that may be in the folder.

    The tokens depend on neither `processes` (not given: one for each core) nor `shard_bytes`, the
    text that goes into one shard. A packed file is read by one process.
    """
    plan = plan_store(files, tokenizer, folder, unit, rule, processes, shard_bytes, progress)
    with locked(plan.folder, lambda line: None):
        return build_plan(plan)


def plan_store(
    files: Sequence[str | Path],
    tokenizer: Tokenizer,
    folder: str | Path,
    unit: Unit,
    rule: LineRule,
    processes: int | None,
    shard_bytes: int | None,
    progress: Progress | None,
) -> StorePlan:
    if not files:
        raise ConfigError("there is no file to build a store from; give at least one")
    if (processes is not None and processes < 1) or (shard_bytes is not None and shard_bytes < 1):
        raise ConfigError(
            f"processes = {processes}, shard_bytes = {shard_bytes}: each must be at least 1"
        )
    paths = tuple(str(file) for file in files)
    for path in paths:
        if (form := format_of(path, "text")) != "text":
            raise InputError(
                f"{path}: is {form} by its name, but a store is made of plain text; write the "
                "texts into a file, one a line"
            )
    total = sum(os.stat(path).st_size for path in paths if os.path.exists(path))
    shard_bytes = shard_bytes or max(_SHARD, -(-total // _MOST_SHARDS))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    most = max(1, -(-total // shard_bytes))
    return StorePlan(
        files=paths,
        tokenizer=tokenizer,
        folder=Path(folder),
        unit=unit,
        rule=rule,
        processes=min(processes or cores or 1, most),
        shard_bytes=shard_bytes,
        total=total,
        progress=progress or (lambda done, total: None),
    )


@contextmanager
def locked(folder: Path, say: Say) -> Iterator[None]:
    """One builder at a time. The lock is on the folder itself and ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder}: cannot hold a store ({error.strerror})") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that builds {folder}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def build_plan(plan: StorePlan) -> Store:
    folder = plan.folder
    _remove_leftovers(folder)
    build = folder / f"build-{secrets.token_hex(4)}"
    settings = EncodingSettings(
        folder=build,
        unit=plan.unit,
        rule=plan.rule,
        dtype="<u2" if len(plan.tokenizer) <= 1 << 16 else "<u4",
        max_bytes=plan.tokenizer.max_bytes,
        eos=plan.tokenizer.eos_id,
    )
    scanned: list[Scanned] = []
    try:
        build.mkdir()
        plan.tokenizer.save(build / TOKENIZER)
        jobs = cut(plan.files, plan.unit, plan.shard_bytes, scanned)
        shards = encode_jobs(jobs, settings, plan.tokenizer, plan.processes, plan.report)
        manifest = _manifest(plan, settings, scanned, shards)
        flush(build)
        write_manifest(folder, manifest)
    except OSError as error:
        shutil.rmtree(build, ignore_errors=True)
        raise InputError(
            f"{folder}: writing the store failed ({error}); it takes up to twice the size of the "
            "text: free some space, or choose another folder"
        ) from None
    except BaseException:
        shutil.rmtree(build, ignore_errors=True)
        raise
    _remove_leftovers(folder)  # the store before this one
    return open_store(folder)


def _remove_leftovers(folder: Path) -> None:
    """All that no manifest names, if everything there is a store's."""
    names = sorted(os.listdir(folder))
    strange = [name for name in names if not is_ours(name)]
    if strange:
        raise InputError(
            f"{folder}: holds {strange[0]}, which is no part of a store; choose an empty folder"
        )
    try:
        current = open_store(folder).manifest.build
    except InputError:
        current = ""  # none, or damaged beyond use
    for name in names:
        if name.startswith("build-") and name != current:
            shutil.rmtree(folder / name)


def _manifest(
    plan: StorePlan, settings: EncodingSettings, scanned: list[Scanned], shards: list[Shard]
) -> Manifest:
    loadings = [Loading(path) for path in plan.files]
    for shard in shards:
        for number, part in shard.loading.items():
            loadings[number].add(part)
    tokens = sum(shard.tokens for shard in shards)
    if not tokens:
        raise InputError(f"{' + '.join(plan.files)}: no usable record")
    return Manifest(
        build=settings.folder.name,
        dtype=settings.dtype,
        tokens=tokens,
        documents=sum(shard.documents for shard in shards),
        characters=sum(shard.characters for shard in shards),
        making=plan.making,
        inputs=tuple(
            InputFile(
                size=file.size,
                mtime_ns=file.mtime_ns,
                sha256=file.sha256,
                records=loading.records,
                left_out=loading.left_out,
                first=loading.first,
            )
            for file, loading in zip(scanned, loadings, strict=True)
        ),
        shards=tuple(ShardFile(tokens=shard.tokens, sha256=shard.sha256) for shard in shards),
    )


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


def _build_and_say(plan: StorePlan, say: Say) -> Store:
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


def _reusable(
    plan: StorePlan, by: Literal["time", "content", "thorough"]
) -> tuple[Store | None, str]:
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
