"""Write the studio as a folder of plain files, for any web server.

The page computes what depends on a typed text with models that run in the browser
(static/js/local). Recorded answers in `answers/*.json` contain everything else. The page loads
`answers/start.json` first, and each of the other files when it needs it.
"""

import json
import shutil
from collections.abc import Iterator
from itertools import groupby, permutations
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.studio import browser_models
from translucid.studio.handlers import Handlers
from translucid.studio.input_words import known_texts
from translucid.studio.javascript import lesson_script
from translucid.studio.page_bundle import STATIC, bundle
from translucid.studio.page_model import PageModel
from translucid.studio.saved_session import (
    Question,
    document,
    outlines,
    recording,
    to_the_end,
    training,
)

START = "start"


def write(handlers: Handlers, folder: Path) -> int:
    """Write the page, the opened models and the recorded answers. Returns the number of bytes."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose a new folder")
    opened = handlers.library.opened
    for model in opened.values():
        browser_models.check(model)
    (folder / "answers").mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(_index(), "utf-8")
    (folder / "studio.js").write_text(
        bundle("site.js")
        + "studio.open(document.getElementById('studio'), () => import('./lessons.js'));\n",
        "utf-8",
    )
    (folder / "lessons.js").write_text(
        lesson_script.script() + "export const { onRun, check } = lessons;\n", "utf-8"
    )
    shutil.copyfile(STATIC / "mark.svg", folder / "mark.svg")
    files = _recorded(handlers)
    for key, model in opened.items():
        for name, content in browser_models.files(model).items():
            file = folder / "models" / key / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        files[f"texts-{key}"] = known_texts(model)
        files[f"facts-{key}"] = browser_models.facts(handlers.library, model)
    start = files.pop(START) | {"files": sorted(files), "models": list(opened)}
    for name, content in {START: start, **files}.items():
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (folder / "answers" / f"{name}.json").write_text(text, "utf-8")
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _index() -> str:
    head = '<link rel="icon" href="mark.svg" type="image/svg+xml">\n'
    body = (
        '<script type="module" src="studio.js"></script>\n'
        "<noscript>The studio needs JavaScript; please switch it on.</noscript>\n"
    )
    policy = "script-src 'self'; connect-src 'self'; img-src 'self' data: blob:"
    return document("Translucid studio", policy, body, head)


def _recorded(handlers: Handlers) -> dict[str, Any]:
    """The recorded answers by file. The page loads the first file at once, and each other file,
    such as train-a-history, when it requests its path."""
    ask = to_the_end(handlers.recorded)
    questions = sorted(_questions(handlers), key=_file)
    files = {
        name: recording(handlers.library, ask, asked)
        for name, asked in groupby(questions, key=_file)
    }
    return {name: {"answers": file["answers"]} for name, file in files.items() if file["answers"]}


def _file(question: Question) -> str:
    parts = question.path.partition("?")[0].split("/")[2:]
    first = parts[0] in ("models", "catalogue", "lessons") or parts == ["model", parts[-1]]
    return START if first else "-".join(parts)


def _questions(handlers: Handlers) -> Iterator[Question]:
    """Everything that does not depend on a typed text."""
    opened = handlers.library.opened
    for path in ("models", "catalogue", "lessons"):
        yield Question("GET", f"/api/{path}")
    yield from outlines(handlers.recorded)
    for m in opened:
        yield Question("GET", f"/api/model/{m}")
        yield Question("GET", f"/api/model/{m}/hardest")
    for m in handlers.followed:
        yield from training(m, handlers.recorded)
    two_inputs = [m for m, one in opened.items() if _inputs(one) == 2]
    for a, b in permutations(two_inputs, 2):
        yield Question("GET", f"/api/planes?a={a}&b={b}")


def _inputs(model: PageModel) -> int | None:
    """The number of inputs of a model that reads numbers."""
    return getattr(model.model.network.config, "inputs", None)
