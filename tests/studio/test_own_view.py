"""A view of the user's own, from one JavaScript file: `translucid explore MODEL --view FILE.js`."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.in_process import run
from tests.studio.browser import Page
from tests.studio.serving import TEXT, Served, model, serving

OWN = Path(__file__).parents[2] / "examples" / "own_view.js"


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    models = {"language": model("language-transformer"), "numbers": model("regress-mlp")}
    with serving(models, view=OWN) as served:
        yield served


@pytest.mark.slow
def test_the_example_is_drawn_with_the_numbers_of_the_model(studio: Served, leaf: Page) -> None:
    address = f"{studio.address}#/own_view?m=a&text={quote(TEXT)}"
    assert leaf.turn(address).split(" ")[0] == "own_view"
    assert leaf.text("nav.views [aria-current]") == "Certainty"
    run_id = studio.run("a", TEXT)["run"]
    steps = studio.get(f"/api/runs/{run_id}/steps?k=1").json["steps"]
    rows = leaf.words("#stage td")
    assert rows[1::3] == [step["words"][0] for step in steps]
    assert rows[2::3] == [f"{100 * step['probabilities'][0]:.1f} %" for step in steps]


@pytest.mark.slow
def test_a_model_that_lacks_the_view_is_shown_in_another(studio: Served, leaf: Page) -> None:
    drawn = leaf.turn(f"{studio.address}#/own_view?m=b&text={quote('0.5 1 -2')}")
    assert drawn.split(" ")[0] == "flow"


def test_only_the_named_file_is_served_and_only_to_the_page(studio: Served) -> None:
    assert studio.get("/own/view.js").body == OWN.read_bytes()
    assert b"/own/register.js" in studio.get("/").body
    assert studio.ask("GET", "/own/view.js", {"cookie": None}).status == 403
    for path in ("/own/own_task.py", "/own/../own_task.py", "/own/view.js/../own_task.py"):
        assert studio.get(path).status == 404


def test_without_a_view_the_page_is_as_always() -> None:
    with serving({"numbers": model("regress-mlp")}) as served:
        assert served.get("/own/view.js").status == 404
        assert b"/own/" not in served.get("/").body


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.js", "no such JavaScript file"),
        ("view.txt", "no such JavaScript file"),
        ("a b.js", "letters, digits and _"),
    ],
)
def test_a_missing_file_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "view.txt").write_text("", "utf-8")
    (tmp_path / "a b.js").write_text("", "utf-8")
    answer = run("explore", "demo:regress", "--view", name, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr


def test_a_saved_page_takes_no_view(tmp_path: Path) -> None:
    answer = run("explore", "demo:regress", "--view", str(OWN), "--save", "x.html", cwd=tmp_path)
    assert answer.returncode == 2
    assert "--view" in answer.stderr
