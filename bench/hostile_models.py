"""Model folders that are hostile or damaged: each is one change to a good one.

Digests are corrected after every change, as an attacker would do.
"""

import json
import os
import random
import shutil
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEXTS = "the dog sleeps\na cat eats\nthe old cat sees a dog\n" * 6
LABELLED = "good\ta fine day\nbad\ta poor day\n" * 6
TAGGED = "Peter B-PER\nsleeps O\n\nAnna B-PER\nsees O\nParis B-LOC\n\n" * 6
NUMBERS = "x,y\n" + "".join(f"{i / 10},{i * i / 100}\n" for i in range(12))
FILES = {"a.en": TEXTS, "a.de": TEXTS, "a.tsv": LABELLED, "a.conll": TAGGED, "a.csv": NUMBERS}
SMALL = ["tokenizer.kind=word", "training.steps=1", "training.device=cpu"]
NARROW = ["model.d_model=8", "model.heads=2", "model.layers=1", "model.d_ff=8"]
CELL = ["model.kind=recurrent", "model.d_model=8", "model.layers=1"]
MODELS: dict[str, tuple[list[str], str]] = {  # what trains it, and what it is asked
    "translate": (["--train", "a.en", "a.de", "decoding.beam_size=2", *NARROW], "the dog"),
    "tag": (["--train", "a.conll", "model.characters=4", *CELL], "Peter sleeps"),
    "classify": (["--train", "a.tsv", *NARROW, "model.ngram_features=2"], "a fine day"),
    "language": (["--train", "a.en", *NARROW, "model.positions=learned", "model.max_length=16",
                  "data.max_length=16"], "the"),
    "regress": (["--train", "a.csv", "model.hidden=[4]"], "0.5"),
}  # fmt: skip


def train_models(folder: Path, run: Callable[..., Any]) -> None:
    """Train one small model of every task, in folders named by the tasks."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for task, (words, _) in MODELS.items():
        small = [] if task == "regress" else SMALL[:1]
        run("train", task, *words, "--out", task, "--quiet", *small, *SMALL[1:])


@dataclass(frozen=True)
class Hostile:
    """One hostile model folder."""

    name: str
    task: str
    change: Callable[[Path], None]  # applied to a copy of the good model
    sealed: bool = True  # correct its digests after the change
    escapes: bool = False  # it refers to something outside, so loading it counts as escaped

    def make(self, good: Path, place: Path) -> None:
        shutil.copytree(good / self.task / "best", place)
        self.change(place)
        if self.sealed:
            seal(place)


def seal(folder: Path) -> None:
    from translucid.core.atomic_files import CARD, MANIFEST, digest_of

    names = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    names = [p for p in names if p.name not in (MANIFEST, CARD) and p.stat().st_size < 1 << 30]
    wanted = {p.relative_to(folder).as_posix(): digest_of(p) for p in names}
    if stat.S_ISREG((folder / MANIFEST).lstat().st_mode):  # otherwise the manifest is the attack
        (folder / MANIFEST).write_text(json.dumps(wanted, indent=2) + "\n")


# ---- values in JSON ----

ODD: dict[str, Any] = {
    "null": None, "zero": 0, "minus": -1, "huge": 10**18, "many": 3000, "half": 1.5, "text": "x",
    "list": [], "object": {}, "true": True, "nan": float("nan"), "inf": float("inf"),
    "digits": 10**400, "escape": "\x1b]0;owned\x07", "outside": "../../precious",
    "lone": "\ud800", "long": "a" * 100_000, "nested": [[[[[]]]]],
}  # fmt: skip
MISSING = object()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON value, starting with the whole value; of long lists, only
    the first elements."""
    yield at
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value[:1])
        for key, each in list(inner)[:40]:
            yield from places(each, (*at, key))


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    value = dict(value) if isinstance(value, dict) else list(value)
    if len(at) == 1 and new is MISSING:
        del value[at[0]]
    else:
        value[at[0]] = replaced(value[at[0]], at[1:], new)
    return value


def json_change(file: str, at: tuple[Any, ...], new: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / file
        value = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(replaced(value, at, new)))
        _mend_tokenizer(path)

    return change


def _mend_tokenizer(path: Path) -> None:
    """Correct the digest that a tokenizer contains."""
    from translucid.core.atomic_files import digest_of

    meta = path.with_name("tokenizer_meta.json")
    if path.name == "tokenizer.json" and meta.exists():
        told = json.loads(meta.read_text("utf-8"))
        meta.write_text(json.dumps(told | {"sha256": digest_of(path)}))


