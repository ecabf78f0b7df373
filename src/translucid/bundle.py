"""The model folder: what training writes and everything else reads.

    config.json         the model's config, the task, its labels, the tokenizers' fingerprints
    model.safetensors   the weights
    source/ target/     the tokenizers; or tokenizer/ where one serves all
    manifest.json       a SHA-256 of every other file but the card
    README.md           the model card

A task or positions of the user's own are named in config.json with the file they came from and its
SHA-256; the file itself is not in the folder, and never loaded because of it.

No pickle. A folder appears whole or not at all: it is written aside and renamed.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from translucid import extensions
from translucid.atomic_files import CARD, fault, standing, write_whole
from translucid.config import Config
from translucid.data.readers.loading import Columns
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.errors import InputError
from translucid.models import Network, config_from
from translucid.models.undrawn import build_undrawn
from translucid.parts.positions import POSITIONS
from translucid.registry import Registry
from translucid.renamed import section_today, weight_today
from translucid.tasks.registry import TASKS
from translucid.weights import load_weights, save_weights

FORMAT = 2
RENAMED = 1  # the format before, with names of keys and weights that renamed.py knows
CONFIG, WEIGHTS = "config.json", "model.safetensors"


@dataclass(frozen=True)
class Bundle:
    """A trained network with all it needs to be used."""

    network: Network
    task: str  # its name
    tokenizers: dict[str, Tokenizer] = field(
        default_factory=dict
    )  # "tokenizer", or "source" and "target"
    labels: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # scores, steps, settings: for people
    decoding: dict[str, Any] = field(
        default_factory=dict
    )  # keys of DecodingConfig, as the run had them
    data: dict[str, Any] = field(default_factory=dict)  # keys of DataConfig by which it was read
    statistics: dict[str, Any] = field(default_factory=dict)  # that the task has measured
    columns: dict[str, Columns] = field(default_factory=dict)  # of the training data, by role


def save(bundle: Bundle, folder: Path, card: str = "") -> None:
    """Write the folder whole, in place of one that may be there."""

    def fill(aside: Path) -> None:
        for name, tokenizer in bundle.tokenizers.items():
            tokenizer.save(aside / name)
        save_weights(bundle.network, aside / WEIGHTS)
        config = {
            "format": FORMAT,
            "task": bundle.task,
            "model": bundle.network.config.model_dump(mode="json"),
            "labels": list(bundle.labels),
            "decoding": bundle.decoding,
            "columns": bundle.columns,
            "data": bundle.data,
            "statistics": bundle.statistics,
            "tokenizers": {name: t.fingerprint for name, t in bundle.tokenizers.items()},
            "facts": bundle.facts,
        }
        if noted := extensions.used(own_names(bundle.task, bundle.network.config)):
            config["code"] = [asdict(source) for source in noted]  # for people; nothing loads it
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        (aside / CONFIG).write_text(text, "utf-8")
        (aside / CARD).write_text(card, "utf-8")

    write_whole(folder, fill)


def own_names(task: str, config: Config) -> list[tuple[Registry[Any], str]]:
    """The names that may be the user's own."""
    positions = config.model_dump().get("positions")
    return [(TASKS, task), *([] if positions is None else [(POSITIONS, positions)])]


def place(folder: str | Path) -> Path:
    """A model folder itself; of a run folder the best model, or else the newest."""
    folder = Path(folder)
    places = [standing(place) for place in (folder, folder / "best", folder / "last")]
    return next((place for place in places if (place / CONFIG).is_file()), folder)


def load(folder: str | Path, device: str = "cpu") -> Bundle:
    """Read a model folder, or of a run folder the best model, or else the newest."""
    folder = place(folder)
    if not (folder / CONFIG).is_file():
        raise InputError(
            f"{folder} is no model folder: it holds no {CONFIG}; "
            f"give the folder that training wrote"
        )
    wrong = fault(folder)
    if wrong is not None:
        raise InputError(f"{wrong}; copy the folder again, whole")
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    written = config.get("format")
    if written not in (FORMAT, RENAMED):
        raise InputError(
            f"{folder}: format {written!r}, but this version reads {RENAMED} and {FORMAT}; "
            "a newer version of translucid may read it"
        )
    extensions.require(config.get("code", ()), (TASKS, POSITIONS), folder)
    old = written == RENAMED
    sizes = section_today("model", config["model"]) if old else config["model"]
    network = build_undrawn(config_from(sizes))
    load_weights(network, folder / WEIGHTS, weight_today if old else None)
    tokenizers = {
        name: Tokenizer.load(folder / name, expect=fingerprint)
        for name, fingerprint in config["tokenizers"].items()
    }
    network.to(device).eval()
    labels = tuple(config["labels"])
    decoding = config.get("decoding", {})  # not in older bundles
    decoding = section_today("decoding", decoding) if old else decoding
    more = {name: config.get(name, {}) for name in ("data", "statistics")}  # nor these
    more["columns"] = {  # nor this; JSON has no tuples
        role: tuple(column) if isinstance(column, list) else column
        for role, column in config.get("columns", {}).items()
    }
    return Bundle(network, config["task"], tokenizers, labels, config["facts"], decoding, **more)
