"""Write the model card (README.md) of an export: task, data, scores, usage, and hub metadata."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from translucid._version import __version__
from translucid.core.errors import InputError
from translucid.core.untrusted_files import present, read_object, read_text
from translucid.interop.export.tokenizer_files import are_marian
from translucid.interop.generation_config import as_call
from translucid.tasks.model_folder import Bundle, place
from translucid.tasks.options import PLACES

MAX_RECIPE = 1 << 20

PIPELINES = {"language": "text-generation", "translate": "translation",
             "classify": "text-classification", "tag": "token-classification"}  # fmt: skip
USE = {
    ("huggingface", "language"): """\
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForCausalLM.from_pretrained("{folder}")
ids = model.generate(**tokenizer("A text", return_tensors="pt"), max_new_tokens=40)
print(tokenizer.decode(ids[0], skip_special_tokens=True))""",
    ("huggingface", "translate"): """\
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
target = AutoTokenizer.from_pretrained("{target}")
model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
ids = model.generate(**tokenizer("A text", return_tensors="pt"))
print(target.decode(ids[0], skip_special_tokens=True))""",
    ("huggingface", "classify"): """\
from transformers import pipeline

print(pipeline("text-classification", "{folder}")("A text"))""",
    ("huggingface", "tag"): """\
from transformers import pipeline

print(pipeline("token-classification", "{folder}")("A text"))""",
    ("ctranslate2", "translate"): """\
import ctranslate2
from tokenizers import Tokenizer

tokens = Tokenizer.from_file("{folder}/tokenizer.json").encode("A text").tokens
target = Tokenizer.from_file("{target}/tokenizer.json")
result = ctranslate2.Translator("{folder}").translate_batch([tokens], {search})[0]
print(target.decode([target.token_to_id(token) for token in result.hypotheses[0]]))""",
    ("ctranslate2", "language"): """\
import ctranslate2
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("{folder}/tokenizer.json")
tokens = tokenizer.encode("A text").tokens
result = ctranslate2.Generator("{folder}").generate_batch([tokens], max_length=40)[0]
print(tokenizer.decode(result.sequences_ids[0]))""",
    ("onnx", "classify"): """\
import json
from pathlib import Path

import numpy
import onnxruntime
from tokenizers import Tokenizer

labels = json.loads(Path("{folder}", "config.json").read_text("utf-8"))["id2label"]
ids = numpy.array([Tokenizer.from_file("{folder}/tokenizer.json").encode("A text").ids])
session = onnxruntime.InferenceSession("{folder}/model.onnx")
(logits,) = session.run(["logits"], {{"ids": ids, "mask": ids >= 0}})
print(labels[str(logits[0].argmax())])""",
    ("gguf", "language"): "llama-cli -m {folder}/model.gguf -p 'A text'",
}


@dataclass(frozen=True)
class About:
    """Facts for the model card, read from the run folder of a model."""

    name: str = "model"
    data: Mapping[str, Any] = field(default_factory=dict)  # data files that the recipe names
    recipe: str = ""  # the text of recipe.toml
    test: Mapping[str, Any] = field(default_factory=dict)  # test.json
    licence: str = ""


def about(folder: Path | None, name: str, licence: str = "") -> About:
    """Collect the facts for a model card. folder: the folder that the model was read from, or None.
    name: the name of the exported model."""
    run = None if folder is None else place(folder).parent
    if run is None or not present(run / "recipe.toml"):
        return About(name, licence=licence)
    recipe = read_text(run / "recipe.toml", MAX_RECIPE, "copy the run again")
    try:
        data = tomllib.loads(recipe).get("data", {})
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{run / 'recipe.toml'}: {error}; copy the complete run again") from None
    named = {key: data[key] for key in PLACES if isinstance(data, dict) and data.get(key)}
    test = read_object(run / "test.json") if present(run / "test.json") else {}
    return About(name, named, recipe, test, licence)


def card(held: Bundle, format: str, about: About, notes: Sequence[str]) -> str:
    """The text of README.md. notes: one line for each change to the weights."""
    use = USE.get((format, held.task), "")
    places = {"folder": about.name, "target": about.name}
    places["search"] = as_call(held)
    if "target" in held.tokenizers and not (format == "huggingface" and are_marian(held)):
        places["target"] = f"{about.name}/target"
    fence = "sh" if format == "gguf" else "python"
    parts = [
        _metadata(held, format, about),
        f"# {about.name}\n\nA {held.task} model of {held.network.parameters_count:,} parameters, "
        f"trained and exported with Translucid {__version__}"
        + (f" ({imported})." if (imported := held.facts.get("imported")) else "."),
        f"## Use\n\n```{fence}\n{use.format(**places)}\n```" if use else "",
        _scores(held, about),
        _data(about),
        "## Export\n\n" + "\n".join(f"- {note}" for note in notes) if notes else "",
        f"## Recipe\n\n```toml\n{about.recipe.strip()}\n```" if about.recipe else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _metadata(held: Bundle, format: str, about: About) -> str:
    lines = [
        f"license: {json.dumps(about.licence)}" if about.licence else "license: unknown",
        f"library_name: {'transformers' if format == 'huggingface' else format}",
        *([f"pipeline_tag: {PIPELINES[held.task]}"] if held.task in PIPELINES else []),
        "tags:\n- translucid",
    ]
    return "---\n" + "\n".join(lines) + "\n---"


def _scores(held: Bundle, about: About) -> str:
    """A table of the test scores, or of the validation scores if there are no test scores. It also
    shows the signatures of the metrics."""
    if numbers := about.test.get("test"):
        title, notes = "Scores on the test data", about.test.get("notes") or []
    else:
        numbers, title, notes = held.facts.get("valid") or {}, "Scores on the validation data", []
    if not numbers:
        return ""
    rows = "\n".join(f"| {name} | {value:.4g} |" for name, value in numbers.items())
    signatures = "".join(f"\n- `{note}`" for note in notes)
    return f"## {title}\n\n| metric | value |\n| --- | --- |\n{rows}" + (
        f"\n{signatures}" if signatures else ""
    )


def _data(about: About) -> str:
    rows = "\n".join(f"- {name}: {value}" for name, value in about.data.items())
    return f"## Data\n\n{rows}" if rows else ""
