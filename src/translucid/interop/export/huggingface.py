"""Export a model to a folder in Hugging Face's layout: config.json, model.safetensors, a tokenizer;
for generating models also generation_config.json; for sentence encoders the modules of
sentence-transformers.

Each model family (Llama, BERT, ...) describes the model in its own config.json as closely as it
can. Translucid imports that description again; the family fits if the result is the same model.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from translucid.core.errors import InputError
from translucid.data.tokenizers import chat_template
from translucid.data.tokenizers.chat_template import ChatTemplate
from translucid.data.tokenizers.imported import IMPORTED
from translucid.interop.export.rewrites import (
    LENGTH,
    Differences,
    Fitted,
    Weights,
    fitted,
    placeholder,
    reasons,
)
from translucid.interop.export.tokenizer_files import (
    are_marian,
    reading,
    write_json,
    write_marian,
    write_tokenizers,
    writing,
)
from translucid.interop.families import bart, bert, encoder_heads, gpt2, llama, neox, t5
from translucid.interop.families.encoder_heads import MODULES, OTHERS, POOLING, SIZES
from translucid.interop.families.huggingface_layout import plan_of_family
from translucid.interop.families.plan import Description, ForeignModel, ImportPlan
from translucid.interop.formats.stored import ModelFile
from translucid.interop.generation_config import FILE, as_theirs, original_of, searched
from translucid.interop.rules import to_theirs
from translucid.models.sequence_config import Shape
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.positions import Sinusoidal
from translucid.tasks.embed import MAX_LENGTH
from translucid.tasks.long_texts import text_limit
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS

Describe = Callable[[TransformerConfig, int], Description]
FAMILIES: Mapping[Shape, Mapping[str, Describe]] = {
    "decoder": {
        **{kind: partial(llama.to_huggingface, kind=kind) for kind in llama.ARCHITECTURES},
        "gpt_neox": neox.to_huggingface,
        "gpt2": gpt2.to_huggingface,
    },
    "encoder-decoder": {
        **{kind: partial(bart.to_huggingface, kind=kind)
           for kind in ("pegasus", "marian", "bart", "mbart", "m2m_100")},
        "t5": t5.to_huggingface,
    },
    "encoder": {
        kind: partial(bert.to_huggingface, kind=kind)
        for kind in ("bert", "roberta", "distilbert")
    },
}  # fmt: skip
OWN_TOKENIZER = ("qwen2",)  # transformers ignores the tokenizer class that the folder names
MODULE = "sentence_transformers.models."
STORED = ("marian", "pegasus")  # families that store their computed positions


def write_huggingface(held: Bundle, weights: Weights, folder: Path) -> list[str]:
    """Write all files into the folder, and return notes on changes to the weights."""
    foreign = reading(held).kind == IMPORTED
    vector = weights.config.head == "embed"
    fit = family_of(without_pooling(weights) if vector else weights, foreign=foreign)
    save_file(tensors_of(fit), folder / "model.safetensors", {"format": "pt"})
    config = special_ids(held) | fit.description.config | labels_of(held)
    write_json(folder / "config.json", config)
    marian = fit.plan.family == "marian" and are_marian(held)
    notes = write_marian(held, folder) if marian else write_tokenizers(held, folder)
    if vector:
        notes += write_modules(held, folder)
    if weights.config.head == "language":
        original = original_of(held)
        if original is None:
            write_json(folder / FILE, generation_of(held, config) | as_theirs(held))
            notes += searched(held, f"written to {FILE}, which generate() reads")
        else:
            write_json(folder / FILE, original)
            notes.append(f"{FILE}: unchanged from the opened model")
        if (template := ChatTemplate.stored(held.statistics)) is not None:
            (folder / chat_template.FILE).write_text(template.source, "utf-8")
            notes.append(f"{chat_template.FILE}: the chat template of the opened model")
    kind = config["model_type"]
    return [f"written as {kind}, {config['architectures'][0]}", *fit.weights.notes, *notes]


def tensors_of(fit: Fitted) -> dict[str, Tensor]:
    """All tensors of the model, named as in its Hugging Face family."""
    ours = fit.weights.tensors
    unused = ours.keys() - {place.name for rule in fit.plan.rules for place in rule.ours}
    assert not unused, f"no rule writes {unused}"
    tensors = to_theirs(fit.plan.rules, ours)
    kind, config = fit.plan.family, fit.plan.config
    assert isinstance(config, TransformerConfig)
    if kind in bart.FAMILIES and kind != "marian" and not config.tied:  # a copy, never used
        tensors["model.shared.weight"] = tensors["model.encoder.embed_tokens.weight"].clone()
    if kind in STORED:
        scheme = Sinusoidal(config.d_model, layout=config.sinusoid_layout)
        table = scheme.encode(torch.arange(LENGTH)).float()
        for side in ("encoder", "decoder"):
            tensors[f"model.{side}.embed_positions.weight"] = table.clone()
    return tensors


def special_ids(held: Bundle) -> dict[str, Any]:
    """Ids of the special tokens, under the keys of config.json: pad_token_id, eos_token_id, ..."""
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
    """Keys of generation_config.json: the first and last tokens of a text, and tokens that are
    never generated."""
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


# ---- choosing the family ----


def family_of(weights: Weights, *, foreign: bool = False, length: int = LENGTH) -> Fitted:
    """Fit the model into the family that needs the fewest weight rewrites. foreign: whether the
    model's tokenizer was imported. length: the expected length of texts."""
    tried = {
        name: _tried(weights, describe, length)
        for name, describe in FAMILIES[weights.config.shape].items()
        if foreign or name not in OWN_TOKENIZER
    }
    fitting = [one for one in tried.values() if isinstance(one, Fitted)]
    if fitting:
        return min(fitting, key=lambda one: len(one.weights.notes))
    refused = {name: keys for name, keys in tried.items() if not isinstance(keys, Fitted)}
    nearest = min(refused, key=lambda name: len(refused[name]))
    elsewhere = "; ctranslate2 may" if weights.config.head == "language" else ""
    raise InputError(
        f"no Hugging Face family can express this model: the closest is {nearest}, but "
        f"{reasons(refused[nearest])}{elsewhere}"
    )