def json_cases(good: Path) -> Iterator[Hostile]:
    for task in MODELS:
        folder = good / task / "best"
        for path in sorted(folder.rglob("*.json")):
            file = path.relative_to(folder).as_posix()
            if file == "manifest.json" or path.name == "tokenizer_config.json":
                continue
            value = json.loads(path.read_text("utf-8"))
            for at in places(value):
                changes = ODD | ({"missing": MISSING} if at else {})
                for word, new in changes.items():
                    name = f"{task} {file} {'.'.join(map(str, at)) or 'all'} {word}"
                    yield Hostile(name, task, json_change(file, at, new))


def broken_text() -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "cut", b'{"format": 2, "task'
    yield "deep", b"[" * 200_000
    yield "deep objects", b'{"a":' * 100_000
    yield "no utf-8", b"\xff\xfe\x00"
    yield "nul", b"\0" * 100
    yield "two", b"{}{}"
    yield "bom", b"\xef\xbb\xbf{}"
    yield "pickle", b"\x80\x04\x95.\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93."
    yield "twice", b'{"format": 2, "format": 2, "task": "tag", "task": 3}'


def text_cases(good: Path) -> Iterator[Hostile]:
    for task in MODELS:
        folder = good / task / "best"
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            file = path.relative_to(folder).as_posix()
            if path.name in ("README.md", "tokenizer_config.json"):
                continue
            for word, text in broken_text():
                yield Hostile(
                    f"{task} {file} {word}", task,
                    lambda folder, file=file, text=text: (folder / file).write_bytes(text),
                    sealed=file != "manifest.json",
                )  # fmt: skip


# ---- weights ----


