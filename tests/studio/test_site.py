"""The site without a server: what its page computes equals what the studio's server answers, and
the built site opens in a browser."""

import json
import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.in_process import run as run_command
from tests.studio.both_sides import KEYS, OFF, Both, plain, there
from tests.studio.browser import Page
from tests.studio.local_page import Files, ask, demo
from tests.studio.serving import FAMILIES, LINEAR, Answer, model
from tests.studio.test_access import RULES, violations
from tests.studio.test_local_model import TEXTS
from tests.studio.test_local_text import CLOSE, GENERATORS, compare

import translucid as tl
from translucid.core.errors import InputError
from translucid.studio import browser_models, lesson_answers, saved_session, site, surveys, terms
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library


def close(one: Answer, two: Answer, path: str) -> None:
    """The same frames. Numbers in bytes may be rounded differently."""
    pairs = zip(one.frames, two.frames, strict=True)
    for (head, values), (expected, wanted) in pairs:
        same = ("at", "axes", "shape", "whole", "index", "scale")
        assert {k: head.get(k) for k in same} == {k: expected.get(k) for k in same}, path
        for key in ("lo", "hi", "entropy", "most"):
            assert np.allclose(head.get(key, 0), expected.get(key, 0), atol=CLOSE), (path, key)
        step = (head["hi"] - head["lo"]) / 254 if head["dtype"] == "u8" else 0
        half = 1e-3 * head["hi"] if expected["dtype"] == "f16" else 0
        assert np.array_equal(np.isfinite(values), np.isfinite(wanted)), path
        values, wanted = (np.where(np.isfinite(each), each, 0) for each in (values, wanted))
        most = CLOSE * max(1, head["hi"]) + step + half
        assert np.abs(values - wanted).max(initial=0) <= most, (path, head["at"])


TARGETS = {"translate": "Der Hund zorp", "translate-lstm": "Der Hund zorp", "tag": "O",
           "classify": "negative", "regress": "1", "perceptron": "0"}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_a_run_equals_the_servers(both: Both, name: str) -> None:
    short, odd = TEXTS[name]
    examples = demo(name).facts["examples"][:2]
    runs = [{"text": text} for text in (short, odd, *examples)]
    runs.append({"text": short, "off": OFF[name]})
    if name in TARGETS:
        target = " ".join([TARGETS[name]] * 5) if name == "tag" else TARGETS[name]
        runs.append({"text": short, "target": target})
    for given in runs:
        compare(*map(plain, both.run(name, **given)), str(given))


