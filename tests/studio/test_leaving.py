"""A view that is left while it is drawn draws nothing more; a model that is chosen reads a text
that it can read; numbers that overflow are refused."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from urllib.parse import quote

import pytest
from tests.studio.browser import Page
from tests.studio.serving import Served, model, serving
from tests.studio.shown import same

from translucid.core.errors import InputError
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library

FAMILIES = ("translate-transformer", "translate-lstm", "regress-mlp", "tag-lstm")
KEYS = {"1": "flow", "2": "attention", "3": "recurrent", "4": "decode", "5": "whatif",
        "6": "compare", "8": "lesson", "9": "data", "0": "practice"}  # fmt: skip
# Answers wait until they are let go, so that a view can be left while it is drawn.
HOLD = """() => {
  if (window.held) return;
  const ask = window.fetch;
  window.held = [];
  window.holding = false;
  window.fetch = (...given) => ask(...given).then(answer =>
    window.holding ? new Promise(go => window.held.push(() => go(answer))) : answer);
}"""
RAPID = ["4212", "42", "2462", "1459", "39514", "864212", "9", "546231"]
SHOWN = """() => ({
  views: [...document.querySelector('#stage').children].map(el => el.className),
  kind: document.querySelector('#stage').className,
  said: document.querySelector('#stage').textContent,
  foot: document.querySelector('#readout .path')?.textContent,
  hash: location.hash,
})"""


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({family: model(family) for family in FAMILIES}) as served:
        yield served


def address(studio: Served, family: str, view: str, text: str) -> str:
    m = next(m for m, each in studio.library.opened.items() if each.name == family)
    return f"{studio.address}#/{view}?m={m}&text={quote(text)}"


@pytest.mark.slow
@pytest.mark.parametrize("family", ["translate-lstm"])
def test_a_view_that_is_left_while_it_is_drawn_draws_nothing(
    studio: Served, leaf: Page, family: str
) -> None:
    """Its answers come when the next view is there already. The next one is as if drawn alone."""
    tokens = ["the", "dog", "sees", "a", "cat", "bird", "old"]
    waited = 0
    pairs = list(pairwise([*KEYS, next(iter(KEYS))]))
    for number, (old, new) in enumerate(pairs):
        # Every pair reads a text of its own: what was asked for once would come at once.
        text = " ".join([*(tokens[(number // 7**k) % 7] for k in range(3)), "sleeps", "."])
        leaf.turn(address(studio, family, "flow" if old != "1" else "whatif", text))
        at_once = leaf.inner.at_once
        at_once.evaluate(HOLD)
        at_once.evaluate("window.holding = true")
        at_once.keyboard.press(old)
        at_once.wait_for_function(
            "view => window.held.length || document.querySelector('#stage').className === view"
            " && document.documentElement.dataset.ready.startsWith(view.slice(5))",
            arg=f"view-{KEYS[old]}",
        )
        waited += at_once.evaluate("window.held.length")
        leaf.inner.at_once.evaluate("window.holding = false")
        at_once.evaluate("delete document.documentElement.dataset.ready")
        at_once.keyboard.press(new)
        # It is drawn, or waits for an answer that the old one has asked for, too.
        at_once.wait_for_function("() => document.documentElement.dataset.ready || atRest()")
        at_once.evaluate("for (const go of window.held.splice(0)) go();")
        leaf.ready()
        shown = leaf.inner.evaluate(SHOWN)
        assert shown["kind"] == f"view-{KEYS[new]}", (old, new)
        assert len(shown["views"]) == 2, (old, new, shown["views"])
        leaf.turn(f"{studio.address}{shown['hash']}")
        assert leaf.inner.evaluate(SHOWN) == shown, (old, new)
    assert waited > len(pairs), "no view was left while it waited"


# What outlives an element: listeners of the window and the document, timers that repeat, observers
# and sockets. An observer of removed elements counts until it is disconnected.
COUNTED = """(() => {
  const alive = new Map(), add = (kind, by) => alive.set(kind, (alive.get(kind) ?? 0) + by);
  const listening = new Map(); // a listener may be added twice, and counts once
  const { addEventListener: on, removeEventListener: off } = EventTarget.prototype;
  const lasts = [window, document];
  const counts = target => lasts.includes(target) || target instanceof MediaQueryList;
  const name = (kind, more) => `${kind} ${more === true || more?.capture === true}`;
  const gone = (act, key) => listening.get(act)?.delete(key) && add(`listener ${key}`, -1);
  EventTarget.prototype.addEventListener = function (kind, act, more) {
    const key = name(kind, more);
    if (counts(this) && act && !listening.get(act)?.has(key)) {
      if (!listening.has(act)) listening.set(act, new Set());
      listening.get(act).add(key);
      add(`listener ${key}`, 1);
      if (more?.signal) on.call(more.signal, 'abort', () => gone(act, key));
    }
    return on.call(this, kind, act, more);
  };
  EventTarget.prototype.removeEventListener = function (kind, act, more) {
    if (counts(this)) gone(act, name(kind, more));
    return off.call(this, kind, act, more);
  };
  const [every, clear] = [window.setInterval, window.clearInterval];
  const timers = new Set();
  window.setInterval = (...given) => { const id = every(...given); timers.add(id); return id; };
  window.clearInterval = id => { timers.delete(id); clear(id); };
  for (const kind of ['ResizeObserver', 'MutationObserver', 'IntersectionObserver']) {
    const observing = new Set();
    window[kind] = class extends window[kind] {
      observe(...given) { observing.add(this); super.observe(...given); }
      disconnect() { observing.delete(this); super.disconnect(); }
    };
    alive.set(kind, observing);
  }
  const sockets = new Set();
  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      sockets.add(this);
      on.call(this, 'close', () => sockets.delete(this));
    }
  };
  window.alive = async () => {
    const { counts } = await import('/static/js/highlight.js');
    const counted = Object.fromEntries([...alive].map(([kind, n]) => [kind, n.size ?? n]));
    return { ...counted, timers: timers.size, sockets: sockets.size, ...counts() };
  };
})()"""


@pytest.mark.slow
def test_views_that_are_left_leave_nothing_behind(studio: Served, own_page: Page) -> None:
    """Each view is opened and left four times: no more is alive than after the first time."""
    own_page.inner.at_once.add_init_script(COUNTED)
    place = partial(address, studio, "translate-lstm", text="the dog sees a cat .")
    own_page.see(place("flow"))
    alive = []
    for _ in range(4):
        for view in [*KEYS.values(), "flow"]:
            own_page.turn(place(view))
        alive.append(own_page.inner.evaluate("alive()"))
    assert alive[-1] == alive[0]


@pytest.mark.slow
def test_of_many_keys_the_last_one_counts(studio: Served, leaf: Page) -> None:
    for number, keys in enumerate(RAPID):
        text = " ".join(["the", "dog"] * (number % 5 + 1) + ["sleeps", "."] * (number // 5 + 1))
        leaf.turn(address(studio, "translate-lstm", "flow", text))
        for key in keys:
            leaf.inner.at_once.keyboard.press(key)
        view = KEYS[keys[-1]]
        leaf.wait("view => document.documentElement.dataset.ready?.startsWith(view)", view)
        shown = leaf.inner.evaluate(SHOWN)
        assert (shown["kind"], len(shown["views"])) == (f"view-{view}", 2), (keys, shown["views"])


@pytest.mark.slow
def test_a_chosen_model_reads_a_text_that_it_can_read(studio: Served, leaf: Page) -> None:
    """Numbers or words, as the model takes; of words that its vocabulary lacks it reads none."""
    leaf.expected.append("422")
    leaf.turn(address(studio, "tag-lstm", "flow", "the dog sleeps ."))
    choose = ".model select"
    drawn = leaf.changed(lambda: leaf.inner.select_option(choose, label="translate-lstm"))
    assert studio.library.kept_run(drawn.split(" ")[1]).text == "the dog sleeps ."
    assert leaf.told() == ""
    drawn = leaf.changed(lambda: leaf.inner.select_option(choose, label="regress-mlp"))
    run = studio.library.kept_run(drawn.split(" ")[1])
    assert run.opened.name == "regress-mlp"
    assert "regress-mlp cannot read “the dog sleeps .”" in leaf.told()
    assert "own example" in leaf.told()
    leaf.turn(address(studio, "regress-mlp", "flow", "7 8 9"))
    drawn = leaf.changed(lambda: leaf.inner.select_option(choose, label="tag-lstm"))
    assert studio.library.kept_run(drawn.split(" ")[1]).text != "7 8 9"
    assert "cannot read “7 8 9” (none of its tokens" in leaf.told()


@pytest.mark.slow
def test_overflow_is_a_message_on_the_page(studio: Served, leaf: Page) -> None:
    leaf.expected.append("422")
    leaf.turn(address(studio, "regress-mlp", "flow", "0.5 1 2"))
    leaf.turn(address(studio, "regress-mlp", "flow", "1e308 1e308 1"))
    assert "x1 is '1e308', but the model computes with numbers up to" in leaf.told()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1e308 1e308 1", "x1 is '1e308', but the model computes with numbers up to"),
        ("3e38 3e38 3e38", "overflow"),
    ],
)
def test_numbers_that_overflow_are_refused(text: str, message: str) -> None:
    """On the way into the model, or within it: its weights are made large."""
    network = model("regress-mlp")
    for weight in network.network.parameters():
        weight.data *= 1e3
    library = Library({"m": network})
    with pytest.raises(InputError, match=message):
        library.run("a", text)
    body = json.dumps({"m": "a", "text": text}).encode()
    reply = Handlers(library).ask("POST", "/api/runs", body)
    assert reply.status == 422


@pytest.mark.slow
def test_a_number_that_is_not_0_is_never_written_as_0(studio: Served, leaf: Page) -> None:
    """The function that writes all numbers: right to half of the last digit that it writes."""
    leaf.turn(address(studio, "tag-lstm", "flow", "the dog sleeps ."))
    values = [0.0, 1.0, -0.25, 0.0005, 0.00049, 1.2e-4, -3.14e-9, 4.9e-3, 5.1e-3, 123.456, 1e-300]
    asked = [[value, digits] for value in values for digits in (0, 1, 2, 3, 4)]
    told = leaf.inner.evaluate(
        "async asked => { const { num } = await import('/static/js/ink.js');"
        " return asked.map(each => num(...each)); }",
        asked,
    )
    for (value, digits), text in zip(asked, told, strict=True):
        assert same(text, value), (value, digits, text)
        assert (float(text.replace("−", "-")) == 0) == (value == 0), (value, digits, text)
    assert told[asked.index([1.2e-4, 3])] == "1.2e−4"
    assert told[asked.index([-0.25, 3])] == "−0.250"
