"""The page's modules in one text: all of them, each import found, and no word lost on the way."""

import html
import re
import subprocess
from pathlib import Path

import pytest
from tests.studio.test_units import node

from translucid.studio.page_bundle import (
    FONT,
    HIDDEN,
    STATIC,
    BundleError,
    as_function,
    bundle,
    exported,
    graph,
    markup,
    modules,
    style,
)
from translucid.studio.page_model import catalogue

JS = STATIC / "js"
ENTRIES = ("main.js", "widget.js", "site.js", "saved_models.js", "python/lessons.js")
ALONE = {"first.js"}  # runs before the modules
WIDTH = 120  # of a line, as biome.jsonc has it


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text, "utf-8")
    return folder


def test_no_line_is_wider_than_the_formatter_allows() -> None:
    """It breaks code, but no comments and no texts."""
    for path in [*STATIC.rglob("*"), *Path(__file__).parent.glob("*.js")]:
        if path.suffix in {".js", ".css", ".html", ".svg"}:
            lines = path.read_text("utf-8").splitlines()
            assert [line for line in lines if len(line) > WIDTH] == [], path.name


def test_every_module_is_in() -> None:
    found = {name for entry in ENTRIES for name in modules(entry)}
    assert found == {str(path.relative_to(JS)) for path in JS.rglob("*.js")} - ALONE
    text = graph(*ENTRIES)
    for name in found:
        assert text.count(f"\n'{name}': [[") == 1


def test_dependencies_come_first() -> None:
    order = list(modules("main.js"))
    assert order[-1] == "main.js"
    assert order.index("dom.js") < order.index("readout.js") < order.index("views/flow.js")


def test_words_within_a_line_are_no_imports_and_no_exports(tmp_path: Path) -> None:
    said = "const said = \"import { a } from './b.js'; export const c = 1; export { d };\";"
    written(tmp_path, b="export const a = 1;", main=f"import {{ a }} from './b.js';\n{said}\n")
    sources = modules("main.js", tmp_path)
    assert exported(sources["main.js"]) == []
    assert said in as_function("main.js", sources)


def test_imports_become_parameters_and_exports_are_returned() -> None:
    sources = modules("widget.js") | modules("main.js")
    for name in sources:
        text = as_function(name, sources)
        assert not re.search(r"^(import|export)\b", text, re.M)
        needs = re.match(rf"'{name}': \[\[(.*?)\], \(", text)
        assert needs is not None
        assert set(re.findall(r"'([^']+)'", needs[1])) <= sources.keys()
        assert text.rstrip().endswith(f"return {{ {', '.join(exported(sources[name]))} }};\n}}],")


def test_a_module_may_use_the_names_of_the_bundle(tmp_path: Path) -> None:
    """The bundle computes the same as the plain modules, which node imports."""
    own = ("take", "made", "modules", "graph", "place")
    functions = "\n".join(f"function {name}() {{ return '{name}'; }}" for name in own)
    calls = ", ".join(f"{name}()" for name in own)
    written(
        tmp_path, b="export const a = 1;",
        main="import { a as first } from './b.js';\nimport * as all from './b.js';\n"
        f"{functions}\nexport const found = [first, all.a, {calls}];\n",
        plain="import { found } from './main.js';\nconsole.log(found.join());\n",
    )  # fmt: skip
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    bundled = (
        f"{graph('main.js', folder=tmp_path)}console.log(graph({{}})('main.js').found.join());"
    )
    (tmp_path / "bundled.js").write_text(bundled, "utf-8")
    plain, together = (
        subprocess.run([node(), tmp_path / file], capture_output=True, text=True, check=True)
        for file in ("plain.js", "bundled.js")
    )
    assert plain.stdout == together.stdout == f"1,1,{','.join(own)}\n"