def weights_change(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        path = folder / "model.safetensors"
        tensors = {name: t.clone() for name, t in load_file(str(path)).items()}
        save_file(change(tensors), str(path))

    return changed


def header_change(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder / "model.safetensors"
        raw = path.read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        told = change(json.loads(raw[8 : 8 + size]))
        header = told if isinstance(told, bytes) else json.dumps(told).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + raw[8 + size :])

    return changed


def _tensor(each: dict[str, Any], **new: Any) -> dict[str, Any]:
    names = [name for name in each if name != "__metadata__"]
    return each | {names[0]: each[names[0]] | new}


def weight_cases() -> Iterator[Hostile]:
    def first(tensors: dict[str, Any]) -> str:
        return next(name for name, t in tensors.items() if t.is_floating_point() and t.numel())

    def filled(value: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def change(tensors: dict[str, Any]) -> dict[str, Any]:
            tensors[first(tensors)].view(-1)[-1] = value
            return tensors

        return change

    def cast(dtype: str, every: bool = True) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def change(tensors: dict[str, Any]) -> dict[str, Any]:
            import torch

            wanted = list(tensors) if every else [first(tensors)]
            return tensors | {name: tensors[name].to(getattr(torch, dtype)) for name in wanted}

        return change

    def renamed(tensors: dict[str, Any]) -> dict[str, Any]:
        return {f"{name}\x1b[2J": t for name, t in tensors.items()}

    def shaped(tensors: dict[str, Any]) -> dict[str, Any]:
        return {name: t.reshape(-1) for name, t in tensors.items()}

    def lacking(tensors: dict[str, Any]) -> dict[str, Any]:
        return {name: t for name, t in tensors.items() if name != first(tensors)}

    def more(tensors: dict[str, Any]) -> dict[str, Any]:
        return tensors | {"__class__": tensors[first(tensors)].clone()}

    changes: dict[str, Callable[[Path], None]] = {
        "nan": weights_change(filled(float("nan"))), "inf": weights_change(filled(float("inf"))),
        "minus inf": weights_change(filled(float("-inf"))),
        **{dtype: weights_change(cast(dtype)) for dtype in
           ("int64", "int32", "int8", "uint8", "bool", "complex64", "float16", "bfloat16",
            "float64")},
        **{f"one {dtype}": weights_change(cast(dtype, False)) for dtype in ("int64", "complex64")},
        "names": weights_change(renamed), "shapes": weights_change(shaped),
        "lacking": weights_change(lacking), "more": weights_change(more),
        "none": weights_change(lambda tensors: {}),
        "header list": header_change(lambda each: []),
        "header text": header_change(lambda each: b"not json"),
        "header null": header_change(lambda each: None),
        "header dtype": header_change(lambda each: _tensor(each, dtype="X99")),
        "header shape": header_change(lambda each: _tensor(each, shape=[2**40, 2**40])),
        "header negative": header_change(lambda each: _tensor(each, shape=[-1])),
        "header text shape": header_change(lambda each: _tensor(each, shape="abc")),
        "header offsets": header_change(lambda each: _tensor(each, data_offsets=[0, 2**62])),
        "header backwards": header_change(lambda each: _tensor(each, data_offsets=[8, 0])),
        "header overlap": header_change(
            lambda each: {name: value | {"data_offsets": [0, 4]} for name, value in each.items()
                          if name != "__metadata__"}),
        "header deep": header_change(lambda each: b'{"a":' * 50_000),
        "header metadata": header_change(lambda each: each | {"__metadata__": [1, 2]}),
        "length huge": lambda folder: _patch(folder, struct.pack("<Q", 2**63)),
        "length zero": lambda folder: _patch(folder, struct.pack("<Q", 0)),
        "cut": lambda folder: os.truncate(folder / "model.safetensors", 100),
        "one byte": lambda folder: os.truncate(folder / "model.safetensors", 1),
        "longer": lambda folder: _append(folder / "model.safetensors"),
        "sparse": lambda folder: os.truncate(folder / "model.safetensors", 1 << 40),
    }  # fmt: skip
    for task in MODELS:
        for word, change in changes.items():
            yield Hostile(f"{task} weights {word}", task, change)


def _patch(folder: Path, start: bytes) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.write(start)


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0" * 1000)


# ---- files that are none, and names that lead out ----


def _swap(folder: Path, file: str, make: Callable[[Path], None]) -> None:
    path = folder / file
    if path.is_dir():
        shutil.rmtree(path)
    with suppress(FileNotFoundError):
        path.unlink()
    make(path)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket may have at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _elsewhere(path: Path) -> None:
    """Replace the file by a link to the good file, so that nothing else is wrong."""
    path.symlink_to(path.parents[1] / "precious" / path.name)


KINDS: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo, "socket": _socket, "folder": lambda path: path.mkdir(),
    "to zero": lambda path: path.symlink_to("/dev/zero"),
    "to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "to itself": lambda path: path.symlink_to(path),
    "to nothing": lambda path: path.symlink_to("nothing"),
    "to the system": lambda path: path.symlink_to("/proc/version"),
    "to elsewhere": _elsewhere,
    "sparse": lambda path: (path.touch(), os.truncate(path, 1 << 42))[0],
}  # fmt: skip
NAMES = (
    "../precious/config.json", "/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/mem", "..",
    ".", "", "a/../../precious/config.json", "\0", "config.json\0", "x" * 5000, "~/.ssh/id_rsa",
    "C:\\windows", "//etc/passwd", "config.json/..", "./config.json/../../precious/config.json",
)  # fmt: skip


def file_cases(good: Path) -> Iterator[Hostile]:
    for task in MODELS:
        folder = good / task / "best"
        files = ["config.json", "model.safetensors", "manifest.json"]
        files += [p.relative_to(folder).as_posix() for p in folder.rglob("tokenizer.json")][:1]
        files += [p.name for p in folder.iterdir() if p.is_dir()][:1]
        for file in files:
            for word, make in KINDS.items():
                yield Hostile(
                    f"{task} {file} {word}", task,
                    lambda folder, file=file, make=make: _swap(folder, file, make),
                    escapes=word.startswith("to "),
                )  # fmt: skip
    for task in ("classify", "regress"):
        for name in NAMES:
            yield Hostile(
                f"{task} manifest names {name[:30]!r}", task,
                lambda folder, name=name: _name_in_manifest(folder, name), sealed=False,
                escapes=True,
            )  # fmt: skip
            yield Hostile(
                f"{task} tokenizer named {name[:30]!r}", task,
                lambda folder, name=name: _name_of_tokenizer(folder, name), escapes=True,
            )  # fmt: skip


def _name_in_manifest(folder: Path, name: str) -> None:
    seal(folder)
    path = folder / "manifest.json"
    path.write_text(
        json.dumps(json.loads(path.read_text("utf-8")) | {name: "0" * 64}, indent=2) + "\n"
    )


def _name_of_tokenizer(folder: Path, name: str) -> None:
    path = folder / "config.json"
    told = json.loads(path.read_text("utf-8"))
    mark = next(iter(told["tokenizers"].values()), "0" * 64)
    path.write_text(json.dumps(told | {"tokenizers": {name: mark}}))


def hostile_models(good: Path, count: int | None = None, seed: int = 0) -> list[Hostile]:
    """All hostile model folders; with `count`, all of the rare kinds and a sample of the frequent
    ones."""
    few = [*weight_cases(), *file_cases(good), *text_cases(good)]
    many = list(json_cases(good))
    if count is None:
        return few + many
    drawn = random.Random(seed)
    if count < 2 * len(few):
        return drawn.sample(few, count // 2) + drawn.sample(many, count - count // 2)
    return few + drawn.sample(many, min(len(many), count - len(few)))


def ask(folder: Path, task: str) -> None:
    """Load a model and use it."""
    import translucid as tl

    model = tl.load(folder)
    model.predict([MODELS[task][1]])
    model.summary()
