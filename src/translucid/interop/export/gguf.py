"""Export a Llama-like language model to model.gguf for llama.cpp: weights in float32, and the
tokenizer in the header. To quantise the file, use llama.cpp's own tools."""

import json
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.tokenizers.chat_template import GGUF, ChatTemplate
from translucid.data.tokenizers.surface import steps
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.export.rewrites import Fitted, Weights, fitted, placeholder, reasons
from translucid.interop.families import llama_cpp
from translucid.interop.families.llama_cpp import KEY, PRE_TOKENIZERS, to_gguf
from translucid.interop.families.plan import Description, ForeignModel, ImportPlan
from translucid.interop.formats.gguf_file import write_gguf
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import to_theirs
from translucid.interop.tokenizers.sentencepiece import CONTROL, NORMAL, UNUSED
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS

FILE = "model.gguf"


def write_file(held: Bundle, weights: Weights, folder: Path) -> list[str]:
    """Write model.gguf into the folder, and return notes on changes to the weights."""
    facts = tokenizer_facts(held)
    c = weights.config
    if (c.shape, c.head) != ("decoder", "language"):
        raise InputError(
            f"only language models can be exported to GGUF, but this model is an {c.shape} with "
            f"head {c.head}; export to ctranslate2 or huggingface"
        )
    fit = fitted(weights, to_gguf, _plan)
    if not isinstance(fit, Fitted):
        raise InputError(
            f"llama.cpp supports only Llama-like models; this one differs: {reasons(fit)}; export "
            "to huggingface or ctranslate2"
        )
    name = {"general.name": folder.name.strip(".").removesuffix(".writing")}
    tensors = to_theirs(fit.plan.rules, fit.weights.tensors)
    write_gguf(folder / FILE, fit.description.config | name | facts, tensors)
    return [f"written as {fit.plan.family}, float32", *fit.weights.notes]


def _plan(description: Description, weights: Weights) -> ImportPlan:
    """The import plan that Translucid's GGUF reader makes from the described header."""
    c = weights.config
    tensors = dict.fromkeys([*description.names, *weights.tensors], placeholder())
    tensors["token_embd.weight"] = placeholder((c.vocab, c.d_model))
    facts = description.config
    return llama_cpp.plan(ForeignModel.described(facts, "GGUF", ModelFile(facts, tensors)))


def tokenizer_facts(held: Bundle) -> dict[str, Any]:
    """Header metadata that describe the tokenizer as byte-level BPE, as in GPT-2."""
    tokenizer = next(iter(held.tokenizers.values()))
    spec = json.loads(tokenizer.spec)
    names = list(tokenizer.vocab)
    special = tokenizer.special
    prefix = tokenizer.frame(*TASKS[held.task].around).prefix
    control = tokenizer.special_ids | ({special.unk} if special.unk is not None else set())
    types = [CONTROL if i in control else NORMAL for i in range(len(names))]
    spare = range(len(names), held.network.config.model_dump()["vocab"])
    names += [f"<unused{i}>" for i in spare]
    facts: dict[str, Any] = {
        "model": "gpt2",
        "pre": _split_of(tokenizer, spec),
        "tokens": names,
        "token_type": [*types, *[UNUSED] * len(spare)],
        "merges": [
            pair if isinstance(pair, str) else " ".join(pair) for pair in spec["model"]["merges"]
        ],
        "bos_token_id": prefix[0] if prefix else special.bos,
        "eos_token_id": special.eos,
        "padding_token_id": special.pad,
        "add_bos_token": bool(prefix),
    }
    template = ChatTemplate.stored(held.statistics)
    chat = {} if template is None else {GGUF: template.source}
    return {KEY + name: value for name, value in facts.items() if value is not None} | chat


def _split_of(tokenizer: Tokenizer, spec: dict[str, Any]) -> str:
    """llama.cpp's name for how a text is split before BPE."""
    model, parts = spec["model"], list(steps(spec.get("pre_tokenizer")))
    if model["type"] == "BPE" and not spec.get("normalizer") and not model.get("byte_fallback"):
        if not model["merges"] and [part["type"] for part in parts] == ["ByteLevel"]:
            return "gpt-2"  # tokens are single bytes, so splitting does not matter
        for name, known in PRE_TOKENIZERS.items():
            if len(parts) == len(known) and all(
                own.items() <= part.items() for own, part in zip(map(_deciding, known), parts,
                                                                 strict=True)
            ):  # fmt: skip
                return name if name != "default" else "gpt-2"
    raise InputError(
        f"llama.cpp cannot split texts as this {tokenizer.kind} tokenizer does; train with "
        "tokenizer.kind = bpe or bytes, or export to huggingface"
    )


def _deciding(part: dict[str, Any]) -> dict[str, Any]:
    """The options of a pre-tokenizer step that determine how it splits a text."""
    return {key: value for key, value in part.items() if key != "trim_offsets"}
