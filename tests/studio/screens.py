"""Draw the studio's pictures in docs/images.

python -m tests.studio.screens RUNS          draws all, with the runs RUNS/demo, RUNS/lstm and
python -m tests.studio.screens RUNS lesson   RUNS/train; or only some of them, by name:
    translucid demo --out RUNS/demo
    translucid train toyland-translate-lstm --out RUNS/lstm training.steps=600
    translucid train toyland-translate-transformer --out RUNS/train \
        --studio --probe "The old dog does not like the cat." \
        training.steps=600 training.evaluate_every=100

python -m tests.studio.screens views OUT     takes pictures of every view of the shipped models, at
python -m tests.studio.screens views OUT 360    all sizes, light and dark; or at some of them
"""

import io
import sys
from itertools import product
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import sync_playwright
from tests.studio.browser import PATIENCE, chromium
from tests.studio.serving import serving

from translucid.model import load
from translucid.studio.library import followed_runs, open_folders

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TEXT = "The old dog does not like the cat."
MOST = 300_000  # maximum bytes of a picture
WIDE, LAPTOP = (1920, 1080), (1280, 800)
RUNS = ("demo", "lstm", "train")  # a, b and c in addresses
HEAD = "decoder.layers.1.cross_attention.head.0"
# By file: the size of the window, and the view with its selection.
SCREENS = [
    ("flow", LAPTOP, "flow?pin=tgt:3"),
    ("flow-dark", WIDE, "flow?theme=dark&pin=src:4"),
    ("attention", LAPTOP, "attention?kind=cross&layer=1&head=1&pin=tgt:6,src:4"),
    ("attention-wide", WIDE, "attention?kind=encoder&layer=0&head=0&moment=scaled&pin=src:2,src:1"),
    ("recurrent", LAPTOP, "recurrent?m=b&at=encoder.recurrent.layers.0.forward.lstm&pin=src:4"),
    ("decode", LAPTOP, "decode?m=a"),
    ("what-if", LAPTOP, f"whatif?off={HEAD}"),
    ("compare", WIDE, "compare?with=b&theme=dark"),
    ("train", LAPTOP, "train?m=c"),
    ("lesson", LAPTOP, "lesson?m=a&lesson=attn.7"),
]  # fmt: skip


# To look at: a phone, 1280 x 800 at 200 %, a laptop, a monitor, 4K; with P, for a projector.
SIZES = {
    "360": (360, 740), "640": (640, 400), "1280": LAPTOP, "1920": WIDE, "3840": (3840, 2160),
    "1280P": LAPTOP, "1920P": WIDE,
}  # fmt: skip
SHIPPED = {
    "translate": ("flow", "attention", "decode", "whatif", "compare", "data", "lesson"),
    "translate-lstm": ("flow", "attention", "recurrent", "decode"),
    "classify": ("flow", "recurrent", "whatif", "compare", "data"),
    "tag": ("flow", "recurrent", "whatif"),
    "generate": ("flow", "attention", "decode"),
    "regress": ("flow", "whatif", "train"),
    "perceptron": ("flow", "train"),
}


def draw_views(out: Path, sizes: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    models = {name: load(f"demo:{name}") for name in SHIPPED}
    with serving(models) as studio, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        for size, theme in product(sizes or SIZES, ("light", "dark")):
            width, height = SIZES[size]
            context = browser.new_context(
                viewport={"width": width, "height": height}, reduced_motion="reduce"
            )
            page = context.new_page()
            page.goto(studio.address)
            page.wait_for_function("() => document.documentElement.dataset.ready", timeout=PATIENCE)
            if size.endswith("P"):
                page.keyboard.press("p")
            page.screenshot(path=out / f"start-{size}-{theme}.png", full_page=width < 1280)
            for m, name in zip("abcdefg", SHIPPED, strict=True):
                for view in SHIPPED[name]:
                    page.evaluate(
                        "hash => { delete document.documentElement.dataset.ready;"
                        " location.hash = hash; }",
                        f"#/{view}?m={m}&theme={theme}",
                    )
                    page.wait_for_function(
                        "() => document.documentElement.dataset.ready", timeout=PATIENCE
                    )
                    page.wait_for_timeout(300)
                    path = out / f"{view}-{name}-{size}-{theme}.png"
                    page.screenshot(path=path, full_page=width < 1280)
            context.close()
        browser.close()


def draw(runs: Path, out: Path, names: list[str]) -> None:
    folders = [runs / name for name in RUNS]
    models = dict(zip(RUNS, open_folders(folders, load).values(), strict=True))
    with (
        serving(models, followed=followed_runs(folders, RUNS)) as studio,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, (width, height), view in SCREENS:
            if names and name not in names:
                continue
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(f"{studio.address}#/{view}&text={quote(TEXT)}")
            page.wait_for_function("() => document.documentElement.dataset.ready", timeout=PATIENCE)
            page.wait_for_timeout(800)  # transitions, and the tables of Train
            kept(page.screenshot(), out / f"{name}.png")
            page.close()
        browser.close()


def kept(picture: bytes, path: Path) -> None:
    """Save a picture with all its colours if the file is small enough, otherwise with 256
    colours."""
    drawn = Image.open(io.BytesIO(picture)).convert("RGB")
    drawn.save(path, optimize=True)
    if path.stat().st_size > MOST:
        drawn.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    if sys.argv[1] == "views":
        draw_views(Path(sys.argv[2]), sys.argv[3:])
    else:
        draw(Path(sys.argv[1]), IMAGES, sys.argv[2:])
