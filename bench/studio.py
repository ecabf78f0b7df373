"""Measure the speed of the studio's page with a text of 512 tokens in a model of 12 layers with 12
heads.

    python bench/studio.py [--width 192] [--tokens 512]

Saves an untrained model, starts `translucid explore` on it, opens the page in Chromium and visits
its views. Prints the table of docs/explanation/studio.md: the time to the first paint; for each
view, the time to draw it for the first time and again, and its bytes and nodes; and the delay of a
hover. Needs the packages of the extra `web` and the group `dev`, and Chromium.
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

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.model import Model
from translucid.models import TransformerConfig, build
from translucid.tasks.model_folder import Bundle

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.studio.browser import chromium  # noqa: E402

WORDS = ["the", "old", "dog", "does", "not", "like", "a", "cat", "and", "one", "bird", "sings"]
VIEWS = ("flow", "attention", "decode", "whatif")
READY = "view => (document.documentElement.dataset.ready ?? '').startsWith(view)"
MOVED = "async () => (await import('/static/js/api.js')).moved"
# A hover: the event with all its handlers, then the frame that shows the result.
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


class Work:
    """Elapsed seconds, and seconds of processor time of the server and of the page's main thread.
    On a busy machine, the processor time tells how long a quiet one would take."""

    def __init__(self, page: Any, server: int) -> None:
        self.page, self.server = page, server
        self.devtools = page.context.new_cdp_session(page)
        self.devtools.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        self.devtools.send("Performance.enable")

    def now(self) -> tuple[float, float]:
        found = self.devtools.send("Performance.getMetrics")["metrics"]
        page = next(each["value"] for each in found if each["name"] == "TaskDuration")
        return time.perf_counter(), page + server_time(self.server)


def server_time(pid: int) -> float:
    cells = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


def walk(work: Work, view: str, address: str = "") -> tuple[float, float, int, int, int]:
    """Open a view: elapsed seconds and processor time until it is drawn, its requests and bytes,
    and the nodes of the page."""
    page = work.page
    before = {"asked": 0, "bytes": 0} if address else page.evaluate(MOVED)
    begun = work.now()
    if address:
        page.goto(address)
    else:
        page.evaluate(
            "view => { delete document.documentElement.dataset.ready;"
            " location.hash = location.hash.replace(/^#.[a-z]+/, '#/' + view); }", view,
        )  # fmt: skip
    page.wait_for_function(READY, arg=view)
    took, worked = (b - a for a, b in zip(begun, work.now(), strict=True))
    nodes = page.evaluate("document.querySelectorAll('*').length")
    asked, moved = (page.evaluate(MOVED)[name] - before[name] for name in ("asked", "bytes"))
    return took, worked, asked, moved, nodes


def hover(work: Work) -> str:
    begun = work.now()[1]
    times = work.page.evaluate(HOVER)
    each = 1000 * (work.now()[1] - begun) / len(times)
    return f"{statistics.median(lit for lit, _ in times):.1f} ms | {each:.1f} ms"


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("--width", type=int, default=192)
    given.add_argument("--tokens", type=int, default=512)
    options = given.parse_args()
    text = quote(" ".join((WORDS * options.tokens)[: options.tokens]))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        save_model(Path(folder) / "long", options.width, options.tokens)
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(600_000)
        command = [sys.executable, "-m", "translucid", "explore", f"{folder}/long", "--no-browser"]
        begun, clock = time.perf_counter(), time.time()
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as run:
            try:
                assert run.stdout is not None
                found = re.search(r"http://\S+", run.stdout.readline())
                assert found is not None
                listens = time.perf_counter() - begun, server_time(run.pid)
                tell(Work(page, run.pid), f"{found[0]}#/flow?text={text}", listens, clock, options)
            finally:
                run.terminate()
        browser.close()


def tell(
    work: Work, address: str, listens: tuple[float, float], clock: float, options: Any
) -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
          f"{options.tokens} tokens, 12 layers, 12 heads, {options.width} wide\n")  # fmt: skip
    flow = walk(work, "flow", address)
    painted = work.page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    begun = work.page.evaluate("performance.timeOrigin / 1000") - clock
    print("| from the command | passed | work |\n|---|---:|---:|")
    print(f"| until it listens | {listens[0]:.2f} s | {listens[1]:.2f} s |")
    print(f"| until the first paint | {begun + painted / 1000:.2f} s | |")
    print(
        "\n| view | passed | work | again: work | requests | data moved | nodes | hover to lit "
        "| hover: work |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    firsts = {"flow": (*flow, hover(work))}
    for view in VIEWS[1:]:
        firsts[view] = (*walk(work, view), hover(work) if view == "attention" else " | ")
    for view in VIEWS:  # all answers are cached now, so this measures only the drawing
        took, worked, asked, moved, nodes, hovered = firsts[view]
        again = walk(work, view)[1]
        print(f"| {view} | {took:.2f} s | {worked:.2f} s | {again:.2f} s | "
              f"{asked} | {moved / 1000:,.0f} KB | {nodes} | {hovered} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
