"""Models that run in the browser, in the site and in saved sessions: which models the page's own
implementation (static/js/local) supports, and the files that it reads."""

import base64
import json
import re
from functools import cache
from itertools import product
from typing import Any

from translucid.core.catalogue import entry
from translucid.core.errors import InputError
from translucid.parts.computation import written
from translucid.studio import plane
from translucid.studio.input_words import known_texts
from translucid.studio.library import Library
from translucid.studio.page_bundle import STATIC, BundleError
from translucid.studio.page_model import PageModel, describe_model, examples
from translucid.studio.terms import terms
from translucid.studio.text_runs import Run
from translucid.tasks.model_folder import CONFIG, WEIGHTS, place

LOCAL = STATIC / "js" / "local"
NAMES = ("SEQUENCE", "SUPPORTED")  # the tables of model.js


def check(model: PageModel) -> None:
    """Raise an error if the page cannot run this model."""
    why = _unsupported(model)
    if why:
        raise InputError(
            f"{model.name} does not run in the browser: {why}; omit this model, or open it with "
            "translucid explore"
        )


def files(model: PageModel) -> dict[str, bytes]:
    """The files of a model that the page reads, by their paths in the model's folder."""
    source = _folder(model)
    paths = [source / CONFIG, source / WEIGHTS, *sorted(source.glob("*/tokenizer*.json"))]
    return {path.relative_to(source).as_posix(): path.read_bytes() for path in paths}


def facts(library: Library, model: PageModel) -> dict[str, Any]:
    """Facts about the points of a model and their terms, which are the same for every text."""
    texts = examples(model)
    if not texts:
        raise InputError(f"{model.name} has no example text, which the browser's models need")
    run = library.run(model.key, texts[0])
    trained = describe_model(model).get("plane")
    return {
        "output": run.output_point, "points": model.points(run.shapes), "symbols": _symbols(run),
        **({"plane": plane.start(trained["kind"])} if trained else {}),
    }  # fmt: skip


def _symbols(run: Run) -> dict[str, dict[str, str]]:
    """The symbols of the names in the terms of each part, as MathML. The terms at the first and the
    last index of each axis contain all names."""
    symbols: dict[str, dict[str, str]] = {}
    for name, shape in run.shapes.items():
        part = entry(name).partition(".")[0]
        known = symbols.setdefault(f"backward.{part}" if ".backward." in name else part, {})
        for index in product(*({0, size - 1} for size in shape)):
            known |= terms(run, written(name, index))["symbols"]
    return symbols


def embedded(library: Library, model: PageModel) -> dict[str, Any]:
    """A model as JSON, with its weights in base 64, for one HTML file."""
    check(model)
    return facts(library, model) | {
        "files": {
            name: content.decode() if name.endswith(".json") else base64.b64encode(content).decode()
            for name, content in files(model).items()
        },
        "texts": known_texts(model),
    }


def _folder(model: PageModel) -> Any:
    if model.model.folder is None:
        raise InputError(f"{model.name}: the page needs models in folders; save this model first")
    return place(model.model.folder)


def _unsupported(model: PageModel) -> str:
    """Why the page cannot run a model; "" if it can."""
    if not (_folder(model) / CONFIG).is_file():
        return "it is not a model folder of Translucid"
    about = json.loads((_folder(model) / CONFIG).read_text("utf-8"))
    config, task = about["model"], about["task"]
    tasks, kinds = _supported()
    if task not in tasks:
        return f"its task is {task}, but the browser runs {', '.join(tasks)}"
    known = kinds.get(config["kind"])
    if known is None:
        return f"it is of kind {config['kind']}, but the browser runs {', '.join(kinds)}"
    for key, value in config.items():
        allowed = known.get(key, [])
        if allowed is not None and value not in allowed:
            return f"it has {key} = {json.dumps(value)}"
    head, pooling = config.get("head"), config.get("pooling")
    if config.get("shape") == "encoder" and head != "tag":
        if (pooling, config["kind"]) != ("last", "recurrent"):
            return f"it has pooling = {json.dumps(pooling)}"
    elif config.get("shape") in ("decoder", "encoder-decoder") and head != "language":
        return f"it has head = {json.dumps(head)}"
    for file in _folder(model).glob("*/tokenizer_meta.json"):
        kind = json.loads(file.read_text("utf-8"))["kind"]
        if kind != "word":
            return f"its tokenizer is of kind {kind}, but the browser needs kind word"
    return ""


@cache
def _supported() -> tuple[list[str], dict[str, dict[str, list[Any] | None]]]:
    """The tasks and the values of each configuration key that the page supports, by kind of
    network; None: all values. They are read from the page's modules."""
    text = (LOCAL / "model.js").read_text("utf-8")
    tables = {name: re.search(rf"const {name} = {{\n(.*?)\n}};", text, re.S) for name in NAMES}
    tasks = re.search(r"const TASKS = {(.*?)};", (LOCAL / "example.js").read_text("utf-8"))
    sequence, supported = (tables[name] for name in NAMES)
    if tasks is None or sequence is None or supported is None:
        raise BundleError(f"local/model.js or example.js: no tables TASKS and {', '.join(NAMES)}")
    body = supported[1].replace("...SEQUENCE,", sequence[1])
    body = re.sub(r"\bANY\b", "null", re.sub(r"\bNONE\b", "[null]", body)).replace("'", '"')
    body = re.sub(r",(\s*[}\]])", r"\1", re.sub(r"(\w+):", r'"\1":', f"{{{body}}}"))
    return re.findall(r"\w+", tasks[1]), json.loads(body)
