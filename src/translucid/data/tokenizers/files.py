"""A tokenizer on disk: the hub's tokenizer.json, its short configuration, and our fingerprint.

Of a tokenizer that was trained here, only the vocabulary is taken from the file. How text is split
and joined comes from the kind, so a tokenizer.json that was changed cannot bring its own regular
expressions. Of one that came with a model the file is taken as it is, after checks (imported.py).
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
FORMAT = 1  # raised when a kind starts to split text in another way
MAX_FILE = 128 << 20
_LEARNT = ("vocab", "merges")


def fingerprint(kind: Kind, backend: Backend) -> str:
    """sha256 over what decides the ids; not over the file, whose layout the library may change."""
    model = json.loads(backend.to_str())["model"]
    content: dict[str, Any] = {"format": FORMAT, "kind": kind, "special": SPECIAL}
    content |= {key: model[key] for key in _LEARNT if key in model}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def imported_fingerprint(imported: Imported) -> str:
    content = {
        "format": FORMAT, "kind": IMPORTED, "special": asdict(imported.special),
        "hidden": imported.hidden, "tokens": imported.tokens, "spec": imported.data,
    }  # fmt: skip
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode(errors="surrogatepass")).hexdigest()


def write_imported(folder: Path, imported: Imported, digest: str) -> None:
    names, special = imported.names, imported.special
    meta = {
        "format": FORMAT,
        "kind": IMPORTED,
        "tokens": len(names),
        "special": asdict(special),
        "hidden": imported.hidden,
        "limit": imported.tokens,
        "fingerprint": digest,
        "sha256": hashlib.sha256(imported.spec.encode()).hexdigest(),
    }
    roles = {"pad": special.pad, "bos": special.bos, "eos": special.eos, "unk": special.unk,
             "mask": special.mask}  # fmt: skip
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{role}_token": names[i] for role, i in roles.items() if i is not None},
        "clean_up_tokenization_spaces": False,
    }
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / TOKENIZER, imported.spec)
    _replace(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    _replace(folder / META, json.dumps(meta, indent=2) + "\n")


def write(folder: Path, kind: Kind, backend: Backend, digest: str) -> None:
    text = backend.to_str(pretty=True)
    meta = {
        "format": FORMAT,
        "kind": kind,
        "tokens": backend.get_vocab_size(),
        "fingerprint": digest,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIAL, strict=True)),
        "clean_up_tokenization_spaces": False,
    }
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / TOKENIZER, text)
    _replace(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    _replace(folder / META, json.dumps(meta, indent=2) + "\n")


def _replace(path: Path, text: str) -> None:
    """A reader finds the old file or the new one, never half of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, "utf-8", newline="\n")
    os.replace(part, path)


def read(folder: Path) -> "tuple[Kind, Backend] | Imported":
    meta = _object(folder / META, _bytes(folder / META))
    if meta.get("format") != FORMAT or meta.get("kind") not in (*KINDS, IMPORTED):
        raise InputError(
            f"{folder / META}: format {meta.get('format')!r}, kind {meta.get('kind')!r}; this "
            f"version reads format {FORMAT} and the kinds {', '.join((*KINDS, IMPORTED))}"
        )
    raw = _bytes(folder / TOKENIZER)
    if hashlib.sha256(raw).hexdigest() != meta.get("sha256"):
        raise TokenizerMismatchError(
            f"{folder / TOKENIZER}: the file is not the one that was saved (its sha256 differs "
            f"from {META}); restore it, or save the tokenizer again"
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
            f"{folder / TOKENIZER}: the vocabulary does not have the fingerprint that {META} "
            "states; restore both, or save the tokenizer again"
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
        raise InputError(f"{path}: holds no {plain['model']['type']} model, as a {kind} one should")
    plain["model"] |= {key: model[key] for key in _LEARNT if key in model}
    check_pieces((str(piece) for _, piece in vocabulary(plain["model"])), str(path))
    return finish(Backend.from_str(json.dumps(plain)))


def _bytes(path: Path) -> bytes:
    try:
        with open_regular(path, MAX_FILE) as file:
            return file.read()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); a tokenizer's folder holds {TOKENIZER} "
            f"and {META}, written by Tokenizer.save"
        ) from None


def _object(path: Path, raw: bytes) -> dict[str, Any]:
    value = parsed_json(raw, str(path), MOST_PARTS)
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds {type(value).__name__}, not an object")
    return value
