"""How fast the studio's page is, with a text of 512 tokens in a model of 12 layers with 12 heads.

    python bench/studio.py [--width 192] [--tokens 512]

Saves an untrained model, starts `translucid explore` on it, opens the page in Chromium and walks
through its views. Prints a table for docs/studio.md: from the command to the first paint, what each
view takes the first time and again, the bytes and nodes it needs, and how long a hover takes until
what belongs together is lit. Needs the packages of the extras `web` and `dev`, and a Chromium.
"""

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import sync_playwright

from translucid.data.tokenizers import Tokenizer
from translucid.models import TransformerConfig, build
from translucid.training.bundle import Bundle
from translucid.training.model import Model

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.studio.browser import chromium  # noqa: E402

WORDS = ["the", "old", "dog", "does", "not", "like", "a", "cat", "and", "one", "bird", "sings"]
VIEWS = ("flow", "attention", "decode", "whatif")
READY = "view => (document.documentElement.dataset.ready ?? '').startsWith(view)"
MOVED = "async () => (await import('/static/js/api.js')).moved"
# A hover: the event with all that answers it, then the frame that shows it.
HOVER = """async () => {
    const svg = document.querySelector('#stage .matrix svg, #stage .panel .heat svg');
    const hit = svg.querySelector('.hit') ?? svg, box = hit.getBoundingClientRect(), times = [];
    for (let k = 0; k < 40; k++) {
        const at = { bubbles: true, clientX: box.left + box.width * ((k * 7 % 40) + .5) / 40,
                     clientY: box.top + box.height * ((k * 11 % 40) + .5) / 40 };
        await new Promise(requestAnimationFrame);
        const begun = performance.now();
        hit.dispatchEvent(new PointerEvent('pointermove', at));
        hit.dispatchEvent(new MouseEvent('mousemove', at));
        const lit = performance.now();
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
        times.push([lit - begun, performance.now() - begun]);
    }
    return times;
}"""


def save_model(folder: Path, width: int, tokens: int) -> None:
    words = Tokenizer.train("space", [" ".join(WORDS)] * 3)
    config = TransformerConfig(
        shape="decoder", head="language", vocab=len(words), d_model=width, heads=12, layers=12,
        d_ff=4 * width, dropout=0.0, max_length=2 * tokens,
    )  # fmt: skip
    Model(Bundle(build(config).eval(), "language", {"tokenizer": words}, ())).save(folder)


def measure(page: Any, address: str, begun: float, host: str, text: str) -> dict[str, float]:
    """From the command to the first paint, with the long text in the address."""
    opened = time.perf_counter()
    page.goto(f"{address}#/flow?text={quote(text)}", wait_until="commit")
    page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
    painted = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        " + performance.timeOrigin"
    )
    page.wait_for_function(READY, arg="flow")
    drawn = time.perf_counter()
    return {"listens": opened - begun, "paint": painted / 1000, "drawn": drawn - begun}


def walk(page: Any, view: str) -> tuple[float, float, int]:
    """Seconds until a view is drawn, bytes moved for it, nodes of the page."""
    before = page.evaluate(MOVED)["bytes"]
    begun = time.perf_counter()
    page.evaluate(
        "view => { delete document.documentElement.dataset.ready;"
        " location.hash = location.hash.replace(/^#.[a-z]+/, '#/' + view); }", view,
    )  # fmt: skip
    page.wait_for_function(READY, arg=view)
    took = time.perf_counter() - begun
    nodes = page.evaluate("document.querySelectorAll('*').length")
    return took, page.evaluate(MOVED)["bytes"] - before, nodes


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("--width", type=int, default=192)
    given.add_argument("--tokens", type=int, default=512)
    options = given.parse_args()
    text = " ".join((WORDS * options.tokens)[: options.tokens])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        save_model(Path(folder) / "long", options.width, options.tokens)
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(300_000)
        command = [sys.executable, "-m", "translucid", "explore", f"{folder}/long", "--no-browser"]
        begun, clock = time.perf_counter(), time.time()
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, env=os.environ) as run:
            try:
                assert run.stdout is not None
                found = re.search(r"(http://[^/]+)/open/\S+", run.stdout.readline())
                assert found is not None
                first = measure(page, found[0], begun, found[1], text)
                tell(page, first, first["paint"] - clock, options)
            finally:
                run.terminate()
        browser.close()


def tell(page: Any, first: dict[str, float], painted: float, options: Any) -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
          f"{options.tokens} tokens, 12 layers, 12 heads, {options.width} wide\n")  # fmt: skip
    print("| what | took |\n|---|---:|")
    print(f"| from the command until it listens | {first['listens']:.2f} s |")
    print(f"| until the first paint | {painted:.2f} s |")
    print(f"| until Flow is drawn | {first['drawn']:.2f} s |\n")
    print("| view | first time | again | data moved | nodes | hover to lit | to the next frame |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for view in (*VIEWS[1:], VIEWS[0]):
        took, moved, nodes = walk(page, view)
        hover = page.evaluate(HOVER) if view in ("flow", "attention") else []
        lit, shown = ((statistics.median(each) for each in zip(*hover, strict=True))
                      if hover else (None, None))  # fmt: skip
        walk(page, "attention" if view == "flow" else "flow")
        again, _, _ = walk(page, view)
        print(f"| {view} | {took:.2f} s | {again:.2f} s | {moved / 1000:,.0f} KB | {nodes} | "
              + (f"{lit:.1f} ms | {shown:.1f} ms |" if lit is not None else "| |"))  # fmt: skip


if __name__ == "__main__":
    main()
