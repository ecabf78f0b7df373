"""Save a session of the studio in one HTML file: the page, its styles and the recorded answers. It
opens anywhere, without a server and without the model."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.studio.answers import MOST_LIKELY
from translucid.studio.javascript import lesson_script
from translucid.studio.library import PREFETCHED, Library
from translucid.studio.page_bundle import bundle
from translucid.studio.tensors import TensorSlice, frame, unpacked
from translucid.studio.terms import carried
from translucid.studio.text_runs import Run

BUDGET = 32_000_000  # maximum characters of recorded answers in a file
QUESTIONS = 5_000  # maximum requests per page
SWITCHES = 200  # maximum number of parts to switch off, one at a time
POSITIONS = 32  # maximum positions with contributions, lens and saliency
TABLES = 64  # probes of a training run per request
REQUESTS = 20  # maximum requests per survey of many texts; a slow model needs a second for each
SURVEY = re.compile(r"/api/model/\w+/(hardest|unit|labels)\b")
LIKELIEST = 60  # tokens per position, as many as What-if requests
JSON = "application/json"


class Question(NamedTuple):
    method: str
    path: str
    body: str = ""


Ask = Callable[[Question], tuple[int, str, bytes]]  # returns status, content type and body
Prefetch = Callable[[str, Sequence[str]], None]  # takes a run and the switches that come next


def recording(
    library: Library,
    ask: Ask,
    questions: Iterable[Question],
    budget: int = BUDGET,
    *,
    computes: bool = False,
) -> dict[str, Any]:
    """Record the answers to these requests, then all tensors of their runs and the terms of some
    numbers, up to the budget. The saved page reports anything that was not recorded. computes:
    whether it has the models and computes tensors and terms itself."""
    answers: dict[Question, list[Any]] = {}
    runs: list[str] = []
    used = 0

    def keep(question: Question) -> bytes | None:
        nonlocal used
        status, kind, body = ask(question)
        encoded = body.decode() if kind == JSON else base64.b64encode(body).decode()
        if status != 200 or used + len(encoded) > budget:
            return None
        used += len(encoded)
        answers[question] = [status, kind, encoded]
        return body

    for question in questions:
        body = keep(question) if question not in answers else None
        asked = json.loads(question.body) if question[:2] == ("POST", "/api/runs") else None
        if body and asked and not asked.get("off"):  # with parts off, only differences are saved
            runs.append(json.loads(body)["run"])
    points: dict[str, str] = {}
    for key in dict.fromkeys(() if computes else runs):
        kept_run = library.kept_run(key)
        if used + kept_run.bytes * 4 // 3 <= budget:
            points[key] = base64.b64encode(_whole(kept_run)).decode()
            used += len(points[key])
            for address in carried(kept_run) if kept_run.whole else ():
                keep(_of({"run": key}, "terms", address=address))
    return {"answers": [[*asked, *answer] for asked, answer in answers.items()], "points": points}


def to_the_end(ask: Ask) -> Ask:
    """A version of `ask` that repeats the request of a survey until the survey is complete. A
    survey that stays incomplete gets status 503, because a saved page would repeat its request
    forever."""

    def answer(question: Question) -> tuple[int, str, bytes]:
        if not SURVEY.match(question.path):
            return ask(question)
        for _ in range(REQUESTS):
            status, kind, body = ask(question)
            progress = json.loads(body)
            if status != 200 or progress["done"] == progress["of"]:
                return status, kind, body
        return 503, JSON, b'{"error": "the survey did not finish in time"}'

    return answer


def _whole(run: Run) -> bytes:
    """All points of a run in full precision, as frames."""
    names = list(run.shapes)
    reading = run.reading(names)
    cut = TensorSlice((), "f32", None)
    return b"".join(frame(name, reading[name], describe(name).axes, cut) for name in names)


def page(recorded: dict[str, Any], address: str) -> bytes:
    """The HTML file. Data is embedded as JSON without `<`, and the content security policy allows
    only this page's script."""
    computes = "models" in recorded
    lessons = _lesson_script() if computes else ""
    script = bundle("saved_models.js" if computes else "recorded.js") + (
        "studio.open(document.getElementById('studio'),"
        f" JSON.parse(document.getElementById('recorded').textContent){lessons});\n"
    )
    data = json.dumps(recorded | {"address": address}, ensure_ascii=True, separators=(",", ":"))
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return document(
        "Translucid session",
        f"script-src '{_hash(script)}'; img-src data: blob:",
        f'<script type="application/json" id="recorded">{data}</script>\n'
        f'<script type="module">{script}</script>\n',
    ).encode()


