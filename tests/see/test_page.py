"""docs/guides/figures.md: every line runs, and every picture that the page shows is made by it.

python -m tests.see.test_page RUNS    draws the pictures anew, with models in RUNS/demo etc.
"""

import doctest
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import translucid as tl

PAGE = Path(__file__).parents[2] / "docs/guides/figures.md"
FIGURES = PAGE.parents[1] / "images/figures"
SMALL = ["training.steps=8", "data.toyland=400", "tokenizer.kind=word", "training.device=cpu",
         "training.baseline=false"]  # fmt: skip
RUNS = {
    "demo": ("toyland-translate-transformer", ["model.d_model=32", "model.heads=4"]),
    "demo-classify": ("toyland-classify-transformer", ["model.d_model=16", "model.heads=2"]),
    "lstm": ("toyland-translate-lstm", ["model.d_model=16", "model.hidden=16"]),
}


def run_page(folder: Path) -> None:
    """Run the page's examples in a folder that has the models under runs/."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    names: dict[str, object] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        for code in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S):
            example = doctest.DocTestParser().get_doctest(code, names, "see", str(PAGE), 0)
            report: list[str] = []
            runner.run(example, out=report.append, clear_globs=False)
            names = example.globs
            assert not report, "".join(report)
    finally:
        os.chdir(before)


def shown() -> list[str]:
    return re.findall(r"^!\[.+\]\(\.\./images/figures/(.+)\)$", PAGE.read_text("utf-8"), re.M)


@pytest.mark.slow
def test_every_picture_of_the_page_is_made_by_its_lines(tmp_path: Path) -> None:
    for name, (recipe, keys) in RUNS.items():
        tl.train(recipe, out=tmp_path / "runs" / name, overrides=[*SMALL, *keys], quiet=True)
    run_page(tmp_path)
    made = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert made == sorted(shown())


@pytest.mark.parametrize("name", shown())
def test_every_picture_is_there(name: str) -> None:
    text = (FIGURES / name).read_text("utf-8")
    assert "<svg " in text
    assert "</svg>" in text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "runs").symlink_to(Path(sys.argv[1]).resolve())
        run_page(Path(made))
        for picture in shown():
            shutil.copy(Path(made) / picture, FIGURES / picture)
