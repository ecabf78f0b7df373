"""Build a token store, or reuse the one on disk.

Shards are written to a new folder and flushed to disk before the manifest names that folder, so a
process that dies leaves the old store, or none. The next build removes the unfinished files.
"""

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from translucid.core.atomic_files import digest_of, flush
from translucid.core.errors import ConfigError, InputError
from translucid.data.corpus.encode import (
    TOKENIZER,
    EncodingSettings,
    Scanned,
    Shard,
    Unit,
    cut,
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

Progress = Callable[[int, int], None]  # called with (bytes processed so far, total bytes)
Say = Callable[[str], None]
_SHARD = 32 << 20  # bytes of text, small enough that all processes end at about the same time
_MOST_SHARDS = 256  # maximum number of shards, since each is an open file


@dataclass(frozen=True)
class StorePlan:
    """A store to build from text files.

    The tokens in the store do not depend on `processes` (default: one per core) or on
    `shard_bytes`, the size of the text of one shard. A compressed file is read by a single process.
    """

    files: Sequence[str | Path]
    tokenizer: Tokenizer
    folder: str | Path
    unit: Unit = "line"
    rule: LineRule = DEFAULT
    processes: int | None = None
    shard_bytes: int | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if not self.files:
            raise ConfigError("no files to build a store from; pass at least one")
        if any(number is not None and number < 1 for number in (self.processes, self.shard_bytes)):
            raise ConfigError(
                f"processes = {self.processes}, shard_bytes = {self.shard_bytes}: each must be at "
                "least 1"
            )
        for path in self.paths:
            if (kind := format_of(path, "text")) != "text":
                raise InputError(
                    f"{path} has the extension of a {kind} file, but a store is built from plain "
                    "text; write the texts to a text file, one per line"
                )

    @property
    def paths(self) -> list[str]:
        return [str(file) for file in self.files]

    @cached_property
    def total(self) -> int:
        """The total size of the files in bytes."""
        return sum(os.stat(path).st_size for path in self.paths if os.path.exists(path))

    @property
    def job_bytes(self) -> int:
        return self.shard_bytes or max(_SHARD, -(-self.total // _MOST_SHARDS))

    @property
    def workers(self) -> int:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return min(self.processes or cores or 1, max(1, -(-self.total // self.job_bytes)))

    @property
    def making(self) -> Making:
        return Making(
            tokenizer=self.tokenizer.fingerprint,
            unit=self.unit,
            max_line_bytes=self.rule.max_bytes,
            too_long=self.rule.too_long,
            max_text_bytes=self.tokenizer.max_bytes,
        )

    def report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.total)


def ensure_store(plan: StorePlan, say: Say = lambda line: None) -> Store:
    """Open the store in the folder if it was built from these files with this tokenizer; otherwise
    build it.

    A file with the same size and modification time counts as unchanged. If only the time differs,
    the file's digest is compared.
    """
    folder = plan.folder
    # Usually nothing has changed, and no lock is needed.
    store, why = _reusable(plan, by_digest=False)
    if store is None:
        with locked(Path(folder), say):
            store, why = _reusable(plan, by_digest=True)
            if store is None:
                if why:
                    say(f"rebuilding {folder}: {why}")
                began = time.monotonic()
                store = build_store(plan)
                seconds = max(time.monotonic() - began, 1e-9)
                say(
                    f"built {folder}: {len(store):,} tokens from {store.documents:,} documents in "
                    f"{seconds:,.1f} s, {len(store) / seconds / 1e6:.2f} M tokens/s, "
                    f"{plan.total / seconds / 1e6:.1f} MB/s, "
                    f"{plan.workers} process{'' if plan.workers == 1 else 'es'}"
                )
                return store
    say(f"reused {folder}: {len(store):,} tokens from {store.documents:,} documents")
    return store


@contextmanager
def locked(folder: Path, say: Say) -> Iterator[None]:
    """Allow only one process at a time to build a store in this folder. The lock is on the folder
    itself and ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(
            f"{folder} cannot contain a store ({error.strerror}); choose a different folder"
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that is building {folder}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def build_store(plan: StorePlan) -> Store:
    """Build the store in its folder, which the caller has locked. An old store is replaced."""
    folder = Path(plan.folder)
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
        jobs = cut(plan.paths, plan.unit, plan.job_bytes, scanned)
        shards = encode_jobs(jobs, settings, plan.tokenizer, plan.workers, plan.report)
        manifest = _manifest(plan, settings, scanned, shards)
        flush(build)
        write_manifest(folder, manifest)
    except BaseException as error:
        shutil.rmtree(build, ignore_errors=True)
        if isinstance(error, OSError):
            raise InputError(
                f"{folder}: the store could not be written ({error}); a store takes up to twice "
                "the space of its text, so free some space, or choose a different folder"
            ) from None
        raise
    _remove_leftovers(folder)  # the previous store
    return open_store(folder)


def _remove_leftovers(folder: Path) -> None:
    """Remove the subfolders of unfinished and old builds, that is, those that the manifest does not
    name. Raises an error if the folder contains anything but a store."""
    names = sorted(os.listdir(folder))
    strange = [name for name in names if not is_ours(name)]
    if strange:
        raise InputError(
            f"{folder} contains {strange[0]}, which is not part of a store; choose an empty folder"
        )
    try:
        current = open_store(folder).manifest.build
    except InputError:
        current = ""  # no manifest, or a damaged one
    for name in names:
        if name.startswith("build-") and name != current:
            shutil.rmtree(folder / name)


def _manifest(
    plan: StorePlan, settings: EncodingSettings, scanned: list[Scanned], shards: list[Shard]
) -> Manifest:
    loadings = [Loading(path) for path in plan.paths]
    for shard in shards:
        for number, part in shard.loading.items():
            loadings[number].add(part)
    tokens = sum(shard.tokens for shard in shards)
    if not tokens:
        raise InputError(
            f"{' + '.join(plan.paths)}: no usable record, because all lines are empty or were left "
            "out; add text"
        )
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


def _reusable(plan: StorePlan, by_digest: bool) -> tuple[Store | None, str]:
    """The store in the folder if it can be reused, and otherwise the reason why not (empty if there
    is no store).

    by_digest (only while the folder is locked): if the modification time of a file differs, compare
    its digest; if the digest is the same, write the new time to the manifest.
    """
    folder = Path(plan.folder)
    if not (folder / MANIFEST).exists():
        return None, ""
    try:
        store = open_store(folder)
    except InputError as error:
        return None, str(error)
    old, making = store.manifest, plan.making
    if old.making.tokenizer != making.tokenizer:
        known, wanted = old.making.tokenizer[:12], making.tokenizer[:12]
        return None, f"it was built with a different tokenizer (fingerprint {known}, now {wanted})"
    if old.making != making:
        before, now = old.making.model_dump(), making.model_dump()
        changed = [name for name in now if before[name] != now[name]]
        return None, f"it was built with a different {', '.join(changed)}"
    if len(old.inputs) != len(plan.files):
        return None, f"it was built from {len(old.inputs)} files, not from {len(plan.files)}"
    fresh = []
    for path, known_file in zip(plan.paths, old.inputs, strict=True):
        try:
            stat = os.stat(path)
            same = stat.st_size == known_file.size and (
                stat.st_mtime_ns == known_file.mtime_ns
                or (by_digest and digest_of(Path(path)) == known_file.sha256)
            )
        except OSError as error:
            return None, f"{path}: {error.strerror}"
        if not same:
            return None, f"{path} has changed"
        fresh.append(known_file.model_copy(update={"mtime_ns": stat.st_mtime_ns}))
    if tuple(fresh) != old.inputs and os.access(folder, os.W_OK):
        write_manifest(folder, old.model_copy(update={"inputs": tuple(fresh)}))
        store = open_store(folder)
    return store, ""
