"""Save and load model folders.

config.json         the model's config, the task, its labels, the tokenizers' fingerprints
model.safetensors   the weights
source/ target/     the tokenizers; tokenizer/ if there is only one
manifest.json       the SHA-256 of every other file except the model card
README.md           the model card

If the task or the positions are the user's own code, config.json names the source file with its
SHA-256. The file itself is not in the folder, and opening the folder never loads it.

Nothing is pickled. The folder is written under a temporary name and then renamed, so it is always
complete.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, Field

from translucid.core.atomic_files import CARD, fault, standing, write_whole
from translucid.core.config import Config
from translucid.core.errors import ConfigError, InputError, WrongTaskError
from translucid.core.registry import Registry
from translucid.core.untrusted_files import inside, naming, open_regular, read_object
from translucid.core.weights import declared_sizes, load_weights, save_weights
from translucid.data.readers.loading import Columns
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import Network, config_from
from translucid.models.build import build_undrawn
from translucid.models.sequence_config import HEADS
from translucid.parts.positions import POSITIONS
from translucid.tasks.base import Task
from translucid.tasks.options import DecodingConfig, Resources
from translucid.tasks.registry import TASKS
from translucid.tasks.vocabulary import set_word_dropout

FORMAT = 2
NETWORK = "network"  # in a run folder, if best/ is the baseline
CONFIG, WEIGHTS = "config.json", "model.safetensors"
LARGEST = 1 << 62  # larger than any tensor's size


@dataclass(frozen=True)
class Bundle:
    """A trained network with everything needed to use it."""

    network: Network
    task: str  # its name
    tokenizers: dict[str, Tokenizer] = field(default_factory=dict)  # "tokenizer", or source, target
    labels: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # scores, steps and settings, for display
    decoding: dict[str, Any] = field(default_factory=dict)  # keys of DecodingConfig in its run
    data: dict[str, Any] = field(default_factory=dict)  # keys of DataConfig: how data is read
    statistics: dict[str, Any] = field(default_factory=dict)  # from `Task.measure`
    columns: dict[str, Columns] = field(default_factory=dict)  # of the training data, by role

    def __post_init__(self) -> None:
        set_word_dropout(self.network, self.tokenizers)


class _StoredSection(Config):
    """A section of config.json; unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=True)


class _Facts(_StoredSection):
    step: int = 0
    valid: dict[str, float] = Field(default_factory=dict)


class _Described(_StoredSection):
    task: str
    model: dict[str, Any]
    labels: list[str]
    tokenizers: dict[str, str]
    facts: _Facts
    decoding: dict[str, Any] = Field(default_factory=dict)  # older folders lack this and the next
    data: dict[str, Any] = Field(default_factory=dict)
    statistics: dict[str, Any] = Field(default_factory=dict)
    columns: dict[str, int | str | list[int | str]] = Field(default_factory=dict)
    code: list[Any] = Field(default_factory=list)