@pytest.mark.parametrize("name", KEYS)
def test_tensors_equal_the_servers(both: Both, name: str) -> None:
    for text in TEXTS[name]:
        run = both.run(name, text, off=OFF[name])
        points = run[0]["points"]
        paths = []
        for first in range(0, len(points), 64):
            at = [point["at"] for point in points[first : first + 64]]
            for more in ({"as": "u8"}, {"as": "f32", "pool": "64"}, {"as": "f16", "pool": "3,2"}):
                paths.append(urlencode({"at": at, **more}, doseq=True))
        deep = [point for point in points if point["shape"] and point["shape"][0] > 1]
        for point in deep[:: max(1, len(deep) // 9)]:
            more = ["1", "0:2"] + (["*,0", "0,0:1"] if len(point["shape"]) > 1 else [])
            paths += [urlencode({"at": point["at"], "index": index, "as": "f32", "pool": "64"})
                      for index in more]  # fmt: skip
        for path, one, two in both.ask([run], *(f"/api/runs/{{0}}/tensors?{q}" for q in paths)):
            close(one, two, path)


@pytest.mark.parametrize("name", [name for name in KEYS if name != "perceptron"])  # it has no steps
def test_steps_equal_the_servers(both: Both, name: str) -> None:
    for text in TEXTS[name]:
        run, paths = both.run(name, text, off=OFF[name]), ["?k=3", "?k=200&positions=0:1"]
        if name in GENERATORS:
            paths += ["?k=5&tokens=", "?k=4&tokens=7.12.9.30", "?tokens=8.5&positions=1:3&k=1"]
        both.compare([run], *(f"/api/runs/{{0}}/steps{query}" for query in paths))


@pytest.mark.parametrize("name", ["translate", "translate-lstm", "generate"])
def test_heads_equal_the_servers(both: Both, name: str) -> None:
    run = both.run(name, TEXTS[name][1])
    kinds = {"translate": ("encoder", "decoder", "cross"), "translate-lstm": ("cross",)}
    paths = [
        f"/api/runs/{{0}}/heads?kind={kind}{more}"
        for kind in kinds.get(name, ("decoder",))
        for more in ("", "&pool=5", "&pool=4&layers=0:1")
    ]
    for path, one, two in both.ask([run], *paths):
        close(one, two, path)


@pytest.mark.parametrize("name", GENERATORS)
def test_searches_and_samples_equal_the_servers(both: Both, name: str) -> None:
    run = both.run(name, TEXTS[name][1], off=OFF[name])
    both.compare(
        [run],
        "/api/runs/{0}/decode?beam_size=3",
        "/api/runs/{0}/decode?beam_size=2&n_best=1&max_length=5&begin=40.4",
        "/api/runs/{0}/draws",
        "/api/runs/{0}/draws?temperature=0.7&top_k=9&top_p=0.9&seed=4&samples=2"
        "&repetition_penalty=1.3",
    )


@pytest.mark.parametrize("name", KEYS)
def test_effects_of_switches_equal_the_servers(both: Both, name: str) -> None:
    text = TEXTS[name][0]
    run, (described,) = both.run(name, text), both.here(("GET", f"/api/model/{KEYS[name]}", ""))
    keys = [switch["key"] for switch in described.json["switches"]]
    queries = [urlencode({"off": key}) for key in keys] + [urlencode({"off": OFF[name]}, True)]
    both.compare([run], *(f"/api/runs/{{0}}/effect?{query}" for query in queries))


@pytest.mark.parametrize("name", KEYS)
def test_differences_equal_the_servers(both: Both, name: str) -> None:
    short, odd = TEXTS[name]
    target = {"target": "Der Hund schläft ."} if name.startswith("translate") else {}
    others = [{"text": short, "off": OFF[name]}, {"text": odd}, {"text": short}]
    swapped = short.replace("dog", "cat").replace("Asia", "Paris").replace("food", "hotel")
    others.append({"text": swapped})
    runs = [both.run(name, short, **target)]
    runs += [both.run(name, **given, **target) for given in others]
    both.compare(runs, *(f"/api/diff?a={{0}}&b={{{i}}}" for i in range(1, len(runs))))


def test_differences_of_two_models_equal_the_servers(both: Both) -> None:
    for one, two in (("translate", "translate-lstm"), ("generate", "generate-rnn"),
                     ("translate", "classify"), ("regress", "perceptron")):  # fmt: skip
        text = "0.5 1" if one == "regress" else "The dog sleeps."
        runs = [both.run(one, text), both.run(two, text)]
        both.compare(runs, "/api/diff?a={0}&b={1}")


@pytest.mark.parametrize("name", KEYS)
def test_contributions_and_the_lens_equal_the_servers(both: Both, name: str) -> None:
    short, odd = TEXTS[name]
    target = {"target": "Der Hund schläft ."} if name.startswith("translate") else {}
    off = [key for key in OFF[name] if "mask" not in key]
    runs = [both.run(name, short, **target), both.run(name, odd), both.run(name, short, off=off)]
    asked = [f"contributions?position={n}&output={id}" for n, id in ((0, 0), (2, 9), (1, 700))]
    asked += ["lens?position=0", "lens?position=2", "lens?position=999"]
    for number in range(3):
        paths = [f"/api/runs/{{{number}}}/{path}" for path in asked]
        for path, one, two in both.ask(runs, *paths):
            if one.status == 200:
                compare(one.json, two.json, path)
    assert any(one.status == 200 for _, one, _ in both.ask(runs, *paths)) == (
        name in ("translate", "generate")
    )


@pytest.mark.parametrize("name", KEYS)
def test_saliency_equals_the_servers(both: Both, name: str) -> None:
    for given in ({"text": TEXTS[name][0]}, {"text": TEXTS[name][1]}):
        if name.startswith("translate"):
            given["target"] = "Der Hund zorp ."
        run = both.run(name, **given)
        paths = [f"/api/runs/{{0}}/saliency?position={position}" for position in (0, 1, 2, 4, 99)]
        found = list(both.ask([run], *paths))
        for path, one, two in found:
            if one.status == 200:
                compare(one.json, two.json, path)
        assert any(one.status == 200 for _, one, _ in found) == (name != "perceptron")
    off = both.run(name, TEXTS[name][0], off=OFF[name])
    ((_, one, _),) = both.ask([off], "/api/runs/{0}/saliency?position=0")
    assert one.status == (422 if OFF[name] or name == "perceptron" else 200)


PAIRS = {
    "translate": ("The dog sleeps.", "The cat sleeps.", "Der Hund schläft ."),
    "translate-lstm": ("The dog sleeps.", "The cat sleeps.", "Der Hund schläft ."),
    "generate": ("The dog does not", "The cat does not", None),
    "generate-rnn": ("The dog does not", "The cat does not", None),
    "tag": ("She lives in Asia with Mary.", "She lives in Paris with Mary.", None),
    "classify": ("The food was great.", "The food was terrible.", None),
}


@pytest.mark.parametrize("name", PAIRS)
def test_patching_equals_the_servers(both: Both, name: str) -> None:
    text, other, target = PAIRS[name]
    more = {} if target is None else {"target": target}
    off = [key for key in OFF[name] if "forget" not in key and "input_gate" not in key]
    runs = [both.run(name, text, **more), both.run(name, other, **more)]
    runs.append(both.run(name, other, off=off, **more))
    for corrupted in ("{1}", "{2}") if off else ("{1}",):
        pair = f"clean={{0}}&corrupted={corrupted}"
        both.compare(runs, f"/api/patching?{pair}")
        ((_, outline, _),) = both.ask(runs, f"/api/patching?{pair}")
        measure = {key: outline.json[key] for key in ("position", "output")}
        fixed = f"{pair}&{urlencode(measure | {'against': (measure['output'] + 1) % 2})}"
        both.compare(runs, *(f"/api/patching?{q}" for q in (fixed, f"{pair}&{urlencode(measure)}")))
        for table in outline.json["tables"]:
            for at in {table["points"][0], table["points"][-1]}:
                both.compare(
                    runs,
                    f"/api/patching/row?{pair}&at={at}",
                    f"/api/patching/row?{fixed}&at={at}&tokens=1:3",
                    f"/api/patching/cell?{pair}&at={at}&token=1",
                )


def test_patching_a_part_that_is_off_equals_the_servers(both: Both) -> None:
    text, other, target = PAIRS["translate"]
    off = ["encoder.layers.0"]
    runs = [both.run("translate", text, target=target)]
    runs.append(both.run("translate", other, target=target, off=off))
    at = "encoder.layers.0.feedforward_residual.branch"
    both.compare(
        runs,
        f"/api/patching/row?clean={{0}}&corrupted={{1}}&at={at}",
        f"/api/patching/cell?clean={{0}}&corrupted={{1}}&at={at}&token=2",
    )


@pytest.mark.parametrize("name", KEYS)
def test_recorded_answers_are_the_servers(both: Both, name: str) -> None:
    m = KEYS[name]
    listed = json.loads(there(both.server, "GET", "/api/lessons").body)
    paths = ["/api/models", "/api/catalogue", "/api/lessons", f"/api/model/{m}"]
    paths += [f"/api/model/{m}/text?number={number}" for number in (0, 7, 10**9 - 1)]
    (described,) = both.here(("GET", f"/api/model/{m}", ""))
    run = both.run(name, described.json["examples"][0])
    both.compare([run], *paths, *(f"/api/runs/{{0}}/lesson/{lesson['id']}" for lesson in listed))
    for path in (f"/api/train/{m}/about", f"/api/train/{m}/history"):
        ((_, one, two),) = both.ask([], path)
        assert one.status != 200 or one.body == two.body, path


TYPED = ("", "The do", "Th", "the DOG zorp sleeps .", "Teh dgo sleps!", "a👩‍🔬 dog 12 don't,x;",
         "Der Hund  schläft : gut", "Foood was gret but teh serviec;", "I've ² wrld'll", "zorp?",
         "lives in Amercia and Jordn", "0.5 1", "x" * 300)  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_known_and_unknown_words_equal_the_servers(both: Both, name: str) -> None:
    m = KEYS[name]
    both.compare([], f"/api/model/{m}/words")
    asked = ("POST", f"/api/model/{m}/unknown", json.dumps({"texts": [*TYPED, *TEXTS[name]]}))
    (one,), two = both.here(asked), there(both.server, *asked)
    assert one.json == two.json
    assert name in ("regress", "perceptron") or any(one.json)
    for texts in ([], ["x" * 20_001]):
        asked = ("POST", f"/api/model/{m}/unknown", json.dumps({"texts": texts}))
        assert both.here(asked)[0].status == there(both.server, *asked).status == 422


WRONG = [
    "/api/runs/{0}/tensors?at=head.logit", "/api/runs/{0}/tensors?at=head.logits&index=99",
    "/api/runs/{0}/tensors", "/api/runs/{0}/steps?k=0", "/api/runs/{0}/steps?positions=3:2",
    "/api/runs/{0}/steps?positions=0:99", "/api/runs/{0}/steps?tokens=99999",
    "/api/runs/{0}/heads?kind=own", "/api/runs/{0}/heads?layers=0:9",
    "/api/runs/{0}/decode?beam_size=0", "/api/runs/{0}/decode?beam_size=2&n_best=3",
    "/api/runs/{0}/draws?temperature=x", "/api/runs/{0}/effect?off=head",
    "/api/runs/{0}/effect?off=encoder.layers.0@50", "/api/patching?clean={0}",
    "/api/patching?clean={0}&corrupted={0}&position=99", "/api/patching?clean={0}&corrupted=x",
    "/api/patching/row?clean={0}&corrupted={0}&at=encoder.layers.0.feedforward_residual.sum",
    "/api/patching/cell?clean={0}&corrupted={0}&at=encoder.layers.0.feedforward.output&token=99",
    "/api/runs/nothing/steps", "/api/diff?a={0}",
]  # fmt: skip


def test_what_the_server_refuses_is_refused(both: Both) -> None:
    run = both.run("translate", TEXTS["translate"][0])
    for path, one, _ in both.ask([run], *WRONG):
        assert one.status == 422, path
        assert one.json["error"], path
    numbers = both.run("perceptron", TEXTS["perceptron"][0])
    for _, one, two in both.ask([numbers], "/api/runs/{0}/steps?k=3"):
        assert one.json == two.json
        assert "one number" in one.json["error"]
    bodies = [{"text": " "}, {"text": "x" * 20_001}, {"text": "The", "off": ["no"]}, {"m": "z"}]
    for body in bodies:
        asked = json.dumps({"m": "a", "text": "The"} | body)
        (one,) = both.here(("POST", "/api/runs", asked))
        assert one.status == there(both.server, "POST", "/api/runs", asked).status == 422


def test_what_the_page_cannot_compute_is_named(both: Both) -> None:
    paths = ["/api/practice"]
    found = both.here(*(("GET", path, "") for path in paths), ("POST", "/api/session", "{}"))
    for path, one in zip([*paths, "/api/session"], found, strict=True):
        assert one.status == 422, path
        assert "installed program" in one.json["error"], path


# ---- the built site ----

ROOT = "document.querySelector('#studio > div').shadowRoot.querySelector('.studio')"
FIRST = 3_000_000  # bytes until the first number is on the page


class Counted(SimpleHTTPRequestHandler):
    """The files of a site; counts the bytes and notes what is missing."""

    sent = 0
    missing: ClassVar[list[str]] = []

    def copyfile(self, source: Any, outputfile: Any) -> None:
        Counted.sent += Path(source.name).stat().st_size
        super().copyfile(source, outputfile)

    def send_error(self, code: int, *more: Any) -> None:
        Counted.missing.append(f"{code} {self.path}")
        super().send_error(code, *more)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def published(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, in a folder below the root of a plain file server."""
    root = tmp_path_factory.mktemp("published")
    shutil.copytree(built, root / "a site")
    Counted.extensions_map = {**Counted.extensions_map, ".js": "text/javascript"}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Counted, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/a%20site/"
    finally:
        server.shutdown()
        thread.join(300)
        server.server_close()


def drawn(page: Page) -> str:
    page.wait(f"() => document.querySelector('#studio > div') && {ROOT}.dataset.ready")
    return page.inner.evaluate(f"{ROOT}.dataset.ready")


def walk(page: Page, address: str) -> str:
    page.inner.evaluate(f"delete {ROOT}.dataset.ready")
    page.inner.evaluate("to => { location.hash = to; }", address)
    return drawn(page)


def test_the_first_page_needs_few_bytes_and_only_its_own_files(
    own_page: Page, published: str
) -> None:
    asked: list[str] = []
    own_page.inner.on("request", lambda request: asked.append(request.url))
    Counted.sent, Counted.missing = 0, []
    own_page.inner.goto(published)
    assert drawn(own_page).startswith("lesson ")
    assert "0.9" in own_page.inner.locator("#studio .opening-cell .sum").inner_text()
    assert Counted.sent < FIRST
    assert Counted.missing == []
    assert all(url.startswith(published) for url in asked), asked
    opened = {url.removeprefix(published).split("/")[1] for url in asked if "/models/" in url}
    assert opened == {"a"}  # only the model on the page


# The parts of the page that scroll sideways.
WIDER = f"""() => [document.documentElement, {ROOT}, ...{ROOT}.querySelectorAll(
    '#bar, #sentence, #stage, footer')].filter(each => each.scrollWidth > each.clientWidth)
    .map(each => each.id || each.tagName)"""
VIEWS = [
    "lesson", "flow", "attention", "decode", "whatif", "compare", "train", "data", "practice",
    "recurrent?m=b", "recurrent?m=d", "flow?m=c", "flow?m=g", "flow?m=h", "whatif?m=f",
    "decode?m=e", "whatif?off=encoder.layers.0", "compare?m=h",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_opens_on_a_phone(own_page: Page, published: str, theme: str) -> None:
    """Without sideways scrolling, and without violations of axe-core's rules."""
    own_page.inner.set_viewport_size({"width": 360, "height": 740})
    own_page.inner.goto(published)
    drawn(own_page)
    for view in VIEWS:
        name, _, query = view.partition("?")
        assert walk(own_page, f"#/{name}?{query}&theme={theme}").startswith(name), view
        assert own_page.inner.locator("#studio .told").count() == 0, view
        assert own_page.inner.evaluate(WIDER) == [], view
        assert violations(own_page, RULES) == [], view
    assert Counted.missing == []


def test_a_typed_sentence_has_the_numbers_of_pytorch(own_page: Page, published: str) -> None:
    own_page.inner.goto(published)
    drawn(own_page)
    text = "The old woman sees the small cat."
    own_page.inner.evaluate(f"delete {ROOT}.dataset.ready")
    own_page.inner.locator("#studio .sentence input").fill(text)
    own_page.inner.locator("#studio .sentence .read").click()
    assert drawn(own_page).startswith("lesson ")
    assert sum(same_pattern(own_page, text, head) for head in range(4)) >= 200


def same_pattern(page: Page, text: str, head: int) -> int:
    """Compare the numbers of an attention pattern on the page with PyTorch's; returns how many."""
    pattern = demo("translate").trace(text)["decoder.layers.1.cross_attention.pattern"][0, head]
    walk(page, f"#/attention?text={text}&kind=cross&layer=1&head={head}")
    page.inner.keyboard.press("t")
    cells = page.inner.locator("#studio dialog .tablebox td.n")
    cells.first.wait_for()
    numbers = [float(cell.replace("−", "-")) for cell in cells.all_inner_texts()]
    page.inner.keyboard.press("Escape")
    assert numbers == pytest.approx(pattern.flatten().tolist(), abs=6e-4)  # shown rounded
    return len(numbers)


def test_a_lesson_shows_and_checks_a_typed_sentence(own_page: Page, published: str) -> None:
    own_page.inner.goto(published)
    drawn(own_page)
    typed_lesson(own_page)
    assert Counted.missing == []


def typed_lesson(page: Page) -> None:
    """Open a stop with a task on a typed sentence: the text is Python's, and *Check* works."""
    text, number = "The dog does not see the cat.", 9
    walk(page, f"#/attention?text={text}&lesson=attention.{number}")
    step = lesson_answers.on_run(Library({"m": demo("translate")}).run("a", text), "attention")
    shown = page.inner.locator("#studio #lesson")
    for piece in step["steps"][number - 1]["say"]:
        assert piece["text"] in shown.inner_text()
    shown.locator(".try").click()
    verdict = shown.locator(".check.right")
    verdict.wait_for()
    assert "✓ It writes: Der Hund" in verdict.inner_text()


@pytest.mark.slow
def test_a_saved_file_with_its_model_answers_other_texts(
    own_page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_session, "SWITCHES", 1)
    monkeypatch.setattr(terms, "CARRIED", 10)
    monkeypatch.setattr(surveys, "TEXTS", 4)
    library, saved = Library({"demo:translate": demo("translate")}), tmp_path / "saved.html"
    models = {"a": browser_models.embedded(library, library.opened["a"])}
    text, other = "The dog sleeps.", "The old woman sees the small cat."
    saved.write_bytes(Handlers(library).saved(text, f"#/flow?text={text}", models=models))
    own_page.inner.context.set_offline(True)
    own_page.inner.goto(saved.as_uri())
    key = drawn(own_page).removeprefix("flow ")
    assert key == library.run("a", text).key  # recorded
    told = own_page.inner.locator("#studio .told")
    walk(own_page, f"#/whatif?text={text}&off=decoder.layers.1")  # not recorded
    assert told.count() == 0
    walk(own_page, f"#/flow?text={text}")
    own_page.inner.evaluate(f"delete {ROOT}.dataset.ready")
    own_page.inner.locator("#studio .sentence .rewrite").click()
    own_page.inner.locator("#studio .sentence input").fill(other)
    own_page.inner.keyboard.press("Enter")
    assert drawn(own_page).removeprefix("flow ") != key
    for view in ("decode", "whatif", "lesson", "data"):
        walk(own_page, f"#/{view}?text={other}")
        assert told.count() == 0, view
    for shown in (text, other):
        assert same_pattern(own_page, shown, 2) >= 20
    typed_lesson(own_page)


def test_all_shipped_models_run_in_the_browser() -> None:
    for name in KEYS:
        browser_models.check(Library({name: demo(name)}).opened["a"])


@pytest.mark.parametrize("family", [*FAMILIES, *LINEAR])
def test_models_that_the_browser_cannot_run_are_refused_by_name(
    leaf: Page, local: str, tmp_path: Path, family: str
) -> None:
    """The check before a site is written refuses exactly the models that the page refuses."""
    model(family).save(Files.own / family)
    handlers = Handlers(Library({family: tl.load(Files.own / family)}))
    refused = ask(leaf, local, "refusal", f"/own/{family}")
    if not refused:
        browser_models.check(handlers.library.opened["a"])
        return
    with pytest.raises(InputError, match=f"{family} does not run in the browser: ") as found:
        site.write(handlers, tmp_path / "site")
    reasons = re.findall(r"it has (\w+ = .*?);|of kind (\w+)", str(found.value))
    assert any(word in refused for pair in reasons for word in pair if word), (refused, found.value)
    assert not (tmp_path / "site").exists()


# ---- the command ----


def test_the_command_writes_a_site_and_keeps_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "my site"
    done = run_command("explore", "demo:perceptron", "--site", str(folder))
    assert done.returncode == 0, done.stderr
    assert "http.server" in done.stdout
    start = json.loads((folder / "answers" / "start.json").read_text("utf-8"))
    assert start["models"] == ["a"]
    again = run_command("explore", "demo:perceptron", "--site", str(folder))
    assert again.returncode != 0
    assert "not empty" in again.stderr
    both = run_command("explore", "--site", str(tmp_path / "x"), "--save", str(tmp_path / "y"))
    assert both.returncode != 0
    assert "--site" in both.stderr
