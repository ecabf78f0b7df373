"""Save and load tokenizers: Hugging Face's tokenizer.json, its short configuration, and
Translucid's fingerprint.

For a tokenizer trained with Translucid, only the vocabulary is read from tokenizer.json. The kind
of tokenizer determines how text is split and joined, so a manipulated file cannot add regular
expressions of its own. The file of an imported tokenizer is used unchanged, after checks
(imported.py).
"""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from tokenizers import Tokenizer as Backend

from translucid.core.errors import InputError, TokenizerMismatchError
from translucid.core.untrusted_files import open_regular, parsed_json
from translucid.data.tokenizers.imported import (
    IMPORTED,
    MOST_PARTS,
    Imported,
    check_pieces,
    vocabulary,
)
from translucid.data.tokenizers.pipelines import KINDS, SPECIAL, Kind, blank, finish
from translucid.data.tokenizers.special_tokens import SpecialTokens

TOKENIZER, META, CONFIG = "tokenizer.json", "tokenizer_meta.json", "tokenizer_config.json"
FORMAT = 1  # increase it if a kind splits text differently
MAX_FILE = 128 << 20
_LEARNT = ("vocab", "merges")
_ROLES = ("pad", "bos", "eos", "unk", "mask")


def fingerprint(kind: Kind, backend: Backend) -> str:
    """The SHA-256 of everything that determines the token ids. It is not computed from the file,
    whose layout may change with the version of the library."""
    model = json.loads(backend.to_str())["model"]
    learnt = {key: model[key] for key in _LEARNT if key in model}
    return _digest({"kind": kind, "special": SPECIAL, **learnt})


def imported_fingerprint(imported: Imported) -> str:
    return _digest({
        "kind": IMPORTED, "special": asdict(imported.special), "hidden": imported.hidden,
        "tokens": imported.tokens, "spec": imported.data,
    })  # fmt: skip


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps({"format": FORMAT} | content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def write_imported(folder: Path, imported: Imported, digest: str) -> None:
    names, special = imported.names, asdict(imported.special)
    roles = {role: names[special[role]] for role in _ROLES if special[role] is not None}
    more = {"special": special, "hidden": imported.hidden, "limit": imported.tokens}
    _write(folder, IMPORTED, imported.spec, len(names), roles, digest, more)


def write(folder: Path, kind: Kind, backend: Backend, digest: str) -> None:
    roles = dict(zip(_ROLES, SPECIAL, strict=False))
    size = backend.get_vocab_size()
    _write(folder, kind, backend.to_str(pretty=True), size, roles, digest, {})


def _write(
    folder: Path,
    kind: str,
    text: str,
    size: int,
    roles: dict[str, str],
    digest: str,
    more: dict[str, Any],
) -> None:
    meta = {"format": FORMAT, "kind": kind, "tokens": size} | more
    meta |= {"fingerprint": digest, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{role}_token": name for role, name in roles.items()},
        "clean_up_tokenization_spaces": False,
    }
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / TOKENIZER, text)
    _replace(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    _replace(folder / META, json.dumps(meta, indent=2) + "\n")


def _replace(path: Path, text: str) -> None:
    """Write a file atomically: readers see either the old or the new content."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, "utf-8", newline="\n")
    os.replace(part, path)


def read(folder: Path) -> "tuple[Kind, Backend] | Imported":
    meta = _object(folder / META, _bytes(folder / META))
    if meta.get("format") != FORMAT or meta.get("kind") not in (*KINDS, IMPORTED):
        raise InputError(
            f"{folder / META} describes a tokenizer of format {meta.get('format')!r} and kind "
            f"{meta.get('kind')!r}, but this version reads format {FORMAT} and the kinds "
            f"{', '.join((*KINDS, IMPORTED))}; save the tokenizer again"
        )
    raw = _bytes(folder / TOKENIZER)
    if hashlib.sha256(raw).hexdigest() != meta.get("sha256"):
        raise TokenizerMismatchError(
            f"{folder / TOKENIZER} is not the file that was saved (its sha256 differs from "
            f"{META}); restore it, or save the tokenizer again"
        )
    if meta["kind"] == IMPORTED:
        imported = _imported(raw, meta, folder)
        _check_fingerprint(imported_fingerprint(imported), meta, folder)
        return imported
    kind: Kind = meta["kind"]
    backend = rebuilt(kind, _object(folder / TOKENIZER, raw), folder / TOKENIZER)
    _check_fingerprint(fingerprint(kind, backend), meta, folder)
    return kind, backend


def _check_fingerprint(digest: str, meta: dict[str, Any], folder: Path) -> None:
    if digest != meta.get("fingerprint"):
        raise TokenizerMismatchError(
            f"{folder / TOKENIZER}: the fingerprint of the vocabulary is not the one in {META}; "
            "restore both files, or save the tokenizer again"
        )


def _imported(raw: bytes, meta: dict[str, Any], folder: Path) -> Imported:
    values = {"spec": raw.decode("utf-8", errors="replace"), "special": meta.get("special"),
              "hidden": meta.get("hidden"), "tokens": meta.get("limit")}  # fmt: skip
    try:
        special = TypeAdapter(SpecialTokens).validate_python(values["special"])
        return TypeAdapter(Imported).validate_python(values | {"special": special})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"{folder / META}: {'.'.join(map(str, first['loc']))}: {first['msg']}; save the "
            "tokenizer again"
        ) from None


def rebuilt(kind: Kind, data: dict[str, Any], path: Path) -> Backend:
    plain = json.loads(blank(kind).to_str())
    model = data.get("model")
    if not isinstance(model, dict) or model.get("type") != plain["model"]["type"]:
        raise InputError(
            f"{path} contains no {plain['model']['type']} model, which a {kind} tokenizer needs"
        )
    plain["model"] |= {key: model[key] for key in _LEARNT if key in model}
    check_pieces((str(piece) for _, piece in vocabulary(plain["model"])), str(path))
    return finish(Backend.from_str(json.dumps(plain)))


def _bytes(path: Path) -> bytes:
    try:
        with open_regular(path, MAX_FILE) as file:
            return file.read()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); the folder of a tokenizer contains "
            f"{TOKENIZER} and {META}, written by Tokenizer.save"
        ) from None


def _object(path: Path, raw: bytes) -> dict[str, Any]:
    value = parsed_json(raw, str(path), MOST_PARTS)
    if not isinstance(value, dict):
        raise InputError(f"{path} contains a {type(value).__name__}, not an object")
    return value
