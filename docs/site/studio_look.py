"""The studio's style sheets that the site shares, with the addresses that the site has."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx

STUDIO = Path(__file__).parents[2] / "src/translucid/studio/static"


def write_styles(app: Sphinx, error: Exception | None) -> None:
    if error:
        return
    tokens = (STUDIO / "css/tokens.css").read_text("utf-8")
    font = "/static/fonts/studio-math.woff"
    start = tokens.index('[data-theme="dark"] {')
    dark = tokens[start : tokens.index("}", start) + 1]
    if font not in tokens or "--bg" not in dark:
        raise ValueError("css/tokens.css of the studio has changed: adapt docs/site/studio_look.py")
    # Furo's third theme follows the system.
    automatic = dark.replace('[data-theme="dark"]', '[data-theme="auto"]')
    out = Path(app.outdir, "_static")
    text = f"{tokens}\n@media (prefers-color-scheme: dark) {{\n{automatic}\n}}\n"
    (out / "tokens.css").write_text(text.replace(font, "fonts/studio-math.woff"), "utf-8")
    shutil.copyfile(STUDIO / "css/base.css", out / "base.css")
    (out / "fonts").mkdir(exist_ok=True)
    for file in ("studio-math.woff", "OFL.txt"):
        shutil.copyfile(STUDIO / "fonts" / file, out / "fonts" / file)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write_styles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
