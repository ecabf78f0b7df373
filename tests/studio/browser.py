"""Chromium for tests: the system's own, never a downloaded one.

A test that uses the fixture `page` opens addresses with `page.see(address)`: it waits until the
studio has drawn, and fails on messages in the console, on requests to other machines, and on
scripts that a hostile text has managed to run.
"""

import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from tests.studio.at_rest import PATIENCE, AtRest

# The headless shell is the same engine without a window: it takes a quarter less processor time.
NAMES = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome",
    "google-chrome-stable", "chrome",
)  # fmt: skip
HOW = (
    "the studio's page is tested with Chromium and the Python package playwright; get them with "
    "`apt-get install chromium` (any Chromium or Chrome in PATH will do, or name one in "
    "CHROMIUM=/path/to/it) and `pip install playwright` (it need not download browsers)"
)
WINDOW: Any = {"width": 1280, "height": 800}
# Prefixes of the addresses that a page may request: this machine, its files, and data of the page.
HERE = (
    "http://127.0.0.1:",
    "http://127.0.0.1/",
    "http://localhost:",
    "ws://127.0.0.1:",
    "file:",
    "data:",
    "blob:",
)
# No other host name resolves, and `Page.check` reports the request.
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
# One process draws all pages: starting one for every page would take a third of the tests' time.
ONE_PROCESS = ("--disable-site-isolation-trials", "--renderer-process-limit=1")


def chromium() -> str | None:
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Page:
    """A page of the browser that records errors and requests to other machines."""

    inner: AtRest  # playwright's
    said: list[str] = field(default_factory=list)  # errors of the console
    left: list[str] = field(default_factory=list)  # requests to other machines
    expected: list[str] = field(default_factory=list)  # messages that the console may contain

    def see(self, address: str) -> str:
        """Open an address, wait until it is drawn, and return the view and the run that were drawn,
        as "view run"."""
        self.inner.goto(address)
        return self.ready()

    def turn(self, address: str) -> str:
        """Like `see`, but without loading the page again if it is already open, which is much
        faster."""
        before, _, after = address.partition("#")
        host = before.partition("/open/")[0]
        if not self.inner.url.startswith(f"{host}/#"):
            return self.see(address)
        self.inner.mouse.move(1, 1)
        return self.changed(
            lambda: self.inner.evaluate(
                "hash => { if (location.hash === hash) dispatchEvent(new Event('hashchange'));"
                " else location.hash = hash; }",
                f"#{after}",
            )
        )

    def text(self, selector: str) -> str:
        return self.inner.eval_on_selector(selector, "el => el.textContent")

    def wait(self, condition: str, arg: Any = None) -> None:
        """Wait until a JavaScript function returns true. A function, since the page's policy
        forbids evaluating text."""
        condition = condition if "=>" in condition else f"() => {condition}"
        self.inner.wait_for_function(condition, arg=arg)

    def ready(self, other_than: str = "") -> str:
        """Wait until the page reports that it has drawn. other_than: its report before."""
        self.inner.wait_for_function(
            "before => { const now = document.documentElement.dataset.ready;"
            " return now && now !== before; }",
            arg=other_than,
        )
        return self.drawn()

    def drawn(self) -> str:
        return self.inner.evaluate("document.documentElement.dataset.ready ?? ''")

    def changed(self, act: Any) -> str:
        """Do something that makes the page draw again, and wait for it."""
        self.inner.evaluate("delete document.documentElement.dataset.ready")
        act()
        return self.ready()

    def words(self, selector: str) -> list[str]:
        return self.inner.eval_on_selector_all(selector, "all => all.map(el => el.textContent)")

    def told(self) -> str:
        """The text of the error box; empty if there is none."""
        return " ".join(self.words(".told"))

    def check(self) -> None:
        assert self.left == [], "requests that leave this machine"
        unexpected = [line for line in self.said if not any(e in line for e in self.expected)]
        assert unexpected == [], "what the console said"
        assert self.inner.evaluate("window.hacked ?? null") is None, "a script from a text ran"


@cache
def started(path: str) -> Any:
    """Start one browser for all tests of a process, since Playwright allows only one."""
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright.chromium.launch(
        executable_path=path,
        args=[
            "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", NOWHERE_ELSE, *ONE_PROCESS
        ],
    )  # fmt: skip


@pytest.fixture(scope="session")
def running() -> Any:
    path = chromium()
    pytest.importorskip("playwright.sync_api", reason=HOW)
    if path is None:
        pytest.skip(HOW)
    return started(path)


@pytest.fixture(scope="module")
def window(running: Any) -> Iterator[Page]:
    """One page for a whole module, for tests that leave nothing behind."""
    with opened(running) as found:
        yield found


@pytest.fixture
def leaf(window: Page) -> Iterator[Page]:
    """The module's page, checked after each test."""
    for kept in (window.said, window.left, window.expected):
        kept.clear()
    yield window
    window.inner.evaluate("for (const box of document.querySelectorAll('dialog')) box.close()")
    window.check()
    if window.inner.viewport_size != WINDOW:
        window.inner.set_viewport_size(WINDOW)


@pytest.fixture(scope="module")
def tab(running: Any) -> Iterator[Page]:
    with opened(running) as found:
        yield found


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """A page as if new. It is reset after each test, because creating a new one takes seconds."""
    for kept in (tab.said, tab.left, tab.expected):
        kept.clear()
    yield tab
    try:
        tab.check()
    finally:
        for other in tab.inner.context.pages[1:]:
            other.close()
        tab.inner.mouse.move(0, 0)
        tab.inner.goto("about:blank")
        tab.inner.context.clear_cookies()
        tab.inner.context.clear_permissions()
        tab.inner.set_viewport_size(WINDOW)
        tab.inner.emulate_media(
            media="null", color_scheme="null", reduced_motion="reduce", forced_colors="null"
        )


@pytest.fixture
def own_page(running: Any) -> Iterator[Page]:
    """A new page, for tests that change something that cannot be reset."""
    with opened(running) as found:
        yield found
        found.check()


@contextmanager
def opened(running: Any) -> Iterator[Page]:
    context = running.new_context(viewport=WINDOW, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    found = Page(AtRest(context.new_page()))

    def leaves(request: Any) -> None:
        if not request.url.startswith(HERE):
            found.left.append(request.url)

    # An event, not a route: a route would pass all files through Python and turn off the cache.
    context.on("request", leaves)
    found.inner.on("console", lambda line: found.said.append(line.text)
                   if line.type in ("error", "warning") else None)  # fmt: skip
    found.inner.on("pageerror", lambda error: found.said.append(str(error)))
    found.inner.on("dialog", lambda box: (found.said.append(f"dialog: {box.message}"),
                                          box.dismiss()))  # fmt: skip
    try:
        yield found
    finally:
        context.close()
