"""Token ids on disk: a corpus of any size, read through memory maps.

A store is a folder. Its manifest.json names a subfolder that contains the shards. When a new
subfolder is complete, the manifest is replaced atomically. The concatenated shards are the stream
of all documents, each followed by eos.
"""

import hashlib
import json
import mmap
import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from translucid.core.atomic_files import digest_of, flush
from translucid.core.errors import ConfigError, InputError
from translucid.data.corpus.encode import TOKENIZER, shard_name
from translucid.data.readers.loading import Loading, Reason
from translucid.data.tokenizers.tokenizer import Tokenizer

MANIFEST = "manifest.json"
FORMAT = 1
# A page of a memory map counts as resident memory from when it is read until it is released. After
# 1000 reads, the pages are released; these reads touch at most about 64 MB.
_GIVE_BACK_AFTER = 1000
_AGAIN = "rebuild the store"
_Count = Field(ge=0)


class _ManifestSection(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class InputFile(_ManifestSection):
    """An input file of the store, and how much of it was read and skipped."""

    size: int = _Count
    mtime_ns: int
    sha256: str
    records: int = _Count
    left_out: dict[Reason, int]
    first: dict[Reason, int]

    def loading(self, file: str) -> Loading:
        return Loading(file, self.records, dict(self.left_out), dict(self.first))


class ShardFile(_ManifestSection):
    tokens: int = _Count
    sha256: str


class Making(_ManifestSection):
    """Settings that, together with the text, determine the token ids."""

    tokenizer: str  # its fingerprint
    unit: Literal["line", "paragraph", "file"]
    max_line_bytes: int
    too_long: Literal["error", "skip"]
    max_text_bytes: int


class Manifest(_ManifestSection):
    format: Literal[1] = 1
    build: str = Field(
        pattern=r"^build-[0-9a-f]{8}$"
    )  # the name of a folder next to the manifest, without a path
    dtype: Literal["<u2", "<u4"]
    tokens: int = _Count
    documents: int = _Count
    characters: int = _Count  # number of characters, plus 1 per document; for bits per character
    making: Making
    inputs: tuple[InputFile, ...]
    shards: tuple[ShardFile, ...]


class Store:
    """A corpus of token ids on disk, opened with `open_store` or `ensure_store`."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.documents, self.characters = manifest.documents, manifest.characters
        self._starts = np.cumsum([0, *(shard.tokens for shard in manifest.shards)]).tolist()
        self._maps: list[mmap.mmap] = []
        self._shards = [self._open(number) for number in range(len(manifest.shards))]
        self._reads = 0

    def __len__(self) -> int:
        return self.manifest.tokens

    def __repr__(self) -> str:
        return f"Store({self.folder}, {len(self):,} tokens, {len(self._shards)} shards)"

    def window(self, start: int, length: int) -> NDArray[np.int64]:
        """Tokens `start` to `start + length` (exclusive) of the stream; fewer if the stream ends
        before."""
        if start < 0 or length < 0:
            raise ConfigError(f"start = {start}, length = {length}: neither may be negative")
        end = min(start + length, len(self))
        pieces = []
        number = bisect_right(self._starts, start) - 1
        while start < end:
            first, last = self._starts[number : number + 2]
            pieces.append(self._shards[number][start - first : end - first].astype(np.int64))
            start, number = min(end, last), number + 1
        self._give_back()
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the store was built with."""
        making = self.manifest.making
        folder = self._builds / TOKENIZER
        return Tokenizer.load(folder, expect=making.tokenizer, max_bytes=making.max_text_bytes)

    def loadings(self, files: Sequence[str | Path]) -> list[Loading]:
        """A report for each input file: how much of it was read and skipped."""
        return [
            part.loading(str(file)) for part, file in zip(self.manifest.inputs, files, strict=True)
        ]

    def verify(self) -> None:
        """Read all shards and raise an error if any bit has changed."""
        for number, shard in enumerate(self.manifest.shards):
            path = self._path(number)
            if digest_of(path) != shard.sha256:
                raise InputError(
                    f"{path} is damaged or was changed (its sha256 differs from the one in "
                    f"{MANIFEST}); {_AGAIN}"
                )

    @property
    def _builds(self) -> Path:
        return self.folder / self.manifest.build

    def _path(self, number: int) -> Path:
        return self._builds / shard_name(number)

    def _open(self, number: int) -> NDArray[np.unsignedinteger]:
        path, dtype = self._path(number), np.dtype(self.manifest.dtype)
        wanted = self.manifest.shards[number].tokens * dtype.itemsize
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != wanted:
                    raise InputError(
                        f"{path} has {size:,} bytes, but {wanted:,} were written; {_AGAIN}"
                    )
                if not size:  # only empty lines; an empty file cannot be mapped
                    return np.empty(0, dtype=dtype)
                self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); {_AGAIN}") from None
        return np.frombuffer(self._maps[-1], dtype=dtype)

    def _give_back(self) -> None:
        self._reads += 1
        if self._reads % _GIVE_BACK_AFTER == 0 and hasattr(mmap, "MADV_DONTNEED"):
            for part in self._maps:
                part.madvise(mmap.MADV_DONTNEED)


def open_store(folder: str | Path, *, verify: bool = False) -> Store:
    """Open the store in a folder. The sizes of its files are always checked; with `verify`, so are
    their contents."""
    store = Store(Path(folder), read_manifest(Path(folder)))
    if verify:
        store.verify()
    return store


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest atomically. From then on, the folder contains the store that the manifest
    describes."""
    content = manifest.model_dump(mode="json")
    text = json.dumps(content | {"sha256": _digest(content)}, indent=1) + "\n"
    part = folder / f"{MANIFEST}.part"
    part.write_text(text, "utf-8", newline="\n")
    flush(part)
    os.replace(part, folder / MANIFEST)
    flush(folder)


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"{folder} contains no token store ({MANIFEST} is missing: none was built there, or "
            f"the build did not finish); {_AGAIN}"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}); {_AGAIN}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path} is not in format {FORMAT}, which this version reads; {_AGAIN}")
    if content.pop("sha256", None) != _digest(content):
        raise InputError(f"{path} is damaged or was changed (its sha256 differs); {_AGAIN}")
    try:
        manifest = Manifest.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {where}: {first['msg']}; {_AGAIN}") from None
    if manifest.tokens != sum(shard.tokens for shard in manifest.shards):
        raise InputError(
            f"{path}: the tokens of the shards do not add up to {manifest.tokens:,}; {_AGAIN}"
        )
    return manifest


def _digest(content: object) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def is_ours(name: str) -> bool:
    """Whether a file or folder of this name may be part of a store."""
    return name in (MANIFEST, f"{MANIFEST}.part") or bool(re.match(r"build-[0-9a-f]{8}$", name))
