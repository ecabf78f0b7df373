"""Every view as a picture: plain SVG, in which the texts are those of the page, the numbers those
of the trace, and which other readers show as the page shows it."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image
from tests.runs.test_runs import small
from tests.studio.browser import Page
from tests.studio.readers import SEEN, SVG, Picture, apart, words
from tests.studio.serving import Served, serving
from tests.studio.shown import same
from tests.studio.trained import TEXTS, address_of, trained
from tests.tiny.dealt import chosen

from translucid.model import load
from translucid.runs.run import train_recipe
from translucid.runs.session import Recording
from translucid.studio.library import followed_runs, open_folders

pytestmark = pytest.mark.slow

PLACES: list[tuple[str, str, dict[str, str]]] = [
    ("translate", "flow", {"pin": "tgt:1"}),
    ("translate", "attention", {"kind": "encoder", "head": "2", "pin": "src:3,src:1"}),
    ("translate", "attention", {"kind": "decoder", "moment": "masked"}),
    ("lstm", "recurrent", {"unit": "5", "pin": "src:2"}),
    ("translate", "decode", {}),
    ("translate", "whatif", {"off": "decoder.layers.1.cross_attention.head.0"}),
    ("translate", "compare", {"with": "b"}),
    ("run", "train", {}),
    ("translate", "lesson", {}),
    ("translate", "attention", {"lesson": "attn.7"}),
    ("tag", "flow", {}),
    ("regress", "flow", {}),
]  # fmt: skip
# Of the others the numbers are compared below, and tests/studio/test_saving.py saves one.
ONE_OF_EACH = [PLACES[number] for number in (5, 6, 7, 10)]
NAMES = [f"{family}-{view}-{'-'.join(more)}".rstrip("-") for family, view, more in PLACES]


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    run = tmp_path_factory.mktemp("runs") / "run"
    recipe = small("translate", "transformer", steps=12)
    train_recipe(recipe, run, quiet=True, recording=Recording("The dog sleeps."))
    models = {**trained(), **open_folders([run], load)}
    followed = {
        chr(ord("a") + list(models).index("run")): each
        for each in followed_runs([run], models).values()
    }
    with serving(models, followed=followed) as served:
        yield served


def address(studio: Served, family: str, view: str, more: dict[str, str]) -> str:
    if family in TEXTS:
        return address_of(studio, family, view, **more)
    m = next(m for m, each in studio.library.opened.items() if each.name == family)
    return f"{studio.address}#/{view}?m={m}"


def saved(page: Page, folder: Path) -> tuple[Picture, Image.Image, list[str]]:
    """The picture, what the browser shows of the same, and its texts."""
    page.inner.mouse.move(1, 1)
    top = page.inner.evaluate("document.getElementById('stage').getBoundingClientRect().top")
    size = page.inner.viewport_size
    clip = {"x": 0, "y": top, "width": size["width"], "height": size["height"] - top}
    shot = Image.open(io.BytesIO(page.inner.screenshot(clip=clip))).convert("RGB")
    seen = page.inner.evaluate(SEEN)
    with page.inner.expect_download() as download:
        page.inner.keyboard.press("s")
    download.value.save_as(folder / "view.svg")
    return Picture(folder / "view.svg"), shot, seen


@pytest.mark.parametrize(("family", "view", "more"), chosen(PLACES, *ONE_OF_EACH), ids=NAMES)
def test_a_view_is_plain_svg_that_others_show_alike(
    studio: Served,
    leaf: Page,
    running: Any,
    tmp_path: Path,
    family: str,
    view: str,
    more: dict[str, str],
) -> None:
    leaf.turn(address(studio, family, view, more))
    picture, shot, seen = saved(leaf, tmp_path)
    picture.check_plain()
    written, on_page = words(picture.texts()), words(seen)
    figures = words([text for on in picture.figures() for text in on])
    assert sum(on_page.values()) > 20
    assert not on_page - written, "what the page shows is not in the picture"
    assert not written - on_page - figures, "what is in the picture is not on the page"
    mean, most = apart(shot, picture.in_chromium(running))
    assert mean < 2  # a line of text may be one pixel higher; the first page has most text
    assert most < 30
    drawn = picture.in_librsvg()
    if drawn is None:
        pytest.skip("no librsvg here (`apt-get install librsvg2-2`): read by Chromium only")
    mean, most = apart(shot, drawn)
    assert mean < 4
    assert most < 50


# ---- numbers: painted on canvas, written in the picture ----


def grid(picture: Picture, count: int) -> list[str]:
    (found,) = [on for on in picture.figures() if len(on) == count]
    return found


@pytest.mark.parametrize(("moment", "point"), [("weights", "pattern"), ("scores", "scores")])
def test_numbers_of_a_head_are_those_of_the_trace(
    studio: Served, leaf: Page, tmp_path: Path, moment: str, point: str
) -> None:
    at = f"encoder.layers.1.self_attention.{point}"
    wanted = trained()["translate"].trace(TEXTS["translate"])[at][0, 2]
    leaf.turn(address_of(studio, "translate", "attention", kind="encoder", layer="1", head="2",
                         moment=moment))  # fmt: skip
    picture, _, _ = saved(leaf, tmp_path)
    shown = grid(picture, wanted.numel())
    for text, value in zip(shown, wanted.flatten().tolist(), strict=True):
        assert same(text, value), f"{text} is written, {value} is computed"


def test_numbers_of_a_unit_are_those_of_the_trace(
    studio: Served, leaf: Page, tmp_path: Path
) -> None:
    trace = trained()["lstm"].trace(TEXTS["lstm"])
    leaf.turn(address_of(studio, "lstm", "recurrent", unit="5",
                         at="encoder.recurrent.layers.0.forward.lstm"))  # fmt: skip
    picture, _, _ = saved(leaf, tmp_path)
    names = ["forget_gate", "input_gate", "candidate", "cell", "output_gate", "hidden"]
    wanted = torch.stack(
        [trace[f"encoder.recurrent.layers.0.forward.lstm.{name}"][0, :, 5] for name in names]
    )
    shown = max(picture.figures(), key=len)[: wanted.numel()]
    assert len(shown) == wanted.numel()
    for text, value in zip(shown, wanted.flatten().tolist(), strict=True):
        assert same(text, value), f"{text} is written, {value} is computed"


def test_a_dark_page_is_saved_as_a_light_one(studio: Served, leaf: Page, tmp_path: Path) -> None:
    """And stays dark; nothing but the caption, which has the address, is another."""
    found = []
    for theme in ("light", "dark"):
        leaf.turn(address_of(studio, "translate", "attention", theme=theme))
        picture, _, _ = saved(leaf, tmp_path)
        leaf.ready()
        assert leaf.inner.evaluate("document.documentElement.dataset.theme") == theme
        for name in ("title", "text"):
            for each in picture.root.findall(f"{SVG}{name}"):
                picture.root.remove(each)
        found.append(ElementTree.tostring(picture.root, encoding="unicode"))
    assert found[0] == found[1]
