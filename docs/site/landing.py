"""The landing page, index.html: its template, the script of its live picture, and the model that
runs in it.

The numbers of the first sentence are in the page, computed by PyTorch, so they need no download.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from studio_links import address_of

import translucid as tl
from translucid.data import shipped_models
from translucid.studio.page_bundle import STATIC, graph

ROOT = Path(__file__).parents[2]
SCRIPT = "docs/site/static/landing.js"
MODEL = "translate"
FIRST = {"layer": 1, "head": 2, "row": 3}  # head 2 of layer 1, while the decoder writes "nicht"
LIKELY = 3  # words to show for each position


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    about = shipped_models.manifest()[MODEL]
    model = tl.load(shipped_models.BEGIN + MODEL)
    text = about["texts"][0]
    picture = computed(model, text)
    studio = (STATIC / "index.html").read_text("utf-8")
    context = {
        "mark": studio[studio.index("<svg") : studio.index("</svg>") + len("</svg>")],
        "picture": json.dumps(picture | FIRST, ensure_ascii=False).replace("<", "\\u003c"),
        "texts": about["texts"],
        "studio": address_of(shipped_models.BEGIN + MODEL, text),
        "translation": model.translate([text])[0],
        "parameters": round(about["parameters"] / 1e6, 1),
    }
    yield "index", context, "landing.html"


def computed(model: Any, text: str) -> dict[str, Any]:
    """What `computed` in landing.js computes: words, attention by head, and likely words."""
    trace = model.trace(text)
    words = trace.example.words
    layers = [trace[name][0] for name in trace.names("decoder.layers.*.cross_attention.pattern")]
    likely = trace["head.logits"][0].softmax(-1).topk(LIKELY)
    pieces = model.tokenizers["tokenizer"].pieces
    return {
        "text": text,
        "source": words.source,
        "written": words.follows,
        "unknown": [],
        "heads": [
            {"layer": layer, "head": head, "weights": rounded(weights)}
            for layer, heads in enumerate(layers)
            for head, weights in enumerate(heads)
        ],
        "likely": [
            [[pieces([word])[0], round(p, 6)] for word, p in zip(*row, strict=True)]
            for row in zip(likely.indices.tolist(), likely.values.tolist(), strict=True)
        ],
    }


def rounded(weights: Any) -> list[list[float]]:
    return [[round(weight, 6) for weight in row] for row in weights.tolist()]


def write_files(app: Sphinx, error: Exception | None) -> None:
    if error:
        return
    out = Path(app.outdir, "_static")
    script = f"{graph(SCRIPT, folder=ROOT)}graph(globalThis)('{SCRIPT}');\n"
    (out / "landing.js").write_text(script, "utf-8")
    shutil.copyfile(STATIC / "js/first.js", out / "first.js")
    folder = Path(shipped_models.__file__).parent / MODEL / "best"
    shutil.copytree(folder, out / MODEL, dirs_exist_ok=True)
    model = tl.load(shipped_models.BEGIN + MODEL)
    text = shipped_models.manifest()[MODEL]["texts"][0]
    name = f"decoder.layers.{FIRST['layer']}.cross_attention.pattern"
    model.trace(text).figure(name, head=FIRST["head"]).save(out / "landing.svg")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-collect-pages", pages)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