def save(bundle: Bundle, folder: Path, card: str = "") -> None:
    """Write the model folder, and replace an existing model."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is not empty and is not a model; choose a new folder")

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
        from translucid.core import extensions

        if noted := extensions.used(own_names(bundle.task, bundle.network.config)):
            config["code"] = [asdict(source) for source in noted]  # only for messages
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        (aside / CONFIG).write_text(text, "utf-8")
        (aside / CARD).write_text(card, "utf-8")

    write_whole(folder, fill)


def own_names(task: str, config: Config) -> list[tuple[Registry[Any], str]]:
    """The names in a config that user code may define: that of the task and, if there is one, that
    of the positions. Each name is paired with its registry."""
    positions = config.model_dump().get("positions")
    return [(TASKS, task), *([] if positions is None else [(POSITIONS, positions)])]


def place(folder: str | Path) -> Path:
    """Find the model: in `folder` itself or, if that is a run folder, in best/. If the run has no
    best/, the model is in last/."""
    folder = Path(folder)
    places = [standing(place) for place in (folder, folder / "best", folder / "last")]
    try:
        chosen = next((place for place in places if os.path.lexists(place / CONFIG)), folder)
    except ValueError:  # a NUL in the name
        raise InputError(f"{str(folder)!r} is not a valid folder name") from None
    return chosen if chosen in (folder, places[0]) else inside(folder, chosen.name, "a run")


def load(folder: str | Path, device: str = "cpu") -> Bundle:
    """Read the model in a model folder or a run folder. In a run folder, this is the best model; if
    there is none, it is the last one."""
    folder = place(folder)
    if not os.path.lexists(folder / CONFIG):
        wrong = f" is not a model folder: it has no {CONFIG}"
        if not folder.exists():
            wrong = ": no such file or folder"
        raise InputError(
            f"{folder}{wrong}; pass the folder that training wrote, demo:NAME for a shipped model, "
            "or hf:ORG/NAME for one on the hub"
        )
    with naming(folder):
        opened = _load(folder)
    opened.network.to(device).eval()
    return opened


def _load(folder: Path) -> Bundle:
    """Read a folder of unknown origin: its config is checked against its weights before the network
    is built."""
    weights = inside(folder, WEIGHTS, "a model")
    declared: list[int] = []
    with suppress(FileNotFoundError), open_regular(weights):
        declared = declared_sizes(weights)  # before gigabytes are read to verify the hashes
    wrong = fault(folder)
    if wrong is not None:
        raise InputError(f"{wrong}; copy the whole folder again")
    config = read_object(folder / CONFIG)
    written = config.get("format")
    if written != FORMAT:
        raise InputError(
            f"{folder}: format {str(written)[:80]!r}, but this version reads format {FORMAT}; "
            "a newer version of translucid may read it"
        )
    try:
        described = _Described(**config)
    except ConfigError as error:
        raise InputError(f"{folder / CONFIG}: {error}; copy the whole folder again") from None
    if described.code:
        from translucid.core import extensions  # only for models with a user's own code

        extensions.require(described.code, (TASKS, POSITIONS), folder)
    sizes = described.model
    if large := [key for key, size in sizes.items() if isinstance(size, int) and size >= LARGEST]:
        raise InputError(
            f"{folder / CONFIG}: model.{large[0]} must be below {LARGEST:,}; "
            "copy the whole folder again"
        )
    for key in ("layers", "ensemble_size"):  # each layer or member has its own tensors
        if isinstance(count := sizes.get(key), int) and count > max(1, len(declared)):
            raise InputError(
                f"{folder / CONFIG}: model.{key} = {count}, but the folder contains only "
                f"{len(declared)} tensors; do not use this folder unless you know who made it"
            )
    network = build_undrawn(config_from(sizes), declared)
    load_weights(network, weights)
    network.check()
    tokenizers = {
        name: Tokenizer.load(inside(folder, name, str(folder / CONFIG)), expect=fingerprint)
        for name, fingerprint in described.tokenizers.items()
    }
    columns: dict[str, Columns] = {
        role: tuple(column) if isinstance(column, list) else column  # JSON has no tuples
        for role, column in described.columns.items()
    }
    try:
        statistics = TASKS[described.task].restore_statistics(
            described.statistics, getattr(network.config, "inputs", None) or 0, columns
        )
    except (TypeError, KeyError) as error:
        raise InputError(
            f"{folder / CONFIG}: the statistics are damaged ({error}); copy the whole folder again"
        ) from None
    opened = Bundle(
        network, described.task, tokenizers, tuple(described.labels), config["facts"],
        described.decoding, described.data, statistics, columns,
    )  # fmt: skip
    _check_fits(opened, folder)
    return opened


def is_own(config: Mapping[str, Any]) -> bool:
    """Whether Translucid wrote this config.json: only then does the file have the key `format`."""
    return "format" in config


def is_model_folder(path: Path) -> bool:
    """Whether a folder contains a model that Translucid wrote."""
    if not path.is_dir():
        return False
    with suppress(InputError):
        folder = place(path)
        return is_own(read_object(inside(folder, CONFIG, "a model")))
    return False


def _check_fits(opened: Bundle, folder: Path) -> None:
    """Raise an error if network, tokenizers and labels do not match."""
    config, task = opened.network.config, TASKS[opened.task]
    sizes, mistakes = task.smallest_sizes(), []
    vocab = getattr(config, "vocab", None)  # of models that read text
    if (vocab is not None) != ("vocab" in sizes):
        mistakes.append(f"the task is {opened.task}, but the network is a {type(config).__name__}")
    # A decoder may replace an encoder: at the last token it has read the whole text.
    also = {"encoder": "decoder"} if config.model_dump().get("head") in HEADS["decoder"] else {}
    for key in ("shape", "head"):
        wanted = sizes.get(key, "")
        if hasattr(config, key) and getattr(config, key) not in (wanted, also.get(wanted)):
            mistakes.append(f"the task is {opened.task}, but model.{key} = {getattr(config, key)}")
    if vocab is not None:
        target = getattr(config, "target_vocab", None) or vocab
        known = {"tokenizer": min(vocab, target), "source": vocab, "target": target}
        for name, tokenizer in opened.tokenizers.items():
            if len(tokenizer) > known.get(name, len(tokenizer)):
                tokens = f"{len(tokenizer):,} tokens, but the model has {known[name]:,}"
                mistakes.append(f"tokenizer {name!r} has {tokens}")
        outputs = getattr(config, "outputs", None)
        if task.label_noun is not None and len(opened.labels) != outputs:
            mistakes.append(f"there are {len(opened.labels)} labels, but {outputs} outputs")
        if not opened.tokenizers:
            mistakes.append("there is no tokenizer")
    if mistakes:
        raise InputError(
            f"{folder / CONFIG} does not match the other files: {'; '.join(mistakes)}; copy the "
            "whole folder again"
        )


def _reading_limit(held: Bundle) -> int | None:
    """The maximum number of tokens per text or window when the model was trained; None if longer
    texts were skipped."""
    limit = None if held.data.get("long") == "skip" else held.data.get("max_length")
    if limit is not None and (type(limit) is not int or limit < 2):
        raise InputError(
            f"the model's data.max_length is {limit!r:.40}, but must be a whole number above 1; "
            "copy the whole folder again"
        )
    return limit


def task_of(held: Bundle) -> Task[Any, Any]:
    """The task object of a model."""
    resources = Resources(
        held.tokenizers,
        held.labels,
        characters=getattr(held.network.config, "characters", 0) > 0,
        decoding=DecodingConfig(**held.decoding),
        statistics=held.statistics,
        max_length=_reading_limit(held),
    )
    try:
        return TASKS[held.task].make(resources)
    except (LookupError, TypeError) as error:
        raise InputError(
            f"the model folder is incomplete for task {held.task} "
            f"({type(error).__name__}: {error}); copy the whole folder again"
        ) from error


Item = TypeVar("Item")


def expect(task: Task[Any, Any], *names: str) -> Any:
    """Return the task if it is one of the tasks with these names; otherwise raise an error that
    names the command to use."""
    if not isinstance(task, tuple(TASKS[name] for name in names)):
        raise WrongTaskError(task.name, task.traits.command)
    return task


def check_task(task: Task[Any, Any], name: str) -> None:
    """Raise an error if a model was trained for a different task."""
    if task.name != name:
        raise WrongTaskError(task.name, task.traits.command)


def several(texts: Sequence[Item]) -> Sequence[Item]:
    """Return the texts; raise an error if a single text is passed instead of a list."""
    if isinstance(texts, str):
        shown = repr(texts) if len(texts) <= 60 else "text"
        raise InputError(f"expected a list of texts, got one text; write [{shown}]")
    return texts