def _tried(weights: Weights, describe: Describe, length: int) -> Fitted | Differences:
    try:
        return fitted(weights, describe, _plan, length)
    except InputError as error:  # impossible sizes for this family
        return {"sizes": (error, "others")}


def _plan(description: Description, weights: Weights) -> ImportPlan:
    """The import plan that the family's reader makes from a description."""
    names = [*description.names, *(f"#{i}" for i in range(len(weights.tensors)))]
    # Each placeholder has a different shape, so that none is mistaken for a copy of another.
    stored = {name: placeholder((i,)) for i, name in enumerate(names)}
    config = description.config
    return plan_of_family(ForeignModel.described(config, "config.json", ModelFile({}, stored)))


# ---- sentence-transformers ----


def without_pooling(weights: Weights) -> Weights:
    """The encoder without its pooling, so that it outputs one vector per token."""
    config = weights.config
    if config.outputs is not None or config.pooling not in POOLING.values():
        raise InputError(
            f"pooling {config.pooling}{'' if config.outputs is None else ' and a dense layer'} is "
            f"not supported; supported: {', '.join(POOLING.values())} without a dense layer; "
            "export to onnx instead"
        )
    return weights.changed({}, head="none", normalise=False, pooling="mean")


def write_modules(held: Bundle, folder: Path) -> list[str]:
    """Write the sentence-transformers modules that follow the encoder, and return a note."""
    config = held.network.config
    assert isinstance(config, TransformerConfig)
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    if config.normalise:
        kinds["2_Normalize"] = "Normalize"
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": MODULE + kind}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    modes = {name: pooling == config.pooling for name, pooling in POOLING.items()}
    pooled = {"word_embedding_dimension": config.d_model} | modes | dict.fromkeys(OTHERS, False)
    limit = text_limit(held.network, held.statistics.get(MAX_LENGTH))
    files: dict[str, object] = {
        MODULES: modules,
        SIZES: {"max_seq_length": limit, "do_lower_case": False},
        "1_Pooling/config.json": pooled,
    }
    for path in kinds:
        (folder / path).mkdir(exist_ok=True)
    for name, content in files.items():
        write_json(folder / name, content)
    return [f"for sentence-transformers: pooling {config.pooling}"
            + ", normalised to length 1" * config.normalise]  # fmt: skip