def test_every_exported_name_is_seen(tmp_path: Path) -> None:
    text = (
        "export const a = 1;\nexport function b() {}\nexport async function c() {}\n"
        "export class D {}\nexport { e, f };\n"
    )
    assert exported(text) == ["a", "b", "c", "D", "e", "f"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a": "import { b } from './b.js';", "b": "import { a } from './a.js';"},
         r"circular import: a\.js -> b\.js -> a\.js"),
        ({"a": "import { b } from './none.js';"}, r"a\.js imports none\.js: no such file"),
        ({"a": "import { c } from './b.js';", "b": "export const b = 1;"},
         r"a\.js imports c from b\.js, which does not export it"),
        ({"a": "export default 1;"}, r"a\.js: .*'export default 1;'"),
        ({"a": "export let n = 1;"}, r"a\.js: .*'export let n = 1;'"),
        ({"a": "const late = () => import('./b.js');", "b": ""}, r"a\.js: .*import\("),
    ],
)  # fmt: skip
def test_unsupported_syntax_is_an_error(tmp_path: Path, files: dict[str, str], said: str) -> None:
    folder = written(tmp_path, **files)
    with pytest.raises(BundleError, match=said):
        graph("a.js", folder=folder)


def test_a_place_has_all_that_the_modules_use() -> None:
    """document.x of a module is document.x of a place: one that it lacks would fail in a notebook
    only."""
    place = (JS / "embedded.js").read_text("utf-8")
    for hidden in ("document", "window", "location", "history"):
        body = re.search(rf"  const {hidden} = \{{(.*?)\}};\n", place, re.S)
        assert body is not None
        for name in modules("main.js"):
            for used in re.findall(rf"(?<![\w.]){hidden}\.(\w+)", (JS / name).read_text("utf-8")):
                assert re.search(rf"\b{used}\b", body.group(1)), f"{name}: {hidden}.{used}"


def test_modules_reach_the_browser_by_names_that_a_place_hides() -> None:
    """Sizes of the window and further globals would be those of the whole notebook."""
    for name in modules("main.js"):
        text = (JS / name).read_text("utf-8")
        found = re.findall(r"\bglobalThis\b|\bself\.|(?<![\w.])inner(?:Width|Height)\b", text)
        assert found == [], name
    assert {"document", "location", "history", "fetch", "addEventListener"} <= set(HIDDEN)


def test_styles_count_from_the_box() -> None:
    text = style()
    assert text.count("{") == text.count("}")
    assert not re.search(r":root|\bhtml\b|(?<![-\w])body\b|\d v[hw]\b|\dv[hw]\b", text)
    assert not re.search(r"@media[^{]*-(?:width|height)", text)
    assert not re.search(r"[\d.]rem(?!\)\))", text.replace(", 1rem)", "))"))
    sheets = re.findall(r'href="/static/(css/[^"]+)"', (STATIC / "index.html").read_text("utf-8"))
    assert sorted(sheets) == sorted(str(p.relative_to(STATIC)) for p in STATIC.rglob("*.css"))
    for sheet in sheets:
        selector = re.findall(r"^(\.[\w-]+)", (STATIC / sheet).read_text("utf-8"), re.M)
        assert all(each in text for each in selector), sheet


def test_the_box_begins_like_the_page() -> None:
    index = (STATIC / "index.html").read_text("utf-8")
    body = index[index.index("<body>") :]
    assert re.findall(r'id="(\w+)"', body) == re.findall(r'id="(\w+)"', markup())


def test_the_bundle_is_safe_inside_a_script_element() -> None:
    for entry in ("widget.js", "recorded.js", "site.js"):
        assert not re.search(r"</script|<!--", bundle(entry), re.I)


def test_the_font_has_every_sign_of_the_catalogue() -> None:
    fonts = pytest.importorskip("fontTools.ttLib", reason="fonttools reads the font")
    font = fonts.TTFont(FONT)
    assert "MATH" in font
    assert "STIX" not in font["name"].getDebugName(1)  # the licence asks for another name
    assert "SIL OPEN FONT LICENSE" in (FONT.parent / "OFL.txt").read_text("utf-8")
    written = "".join(entry["symbol"] + entry["formula"] for entry in catalogue().values())
    signs = set(html.unescape(re.sub("<[^>]*>", "", written))) - {"\u2061"}  # it is not seen
    assert {sign for sign in signs if ord(sign) not in font.getBestCmap()} == set()
