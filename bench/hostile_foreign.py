"""Files of other tools that are hostile or damaged: each is one change to a good model
(bench/foreign_models.py). The dangerous ones are written by hand, the others are random.
"""

import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.foreign_models import GOOD
from bench.hostile_bytes import (
    CTRANSLATE2,
    GGUF,
    SAFETENSORS,
    TOML,
    YAML,
    legacy_file,
    llama2c_headers,
    torch_files,
)
from bench.hostile_json import CONFIGS, JSON_TEXTS, TOKENIZERS, VOCABULARIES
from bench.hostile_models import KINDS, MISSING, ODD, places, replaced

Change = Callable[[Path], None]
FULLY = ("safetensors", "Marian", "WordPiece, classifier", "CTranslate2")  # try all hostile JSON


@dataclass(frozen=True)
class HostileFile:
    format: str
    name: str
    change: Change  # applied to a copy of the good model's folder
    must_refuse: bool = False  # opening the file without an error is a fault


TORCH = {  # by format: the file that torch.save wrote
    "torch weights": "pytorch_model.bin", "fairseq": "checkpoint_best.pt", "JoeyNMT": "100.ckpt",
    "OpenNMT-py": "model.pt", "mapping file": "translator.pt",
}  # fmt: skip
TENSORS = {"safetensors": "model.safetensors", "Marian": "model.safetensors",
           "WordPiece, classifier": "model.safetensors",
           "sharded safetensors": "model-00001-of-00002.safetensors"}  # fmt: skip
MAIN = {name: good.path for name, good in GOOD.items() if good.path} | TENSORS | {
    "CTranslate2": "model.bin", "JoeyNMT": "config.yaml", "torch weights": "pytorch_model.bin",
}  # fmt: skip


# Tensors of a shard that its index does not name are not read.
HARMLESS = {("sharded safetensors", "40,000 empty tensors")}


def hand_made(good: Path) -> Iterator[HostileFile]:
    """The changes that were written by hand."""
    for format, file in TORCH.items():
        for name, make in torch_files().items():
            yield HostileFile(format, f"torch: {name}", partial(_made, file=file, make=make),
                              not name.startswith("fine"))  # fmt: skip
        yield HostileFile(format, "torch: shared objects, before 1.6",
                          partial(_made, file=file, make=legacy_file), True)  # fmt: skip
    for format, file in TENSORS.items():
        for name, change in SAFETENSORS.items():
            yield HostileFile(format, f"safetensors: {name}",
                              partial(_changed, file=file, change=change),
                              (format, name) not in HARMLESS)  # fmt: skip
    for name, change in GGUF.items():
        yield HostileFile("GGUF", name, partial(_changed, file="model.gguf", change=change))
    for name, change in CTRANSLATE2.items():
        yield HostileFile("CTranslate2", name, partial(_changed, file="model.bin", change=change))
    for name, change in llama2c_headers().items():
        yield HostileFile("llama2.c", name, partial(_changed, file="model-l.bin", change=change))
    for name, raw in YAML.items():
        yield HostileFile("JoeyNMT", f"yaml: {name}", partial(_put, file="config.yaml", raw=raw))
    for name, text in TOML.items():
        yield HostileFile("mapping file", f"toml: {name}",
                          partial(_changed, file="gru.toml", change=text))  # fmt: skip
    yield from _json_files(good)
    for format, file in MAIN.items():
        for kind, make in KINDS.items():
            named = kind == "to elsewhere" and file == GOOD[format].path  # the user may name a link
            yield HostileFile(format, f"{file}: {kind}", partial(_swapped, file=file, make=make),
                              not named)  # fmt: skip


def _json_files(good: Path) -> Iterator[HostileFile]:
    for format in GOOD:
        for path in sorted((good / format).rglob("*.json")):
            file = path.relative_to(good / format).as_posix()
            if file == "manifest.json" or (file == "config.json" and format not in FULLY):
                continue
            for name, raw in JSON_TEXTS.items():
                yield HostileFile(format, f"{file}: {name}", partial(_put, file=file, raw=raw))
    for name, (format, file, change) in (TOKENIZERS | CONFIGS).items():
        yield HostileFile(format, name, partial(_json_change, file=file, change=change))
    for name, (format, file, change) in VOCABULARIES.items():
        yield HostileFile(format, name, partial(_changed, file=file, change=change))


def mutants(good: Path, count: int, seed: int) -> Iterator[HostileFile]:
    """Random damage, to the formats in turn and to any of their files."""
    chance = random.Random(seed)
    formats = list(GOOD)
    for number in range(count):
        format = formats[number % len(formats)]
        files = sorted(p for p in (good / format).rglob("*") if p.is_file())
        files = [p for p in files if p.name not in ("README.md", "manifest.json")]
        file = chance.choice(files).relative_to(good / format).as_posix()
        own = random.Random(f"{seed} {number}")
        if file.endswith(".json") and chance.random() < 0.6:
            change = partial(_odd_value, file=file, chance=own)
        else:
            change = partial(_damaged, file=file, chance=own)
        yield HostileFile(format, f"mutant {number} of {file}", change)


def _made(folder: Path, file: str, make: Callable[[], bytes]) -> None:
    (folder / file).write_bytes(make())


def _put(folder: Path, file: str, raw: Callable[[], bytes]) -> None:
    (folder / file).write_bytes(raw())


def _changed(folder: Path, file: str, change: Callable[[bytes], bytes]) -> None:
    (folder / file).write_bytes(change((folder / file).read_bytes()))


def _json_change(folder: Path, file: str, change: Callable[[Any], Any]) -> None:
    path = folder / file
    path.write_text(
        json.dumps(change(json.loads(path.read_text("utf-8")) if path.exists() else {}))
    )


def _swapped(folder: Path, file: str, make: Callable[[Path], None]) -> None:
    (folder.parent / "precious").mkdir(exist_ok=True)
    os.replace(folder / file, folder.parent / "precious" / file)
    make(folder / file)


def _odd_value(folder: Path, file: str, chance: random.Random) -> None:
    path = folder / file
    value = json.loads(path.read_text("utf-8"))
    at = chance.choice(list(places(value)))
    new = chance.choice([*ODD.values(), *([MISSING] if at else [])])
    path.write_text(json.dumps(replaced(value, at, new)))


def _damaged(folder: Path, file: str, chance: random.Random) -> None:
    """Damage a file: cut it off, or change, insert, remove, repeat or clear some bytes."""
    path = folder / file
    raw = bytearray(path.read_bytes())
    if not raw:
        return
    # The first bytes matter most; in zips, also the last.
    reach = chance.choice([len(raw), min(len(raw), 600), min(len(raw), 80)])
    at = chance.randrange(reach)
    at = len(raw) - 1 - at if chance.random() < 0.15 else at
    size = chance.choice([1, 1, 2, 4, 8, 64, 1000])
    match chance.randrange(7):
        case 0:
            del raw[at:]
        case 1:
            for _ in range(chance.randint(1, 6)):
                raw[chance.randrange(reach)] = chance.choice([0, 255, 127, chance.randrange(256)])
        case 2:
            raw[at:at] = chance.randbytes(size)
        case 3:
            del raw[at : at + size]
        case 4:
            raw[at:at] = raw[at : at + 64 * size]
        case 5:
            raw[at : at + size] = bytes(len(raw[at : at + size]))
        case _:
            raw[at : at + 8] = struct.pack(
                "<Q", chance.choice([0, 1 << 31, 1 << 40, (1 << 64) - 1])
            )
    path.write_bytes(bytes(raw))
