"""Open any model: one of ours is read, and one of another tool becomes a network with its weights,
tokenizers and decoding options."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import naming, ram_bytes
from translucid.interop.families.encoder_heads import with_mean
from translucid.interop.families.plan import ForeignModel, ImportPlan
from translucid.interop.generation_config import read_decoding, read_generation
from translucid.interop.hub import repository_of
from translucid.interop.kinds import kind_of, read_source, refusal, tool_of
from translucid.interop.placing import grouped, place_weights
from translucid.interop.tokenizers.agreement import check_labels, check_vocabularies, without_unused
from translucid.models import Network
from translucid.models.build import build_undrawn
from translucid.tasks import model_folder
from translucid.tasks.language import Language
from translucid.tasks.model_folder import Bundle
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate


@dataclass(frozen=True)
class OpenedNetwork:
    """A foreign model as a network of ours; notes: what was done to it, a line each."""

    source: ForeignModel
    plan: ImportPlan
    network: Network
    notes: tuple[str, ...]


def open_network(
    path: Path,
    mapping: Path | None = None,
    *,
    pooled: bool = False,
    ignored_keys: Sequence[str] = (),
) -> OpenedNetwork:
    """The network of a foreign model, in float32, in evaluation mode. mapping: a mapping file, for
    weights that no tool describes. pooled: of a model that gives hidden states, their mean.
    ignored_keys: keys of config.json of unknown meaning that are to be ignored."""
    source = read_source(path, mapping, ignored_keys)
    plan = tool_of(source.kind).plan(source)
    if pooled and plan.task == "none":
        plan = with_mean(plan, str(path))
    tensors = source.file.tensors
    sizes = [
        tensors[place.name].size
        for rule in plan.rules
        for place in rule.theirs
        if place.name in tensors
    ]
    available = ram_bytes()
    if available is not None and 4 * sum(sizes) > available:
        raise InputError(
            f"{path}: its {sum(sizes):,} weights take {4 * sum(sizes) / 1e9:.1f} GB in float32, "
            f"but this machine has {available / 1e9:.1f} GB of memory; use a smaller model"
        )
    try:
        network = build_undrawn(plan.config, sizes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    unused = place_weights(network, plan.rules, tensors, plan.ignored, str(path))
    notes = [*plan.notes]
    types = {tensors[place.name].dtype for rule in plan.rules for place in rule.theirs}
    if types != {"float32"}:
        notes.append(f"weights in {', '.join(sorted(types))} became float32")
    if unused:
        notes.append(f"ignored: {grouped(unused)}")
    network.eval()
    return OpenedNetwork(source, plan, network, tuple(notes))


def load(
    path: str | Path, device: str = "cpu", say: Callable[[str], None] = lambda line: None, *,
    verify: bool = True,
) -> Bundle:  # fmt: skip
    """Any model. say: receives notes on a foreign one, a line each. verify: compare a folder in
    Hugging Face's layout with transformers when it is opened for the first time."""
    path = Path(path)
    with naming(path):
        if (path.is_dir() and kind_of(path) is None) or not path.exists():
            _check_folder(path)
            return model_folder.load(path, device)
    held = import_model(path)
    for line in held.facts["notes"]:
        say(line)
    if verify and (note := compare_first(path, held)):
        say(note)
    held.network.to(device)
    return held


def import_model(
    path: Path, mapping: Path | None = None, ignored_keys: Sequence[str] = ()
) -> Bundle:
    """A foreign model with its tokenizers, as a bundle of ours. mapping: a mapping file, for
    weights that no tool describes. ignored_keys: keys of config.json of unknown meaning."""
    with naming(path):
        return _import_model(path, mapping, ignored_keys)


def _import_model(path: Path, mapping: Path | None, ignored_keys: Sequence[str]) -> Bundle:
    if mapping is None and path.is_dir() and kind_of(path) is None:
        _check_folder(path)
    opened = open_network(path, mapping, pooled=True, ignored_keys=ignored_keys)
    source, plan, tool = opened.source, opened.plan, tool_of(opened.source.kind)
    imported = tool.tokenizers(source, plan)
    if plan.task in (Translate.name, Language.name):  # what they write needs an end
        _ = list(imported.tokenizers.values())[-1].eos_id  # raises an error if there is none
    decoding, notes, statistics = dict[str, Any](), list[str](), dict(plan.statistics)
    rows = {name: plan.rows(name) for name in imported.tokenizers}
    imported = without_unused(imported, rows)
    spare = check_vocabularies(imported, rows, path)
    check_labels(plan.labels, path)
    if plan.task == Translate.name and source.kind == "ctranslate2":
        decoding, notes = read_decoding(source.folder)
    if plan.task in (Translate.name, Language.name) and source.kind == "huggingface":
        decoder = list(imported.tokenizers.values())[-1]
        start = tuple(decoder.start_ids) if plan.task == Translate.name else None
        generation = read_generation(source.folder, source.config, start, plan.rows("target"))
        decoding, notes = generation.decoding, list(generation.notes)
        statistics |= generation.statistics
    if plan.task == Tag.name:  # as its own tool answers; its tagging scheme is not stored
        decoding = {"spans": "free"}
        task = Tag(imported.tokenizers["tokenizer"], plan.labels, spans="free")
        notes = [f"tags: {task.decoding_note} (decoding.spans = free)"]
    facts = {
        "imported": f"{plan.family} model in {tool.LAYOUT}: {repository_of(path) or path.name}",
        "notes": [*opened.notes, *imported.notes, *spare, *notes],
    }
    return Bundle(
        opened.network, plan.task, imported.tokenizers, plan.labels, facts, decoding,
        statistics=statistics,
    )  # fmt: skip


def compare_first(path: Path, held: Bundle) -> str | None:
    """Compare a folder in Hugging Face's layout with transformers; a note, or None."""
    if kind_of(path) != "huggingface":
        return None
    from translucid.interop.transformers_check import compared

    return compared(path if path.is_dir() else path.parent, held)


def _check_folder(path: Path) -> None:
    """Refuse a folder that neither another tool nor Translucid wrote."""
    if path.is_dir() and not os.path.lexists(model_folder.place(path) / model_folder.CONFIG):
        raise refusal(path)
