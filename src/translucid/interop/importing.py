"""Open any model. A model made with another tool becomes a Translucid network with its tokenizers
and search options."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import naming, ram_bytes
from translucid.data.tokenizers.chat_template import GGUF, KEY, ChatTemplate
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families.encoder_heads import with_mean
from translucid.interop.families.plan import CONFIG, ForeignModel, ImportPlan
from translucid.interop.generation_config import read_decoding, read_generation
from translucid.interop.hub import repository_of
from translucid.interop.kinds import identify, read_origin, read_source, refusal, tool_of
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
    """A foreign model as a Translucid network. notes: one line for each change made to it."""

    source: ForeignModel
    plan: ImportPlan
    network: Network
    notes: tuple[str, ...]


def open_network(
    path: Path, mapping: Path | None = None, ignored_keys: Sequence[str] = ()
) -> OpenedNetwork:
    """Open the network of a foreign model, without its tokenizers. For the arguments, see
    `read_source`."""
    return _network(read_source(path, mapping, ignored_keys), path)


def _network(source: ForeignModel, path: Path, *, pooled: bool = False) -> OpenedNetwork:
    """Build the network in float32 and evaluation mode. path: as the user gave it. pooled: add mean
    pooling to a network that returns hidden states."""
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
        notes.append(f"weights were converted from {', '.join(sorted(types))} to float32")
    if unused:
        notes.append(f"ignored tensors: {grouped(unused)}")
    network.eval()
    return OpenedNetwork(source, plan, network, tuple(notes))


def load(
    path: str | Path, device: str = "cpu", say: Callable[[str], None] = lambda line: None, *,
    verify: bool = True,
) -> Bundle:  # fmt: skip
    """Load any model. say: called with each note on a foreign model. verify: compare a folder in
    Hugging Face's layout with transformers when it is opened for the first time."""
    path = Path(path)
    with naming(path):
        origin = identify(path)
        if origin.kind is None and not path.is_file():
            if path.is_dir() and not os.path.lexists(model_folder.place(path) / CONFIG):
                raise refusal(path)
            return model_folder.load(path, device)
        source = read_origin(origin)
        held = bundle_of(source, path)
    for line in held.facts["notes"]:
        say(line)
    if verify and (note := compare_first(source, held)):
        say(note)
    held.network.to(device)
    return held


def import_model(path: Path) -> Bundle:
    """Import a foreign model and its tokenizers as a Translucid bundle."""
    with naming(path):
        return bundle_of(read_source(path), path)


def bundle_of(source: ForeignModel, path: Path) -> Bundle:
    """Build a bundle from the network and the tokenizers of a foreign model. path: as the user gave
    it."""
    opened = _network(source, path, pooled=True)
    plan, tool = opened.plan, tool_of(source.kind)
    imported = tool.tokenizers(source, plan)
    generates = plan.task in (Translate.name, Language.name)
    decoder = list(imported.tokenizers.values())[-1]
    if generates:
        _ = decoder.eos_id  # raises an error if there is no end token
    decoding, notes, statistics = dict[str, Any](), list[str](), dict(plan.statistics)
    rows = {name: plan.rows(name) for name in imported.tokenizers}
    imported = without_unused(imported, rows)
    spare = check_vocabularies(imported, rows, path)
    check_labels(plan.labels, path)
    if plan.task == Translate.name and source.kind == "ctranslate2":
        decoding, notes = read_decoding(source)
    if generates and source.kind == "huggingface":
        start = tuple(decoder.start_ids) if plan.task == Translate.name else None
        generation = read_generation(source, start, plan.rows("target"))
        decoding, notes = generation.decoding, list(generation.notes)
        statistics |= generation.statistics
    if plan.task == Language.name:
        template, more = chat_template_of(source, decoder)
        statistics |= {} if template is None else {KEY: template.as_dict()}
        notes += more
    if (
        plan.task == Tag.name
    ):  # as its own tool does: foreign models do not store their tagging scheme
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


def chat_template_of(
    source: ForeignModel, tokenizer: Tokenizer
) -> tuple[ChatTemplate | None, list[str]]:
    """The chat template of a model in Hugging Face's layout or in GGUF, and notes on it."""
    try:
        if source.kind == "huggingface":
            template = ChatTemplate.find(source.folder)
        elif source.config.has(GGUF):
            ids = {"bos_token": tokenizer.special.bos, "eos_token": tokenizer.special.eos}
            names = list(tokenizer.vocab)
            special = {name: names[i] for name, i in ids.items() if i is not None}
            template = ChatTemplate(source.config.text(GGUF), special)
        else:
            return None, []
    except InputError as error:
        return None, [f"the model cannot chat: {error}"]
    return template, [] if template is None else ["has a chat template: generate --chat, serve"]


def compare_first(source: ForeignModel, held: Bundle) -> str | None:
    """Compare a model in Hugging Face's layout with transformers, and return a note, if any."""
    if source.kind != "huggingface":
        return None
    from translucid.interop.transformers_check import compared

    return compared(source.folder, held)
