"""One frame: pages load nothing, notebooks keep their own look, and all text is escaped."""

import base64
import hashlib
import re

from translucid.see.render.frame import escape, folded, page, piece, table
from translucid.see.render.palette import THEMES

HOSTILE = "</title><script>alert(1)</script>"


def test_a_page_loads_nothing_and_runs_nothing_but_its_own_script() -> None:
    whole = page("T", "<p>body</p>", script="let a = 1;")
    assert not re.search(r"https?://|@import|<link|src=|url\(", whole)
    digest = base64.b64encode(hashlib.sha256(b"let a = 1;").digest()).decode()
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:; " in whole
    assert f"script-src 'sha256-{digest}'" in whole
    assert "script-src" not in page("T", "")
    assert "<script" not in page("T", "")


def test_plain_texts_are_escaped() -> None:
    whole = page(HOSTILE, "", lead=HOSTILE, heading=HOSTILE, footer=HOSTILE)
    assert "<script" not in whole
    assert whole.count(escape(HOSTILE)) == 4


def test_every_used_colour_is_declared_once() -> None:
    content = '<p style="color: var(--s3)">x</p>'
    for whole in (page("T", content), piece(content)):
        asked = set(re.findall(r"var\(--([\w-]+)\)", whole))
        declared = re.findall(r"--([\w-]+):", whole)
        assert asked <= set(declared)
        assert f"--s3: light-dark({THEMES['light']['s3']}, {THEMES['dark']['s3']})" in whole
        assert "--s4:" not in whole  # nobody asked


def test_a_piece_restyles_nothing_outside_of_it() -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", piece("<p>x</p>"), flags=re.DOTALL)
    chosen = [
        rule for block in re.findall(r"([^{}]+)\{[^{}]*\}", style) for rule in block.split(",")
    ]
    assert chosen
    assert all(rule.strip().startswith(".translucid") for rule in chosen)
    assert style.index("--ink: currentColor") > style.find("--ink: light-dark")  # the last counts


def test_tables_and_folded_sections() -> None:
    assert table(("a", "b"), [("c", "1")], numbers=(1,)) == (
        '<div class="wide"><table><thead><tr><th>a</th><th class="number">b</th></tr></thead>'
        '<tbody><tr><td>c</td><td class="number">1</td></tr></tbody></table></div>'
    )
    assert folded("more", "") == ""
    assert folded("more", "x") == "<details><summary>more</summary>x</details>"
    assert folded("more", "x", opened=True).startswith('<details open="open">')
