"""Any model as a bundle: one of ours is read, another tool's is opened with its tokenizers."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, naming, present, read_object
from translucid.interop import first_opening
from translucid.interop.agreement import check_labels, check_vocabularies, without_unused
from translucid.interop.decoding_options import read_decoding
from translucid.interop.families.plan import Plan
from translucid.interop.generation_config import read_generation
from translucid.interop.hub import repository_of
from translucid.interop.mapping_file import read_mapping
from translucid.interop.opening import open_network
from translucid.interop.source import CONFIG, Kind, Source, kind_of
from translucid.interop.tokenizers import (
    ctranslate2,
    fairseq,
    gguf,
    joeynmt,
    llama2c,
    mapped,
    opennmt,
    read_tokenizers,
)
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.interop.unknown import refusal
from translucid.models.sequence_config import SequenceConfig
from translucid.tasks import model_folder
from translucid.tasks.language import Language
from translucid.tasks.model_folder import Bundle
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

FORMATS: dict[Kind, str] = {
    "huggingface": "Hugging Face's layout", "gguf": "GGUF", "llama2c": "llama2.c's format",
    "ctranslate2": "CTranslate2's format",
    **dict.fromkeys(("opennmt", "fairseq", "joeynmt"), "a checkpoint"),
    "mapping": "the form that a mapping file describes",
}  # fmt: skip


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
    imported = _tokenizers(opened.source, opened.plan)
    if opened.plan.task in (Translate.name, Language.name):  # what they write needs an end
        _ = list(imported.tokenizers.values())[-1].eos_id  # raises an error if there is none
    plan, decoding, notes = opened.plan, dict[str, Any](), list[str]()
    statistics = dict(plan.statistics)
    rows = {name: _rows(plan, name) for name in imported.tokenizers}
    imported = without_unused(imported, rows)
    spare = check_vocabularies(imported, rows, path)
    check_labels(plan, path)
    if plan.task == Translate.name and opened.source.kind == "ctranslate2":
        decoding, notes = read_decoding(opened.source.folder)
    if plan.task in (Translate.name, Language.name) and opened.source.kind == "huggingface":
        start = _start(imported) if plan.task == Translate.name else None
        generation = read_generation(
            opened.source.folder, opened.source.config, start, _rows(plan, "target")
        )
        decoding, notes = generation.decoding, list(generation.notes)
        statistics |= generation.statistics
    if plan.task == Tag.name:  # as its own tool answers; what it was trained on, nothing says
        decoding = {"spans": "free"}
        task = Tag(imported.tokenizers["tokenizer"], plan.labels, spans="free")
        notes = [f"tags: {task.decoding_note} (decoding.spans = free)"]
    facts = {
        "imported": f"{plan.family} model in {FORMATS[opened.source.kind]}: "
        f"{repository_of(path) or path.name}",
        "notes": [*opened.notes, *imported.notes, *spare, *notes],
    }
    return Bundle(
        opened.network, plan.task, imported.tokenizers, plan.labels, facts, decoding,
        statistics=statistics,
    )  # fmt: skip


def compare_first(path: Path, held: Bundle) -> str | None:
    """Compare a folder in Hugging Face's layout with transformers; a note, or None."""
    folder = path if path.is_dir() else path.parent
    if kind_of(path) != "huggingface":
        return None
    return first_opening.compared(folder, held)


def _check_folder(path: Path) -> None:
    """Of one that no other tool has made: it must be ours."""
    if path.is_dir() and not os.path.lexists(model_folder.place(path) / model_folder.CONFIG):
        raise refusal(path)


def _start(imported: ReadTokenizers) -> tuple[int, ...]:
    """What a decoder starts with."""
    tokenizers = imported.tokenizers
    return tuple((tokenizers.get("target") or tokenizers["tokenizer"]).start_ids)


def _rows(plan: Plan, name: str) -> int:
    """How many tokens the network knows, of a tokenizer of this name."""
    assert isinstance(plan.config, SequenceConfig)
    return (plan.config.target_vocab if name == "target" else None) or plan.config.vocab


def _tokenizers(source: Source, plan: Plan) -> ReadTokenizers:
    rows = {side: _rows(plan, side) for side in ("source", "target")}
    match source.kind:
        case "gguf":
            return gguf.tokenizer(source.file.metadata)
        case "llama2c":
            return llama2c.tokenizer(_tokenizer_file(source.path, plan), _rows(plan, "tokenizer"))
        case "ctranslate2":
            return ctranslate2.tokenizers(source.folder, source.config, rows)
        case "opennmt":
            return opennmt.tokenizers(source.config, shared=_shared(plan))
        case "fairseq":
            return fairseq.tokenizers(source.folder, source.config, rows=rows["source"],
                                      target_rows=rows["target"], shared=_shared(plan))  # fmt: skip
        case "joeynmt":
            return joeynmt.tokenizers(source.folder, source.config, rows, shared=_shared(plan))
        case "mapping":
            return mapped.tokenizers(read_mapping(source.path)[1], source.path)
        case _:
            config = read_object(inside(source.folder, CONFIG, "a model"))
            # Which a file need not say of a family that always is one.
            config |= {"is_encoder_decoder": _writes(plan)}
            return read_tokenizers(source.folder, config, max(rows.values()))


def _writes(plan: Plan) -> bool:
    """Whether a decoder answers what an encoder has read."""
    return isinstance(plan.config, SequenceConfig) and plan.config.shape == "encoder-decoder"


def _shared(plan: Plan) -> bool:
    """Whether source and target have one vocabulary."""
    return isinstance(plan.config, SequenceConfig) and plan.config.target_vocab is None


def _tokenizer_file(path: Path, plan: Plan) -> Path:
    """The tokenizer of a llama2.c model, which is a file of its own."""
    names = ("tokenizer.bin", f"tok{_rows(plan, 'tokenizer')}.bin")
    for name in names:
        if present(path.parent / name):
            return inside(path.parent, name, str(path))
    raise InputError(
        f"{path}: its tokenizer is missing; put {' or '.join(names)} into the same folder"
    )