def _lesson_script() -> str:
    """The lessons as an argument: a function that runs their script when it is called."""
    text = lesson_script.script().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f", () => {{\n{text}return lessons;\n}}"


def document(title: str, policy: str, scripts: str, head: str = "") -> str:
    """A page that contains only the studio. policy: what its content security policy allows besides
    its style."""
    style = "html, body { margin: 0; height: 100%; overflow: hidden; }"
    policy = (
        f"default-src 'none'; {policy}; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n{head}<style>{style}</style>\n</head>\n<body>\n"
        f'<div id="studio"></div>\n{scripts}</body>\n</html>\n'
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def read_questions(asked: Any) -> tuple[str, list[Question]]:
    """Check the body of POST /api/session: the address and the requests of the page so far."""
    match asked:
        case {"address": str(address), "asked": list(asked_before), **more} if not more:
            pass
        case _:
            raise InputError(
                "the request must be a JSON object with the keys address and asked only"
            )
    if len(asked_before) > QUESTIONS:
        raise InputError(f"asked: {len(asked_before):,} questions; the limit is {QUESTIONS:,}")
    questions = []
    for question in asked_before:
        match question:
            case ["GET" | "POST" as method, str(path), str(body)] if "/api/session" not in path:
                questions.append(Question(method, path, body))
            case _:
                raise InputError("asked: must be a list of [method, path, body]")
    return address, questions


def besides(ask: Ask, questions: Sequence[Question]) -> Iterator[Question]:
    """Yield requests for what the page links to but has not requested itself: lessons and
    training."""
    for question in questions:
        status, _, body = ask(question) if question[:2] == ("POST", "/api/runs") else (0, "", b"")
        if status == 200:
            yield from _lessons(json.loads(body)["run"], lambda asked: json.loads(ask(asked)[2]))
        described = re.fullmatch("/api/model/([a-z])", question.path)
        if described and json.loads(ask(question)[2]).get("trains"):
            yield from training(described[1], ask)


# ---- all views of one text ----


def everything(
    ask: Ask, text: str | None, prefetch: Prefetch, *, computes: bool = False
) -> Iterator[Question]:
    """Yield all requests that the views make for one text. prefetch: called with a run and the
    switches that are requested next. computes: leave out what a page with models computes."""

    def answer(question: Question) -> Any:
        status, _, body = ask(question)
        return json.loads(body) if status == 200 else None

    yield (models := Question("GET", "/api/models"))
    yield Question("GET", "/api/catalogue")
    descriptions = {
        model["m"]: Question("GET", f"/api/model/{model['m']}") for model in answer(models)
    }
    yield from descriptions.values()
    known = {m: answer(question) for m, question in descriptions.items()}
    first = next((model for model in known.values() if "unopened" not in model), None)
    if first is None:
        raise InputError("none of these runs has saved a model yet, so there is nothing to save")
    if text is None and not first["examples"]:
        raise InputError(f"{first['name']} has no example sentence; pass a text")
    text = first["examples"][0] if text is None else text
    runs: dict[str, Any] = {}
    for m in (m for m, model in known.items() if "unopened" not in model):
        yield (question := _run(m=m, text=text))
        if (run := answer(question)) is not None:
            runs[m] = run
    for m, run in runs.items():
        if computes:
            yield from _lessons(run["run"], answer)
        else:
            yield from _views(run, known[m], answer, prefetch)
    for m, model in known.items():
        if model["trains"]:
            yield from training(m, ask)
    if not computes:
        yield from _pairs(runs, answer)
    for m in runs:
        yield Question("GET", f"/api/model/{m}/hardest")


def _run(**asked: Any) -> Question:
    return Question("POST", "/api/runs", json.dumps(asked))


def _of(run: Any, what: str, **query: Any) -> Question:
    return Question("GET", f"/api/runs/{run['run']}/{what}?{urlencode(query, doseq=True)}")


def _views(
    run: Any, model: Any, answer: Callable[[Question], Any], prefetch: Prefetch
) -> Iterator[Question]:
    for kind in ("encoder", "decoder", "cross"):
        for pool in (48, 96, 40):  # Attention, Compare
            yield _of(run, "heads", kind=kind, pool=pool)
    rows = max(len(run["tokens"][side]) for side in ("source", "target"))
    if rows:  # Flow, its inspector, What-if: recorded.js selects what each of them shows
        yield (question := _of(run, "steps", k=min(LIKELIEST, MOST_LIKELY // rows)))
        yield from _credit(run, model, answer(question))
    if model["generates"]:
        yield from _search(run, answer)
    yield _diff(run, run)
    switches = model["switches"][:SWITCHES]
    for number, switch in enumerate(switches):
        if number % PREFETCHED == 0:
            prefetch(run["run"], [other["key"] for other in switches[number : number + PREFETCHED]])
        asked = {"m": run["m"], "text": run["text"], "off": [switch["key"]]}
        asked |= {} if run["target"] is None else {"target": run["target"]}
        yield (question := _run(**asked))
        other = answer(question)
        yield _of(run, "effect", off=switch["key"])  # after the run, which it reuses
        if other is not None:
            yield (pair := _diff(run, other))
            apart = (answer(pair) or {}).get("variation") or [0]
            worst = apart.index(max(apart))
            yield _of(other, "steps", positions=f"{worst}:{worst + 1}", k=LIKELIEST)
    yield from _lessons(run["run"], answer)


def _credit(run: Any, model: Any, steps: Any) -> Iterator[Question]:
    """Yield requests for contributions, lens and saliency, for the likeliest output at the first
    positions."""
    for step in (steps or {"steps": ()})["steps"][:POSITIONS]:
        if model["family"] == "transformer" and steps["at"] == "head.logits":
            yield _of(run, "contributions", position=step["n"], output=step["ids"][0])
            yield _of(run, "lens", position=step["n"])
        yield _of(run, "saliency", position=step["n"])


def _search(run: Any, answer: Callable[[Question], Any]) -> Iterator[Question]:
    yield _of(run, "draws")
    for beams in (4, 1, 2, 3, 6, 8):
        yield (question := _of(run, "decode", beam_size=beams))
        nodes = ((answer(question) or {}).get("tree") or {}).get("nodes") or []
        winner = [node["token"] for node in nodes[1:] if node["chosen"]][:-1]
        yield _of(run, "steps", tokens=_dotted(winner), k=6)
        for node in nodes[1:] if beams == 4 else []:
            before: list[int] = []
            at = nodes[node["parent"]]
            while at["parent"] is not None:
                before.insert(0, at["token"])
                at = nodes[at["parent"]]
            if before != winner[: (n := len(before))]:  # not on the path to the winner
                yield _of(run, "steps", tokens=_dotted(before), positions=f"{n}:{n + 1}", k=6)


def _dotted(tokens: list[int]) -> str:
    return ".".join(map(str, tokens))


def _lessons(run: str, answer: Callable[[Question], Any]) -> Iterator[Question]:
    yield (listed := Question("GET", "/api/lessons"))
    for lesson in answer(listed):
        yield Question("GET", f"/api/runs/{run}/lesson/{lesson['id']}")


def outlines(ask: Ask) -> Iterator[Question]:
    """Yield the requests for the lessons without a text."""
    listed = Question("GET", "/api/lessons")
    for lesson in json.loads(ask(listed)[2]):
        yield Question("GET", f"/api/lessons/{lesson['id']}")


def training(m: str, ask: Ask) -> Iterator[Question]:
    """Yield the requests for a training run, with many recorded tables in each. The saved page
    finds single tables in the answers."""
    at = f"/api/train/{m}"
    yield Question("GET", f"{at}/about")
    yield (history := Question("GET", f"{at}/history"))
    status, _, body = ask(history)
    headers = [header for header, _ in unpacked(body)] if status == 200 else []
    steps = [probe[0] for header in headers for probe in header.get("probes", ())]
    for start in range(0, len(steps), TABLES):
        query = urlencode({"step": steps[start : start + TABLES], "as": "f32"}, doseq=True)
        yield Question("GET", f"{at}/probes?{query}")


def _pairs(runs: dict[str, Any], answer: Callable[[Question], Any]) -> Iterator[Question]:
    """Yield the requests of the Compare view, in which each model also reads the other model's
    output."""
    for m, run in runs.items():
        for other, theirs in runs.items():
            if m == other:
                continue
            yield _diff(run, theirs)
            if theirs["target"] is None:
                continue
            yield (question := _run(m=m, text=run["text"], target=theirs["target"]))
            if (other_run := answer(question)) is not None:
                for kind in ("encoder", "decoder", "cross"):
                    for pool in (96, 40):
                        yield _of(other_run, "heads", kind=kind, pool=pool)
                yield _diff(run, other_run)


def _diff(a: Any, b: Any) -> Question:
    return Question("GET", f"/api/diff?{urlencode({'a': a['run'], 'b': b['run']})}")
