"""The studio's pictures in docs/images.

python -m tests.studio.screens RUNS    draws them anew, with the models in RUNS/demo and RUNS/lstm:
    translucid demo --out RUNS/demo
    translucid train toyland-translate-lstm --out RUNS/lstm training.steps=600
"""

import io
import sys
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from tests.studio.browser import PATIENCE, chromium
from tests.studio.serving import serving

import translucid as tl

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TEXT = "The old dog does not like the cat."
WIDE, LAPTOP = (1920, 1080), (1280, 800)
HEAD = "decoder.layers.1.cross_attention.head.0"
# The file, its size, the view with what is chosen in it.
SCREENS = [
    ("flow", LAPTOP, "flow?pin=tgt:3"),
    ("flow-dark", WIDE, "flow?theme=dark&pin=src:4"),
    ("attention", LAPTOP, "attention?kind=cross&layer=1&head=1&pin=tgt:6,src:4"),
    ("attention-wide", WIDE, "attention?kind=encoder&layer=0&head=0&moment=scaled&pin=src:2,src:1"),
    ("recurrent", LAPTOP, "recurrent?m=b&at=encoder.recurrent.layers.0.forward.lstm&pin=src:4"),
    ("decode", LAPTOP, "decode?m=a"),
    ("what-if", LAPTOP, f"whatif?off={HEAD}"),
    ("compare", WIDE, "compare?with=b&theme=dark"),
    ("lesson", LAPTOP, "lesson?m=a"),
]  # fmt: skip


def draw(runs: Path, out: Path) -> None:
    models = {name: tl.load(runs / name) for name in ("demo", "lstm")}
    with serving(models) as studio, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, (width, height), view in SCREENS:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(f"{studio.address}#/{view}&text={quote(TEXT)}")
            page.wait_for_function("() => document.documentElement.dataset.ready", timeout=PATIENCE)
            if name == "lesson":
                _to_stop(page, 7)
            page.wait_for_timeout(400)  # transitions
            kept(page.screenshot(), out / f"{name}.png")
            page.close()
        browser.close()


def _to_stop(page: Page, stop: int) -> None:
    """As a reader goes there."""
    page.get_by_text("Begin", exact=True).first.click()
    for number in range(1, stop + 1):
        page.wait_for_function(f"() => location.hash.includes('lesson=attn.{number}')")
        page.wait_for_timeout(600)
        if number < stop:
            page.keyboard.press("Space")


def kept(picture: bytes, path: Path) -> None:
    """With 256 colours, those that come nearest: the page has few, and files stay small."""
    drawn = Image.open(io.BytesIO(picture)).convert("RGB")
    drawn.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), IMAGES)
