"""The model folder: what training writes and everything else reads.

    config.json         the model's config, the task, its labels, the tokenizers' fingerprints
    model.safetensors   the weights
    source/ target/     the tokenizers; or tokenizer/ where one serves all
    manifest.json       a SHA-256 of every other file
    README.md           the model card

No pickle. A folder appears whole or not at all: it is written aside and renamed.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_model, save_model

from translucid.data.tokenizers import Tokenizer
from translucid.errors import InputError
from translucid.models import ModelConfig, Network, build
from translucid.models.perceptron import PerceptronConfig
from translucid.tasks.base import TaskName
from translucid.training.recipe import MODELS

FORMAT = 1
CONFIG, WEIGHTS, MANIFEST = "config.json", "model.safetensors", "manifest.json"


@dataclass(frozen=True)
class Bundle:
    """A trained network with all it needs to be used."""

    network: Network
    task: TaskName
    tokenizers: dict[str, Tokenizer] = field(
        default_factory=dict
    )  # "tokenizer", or "source" and "target"
    labels: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # scores, steps, settings: for people


def save(bundle: Bundle, folder: Path, card: str = "") -> None:
    """Write the folder whole, in place of one that may be there."""
    aside = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, tokenizer in bundle.tokenizers.items():
        tokenizer.save(aside / name)
    save_model(bundle.network, str(aside / WEIGHTS))
    config = {
        "format": FORMAT,
        "task": bundle.task,
        "model": bundle.network.config.model_dump(mode="json"),
        "labels": list(bundle.labels),
        "tokenizers": {name: t.fingerprint for name, t in bundle.tokenizers.items()},
        "facts": bundle.facts,
    }
    (aside / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
    (aside / "README.md").write_text(card, "utf-8")
    (aside / MANIFEST).write_text(json.dumps(_digests(aside), indent=2) + "\n", "utf-8")
    for path in [*aside.rglob("*"), aside]:
        _flush(path)
    _take_place(aside, folder)


def load(folder: str | Path, device: str = "cpu") -> Bundle:
    """Read a model folder, or the best model of a run folder."""
    folder = Path(folder)
    if not (folder / CONFIG).is_file() and (folder / "best" / CONFIG).is_file():
        folder = folder / "best"
    if not (folder / CONFIG).is_file():
        raise InputError(
            f"{folder} is no model folder: it holds no {CONFIG}; "
            f"give the folder that training wrote"
        )
    _verify(folder)
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    if config.get("format") != FORMAT:
        raise InputError(
            f"{folder}: format {config.get('format')!r}, but this version reads {FORMAT}"
        )
    network = build(_model_config(config["model"]))
    try:
        load_model(network, str(folder / WEIGHTS))
    except (SafetensorError, RuntimeError) as error:
        raise InputError(f"{folder / WEIGHTS}: does not fit its config: {error}") from None
    tokenizers = {
        name: Tokenizer.load(folder / name, expect=fingerprint)
        for name, fingerprint in config["tokenizers"].items()
    }
    network.to(device).eval()
    labels = tuple(config["labels"])
    return Bundle(network, config["task"], tokenizers, labels, config["facts"])


def _model_config(values: dict[str, Any]) -> ModelConfig:
    kind = values.pop("kind")
    if kind == "perceptron":
        return PerceptronConfig(**values)
    return MODELS[kind](**values)


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
    }


def _verify(folder: Path) -> None:
    """Refuse a folder whose files are not the ones that were written."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{path} is missing, so nothing in {folder} can be trusted; save it again")
    wanted, there = json.loads(path.read_text("utf-8")), _digests(folder)
    for name, digest in wanted.items():
        if name not in there:
            raise InputError(f"{folder / name} is missing; copy the folder again, whole")
        if name != "README.md" and there[name] != digest:
            raise InputError(f"{folder / name} is damaged or was changed; copy the folder again")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_place(aside: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    _flush(folder.parent)
    shutil.rmtree(old, ignore_errors=True)
