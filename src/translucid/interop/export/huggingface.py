"""A model as a folder in Hugging Face's layout: config.json, model.safetensors, the tokenizer and,
for a model that writes, generation_config.json."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from translucid.data.tokenizers.imported import IMPORTED
from translucid.interop.export import sentence
from translucid.interop.export.homes import LENGTH, Home, home_of
from translucid.interop.export.marian_files import are_marian, write_marian
from translucid.interop.export.rewrites import Weights
from translucid.interop.export.tokenizer_files import reading, write_tokenizers, writing
from translucid.interop.families import bart, encoder_heads
from translucid.interop.generation_config import FILE, as_theirs, original_of, searched
from translucid.interop.rules import to_theirs
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.positions import Sinusoidal
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS

STORED = ("marian", "pegasus")  # that keep their computed positions in the file


def write_huggingface(held: Bundle, weights: Weights, folder: Path) -> list[str]:
    """Fills the folder; what was done to the weights, a line each."""
    foreign = reading(held).kind == IMPORTED
    vector = weights.config.head == "embed"
    home = home_of(sentence.without_pooling(weights) if vector else weights, foreign=foreign)
    save_file(tensors_of(home), folder / "model.safetensors", {"format": "pt"})
    config = special_ids(held) | home.description.config | labels_of(held)
    _write(folder / "config.json", config)
    marian = home.plan.family == "marian" and are_marian(held)
    notes = write_marian(held, folder) if marian else write_tokenizers(held, folder)
    if vector:
        notes += sentence.write_modules(held, folder)
    if weights.config.head == "language":
        original = original_of(held)
        if original is None:
            _write(folder / FILE, generation_of(held, config) | as_theirs(held))
            notes += searched(held, f"written to {FILE}, which generate() reads")
        else:
            _write(folder / FILE, original)
            notes.append(f"{FILE}: as it was when the model was opened")
    kind = config["model_type"]
    return [f"written as {kind}, {config['architectures'][0]}", *home.weights.notes, *notes]


def tensors_of(home: Home) -> dict[str, Tensor]:
    """All tensors under the family's names."""
    ours = home.weights.tensors
    unused = ours.keys() - {place.name for rule in home.plan.rules for place in rule.ours}
    assert not unused, f"no rule writes {unused}"
    tensors = to_theirs(home.plan.rules, ours)
    kind, config = home.plan.family, home.plan.config
    assert isinstance(config, TransformerConfig)
    if kind in bart.FAMILIES and kind != "marian" and not config.tied:  # a copy that nobody reads
        tensors["model.shared.weight"] = tensors["model.encoder.embed_tokens.weight"].clone()
    if kind in STORED:
        scheme = Sinusoidal(config.d_model, layout=config.sinusoid_layout)
        table = scheme.encode(torch.arange(LENGTH)).float()
        for side in ("encoder", "decoder"):
            tensors[f"model.{side}.embed_positions.weight"] = table.clone()
    return tensors


def special_ids(held: Bundle) -> dict[str, Any]:
    """Special tokens by role, as config.json names them."""
    tokenizer, special = writing(held), writing(held).special
    ids: dict[str, Any] = {"pad_token_id": special.pad, "eos_token_id": special.eos}
    if special.ends and special.eos is not None:
        ids["eos_token_id"] = [special.eos, *special.ends]
    prefix = reading(held).frame(*TASKS[held.task].around).prefix
    ids["bos_token_id"] = prefix[0] if prefix else special.bos
    if held.task == "translate":
        ids["decoder_start_token_id"] = tokenizer.start_ids[0]
        if len(tokenizer.start_ids) > 1:
            ids["forced_bos_token_id"] = tokenizer.start_ids[1]
    return {name: value for name, value in ids.items() if value is not None}


def generation_of(held: Bundle, config: dict[str, Any]) -> dict[str, Any]:
    """What a text begins and ends with, and what it never holds."""
    tokenizer = writing(held)
    made = {name: value for name, value in config.items() if name.endswith("_token_id")}
    rows = config.get("decoder_vocab_size", config["vocab_size"])
    if never := tokenizer.never_generated(rows):
        made["bad_words_ids"] = [[i] for i in never]
    return made


def labels_of(held: Bundle) -> dict[str, Any]:
    if not held.labels:
        return {}
    return {
        "id2label": {str(i): label for i, label in enumerate(held.labels)},
        "label2id": {label: i for i, label in enumerate(held.labels)},
    } | encoder_heads.config_of(held.statistics)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
