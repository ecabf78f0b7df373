"""Bundle the page's modules into one script, for pages without a server: the notebook widget and
saved sessions.

The page itself loads plain modules. In the bundle, each module becomes a function inside
`graph(place)`. The properties of `place` replace the browser's document, location and fetch, so
each call of `graph` creates an independent studio. See static/js/embedded.js.
"""

import base64
import json
import posixpath
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from translucid.core.errors import TranslucidError

STATIC = Path(__file__).parent / "static"
FONT = STATIC / "fonts" / "studio-math.woff"
PAGE = "main.js"  # loaded by index.html
LARGE = 1600  # window width in px from which the page is enlarged; see embedded.js
# The browser globals that a `place` object replaces.
HIDDEN = ("document", "window", "location", "history", "addEventListener", "removeEventListener",
          "fetch")  # fmt: skip
# Searching for the word first and checking its position after is much faster than anchoring with ^.
IMPORT = re.compile(
    r"import(?<=^import)\s+(\*\s+as\s+\w+|\{[^}]*\})\s+from\s+'([^']+)';?[^\S\n]*", re.M
)
EXPORT = re.compile(
    r"export(?<=^export)\s+((?:async\s+)?(?:function\*?|class|const)\s+(\w+))", re.M
)
LISTED = re.compile(r"export(?<=^export)\s+\{([^}]*)\};?[^\S\n]*$", re.M)
COMMENT = re.compile(r"\s*(//\s.*|/\*\*.*\*/)")
LEFT = re.compile(r"^(import|export)\b.*|\bimport\s*\(.*", re.M)


class BundleError(TranslucidError):
    """The page's modules use a syntax that the bundle does not support."""


def modules(entry: str = PAGE, folder: Path = STATIC / "js") -> dict[str, str]:
    """The module and its dependencies, dependencies first."""
    sources: dict[str, str] = {}
    _walk(entry, folder, sources, ())
    return sources


def _walk(name: str, folder: Path, sources: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        circle = " -> ".join([*above[above.index(name) :], name])
        raise BundleError(f"circular import: {circle}; split the modules")
    if name in sources:
        return
    path = folder / name
    if not path.is_file():
        raise BundleError(f"{above[-1] if above else 'the bundle'} imports {name}: no such file")
    text = path.read_text("utf-8")
    for _, source in IMPORT.findall(text):
        _walk(_target(name, source), folder, sources, (*above, name))
    sources[name] = text


def _target(name: str, source: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), source))


@cache
def exported(text: str) -> list[str]:
    names = [name for _, name in EXPORT.findall(text)]
    for listed in LISTED.findall(text):
        names += [part.strip() for part in listed.split(",") if part.strip()]
    return names


def as_function(name: str, sources: dict[str, str]) -> str:
    """Convert a module to the modules that it needs and a function of their exports.

    Imports become parameters, so a module may use any name for its own things."""
    text = sources[name]
    needs: list[str] = []
    parameters: list[str] = []

    def parameter(match: re.Match[str]) -> str:
        wanted, source = match.groups()
        target = _target(name, source)
        needs.append(target)
        if wanted.startswith("*"):
            parameters.append(wanted.split()[-1])
            return ""
        for item in wanted.strip("{} \n").split(","):
            imported = item.split(" as ")[0].strip()
            if imported and imported not in exported(sources[target]):
                raise BundleError(
                    f"{name} imports {imported} from {target}, which does not export it"
                )
        parameters.append(wanted.replace(" as ", ": "))
        return ""

    names = exported(text)
    body = LISTED.sub("", EXPORT.sub(r"\1", IMPORT.sub(parameter, text)))
    if ("import" in body or "export" in body) and (left := LEFT.search(body)):  # LEFT is slow
        raise BundleError(
            f"{name}: the bundle does not support {left.group().strip()[:80]!r}; write "
            "`import {{ a }} from '...'`, `export const a`, `export function a` or `export {{ a }}`"
        )
    lines = [line for line in body.splitlines() if not COMMENT.fullmatch(line)]
    if not any(line.count("`") % 2 for line in lines):  # a multi-line string keeps its spaces
        lines = [line.lstrip() for line in lines]
    body = "\n".join(lines)
    returned = f"return {{ {', '.join(names)} }};"
    return f"'{name}': [{needs}, ({', '.join(parameters)}) => {{\n{body}\n{returned}\n}}],"


def graph(*entries: str, folder: Path = STATIC / "js") -> str:
    """The function `graph(place)`, which returns `take(name)` for the exports of a module."""
    sources: dict[str, str] = {}
    for entry in entries:
        sources |= modules(entry, folder)
    functions = "\n".join(as_function(name, sources) for name in sources)
    return (
        f"function graph(place) {{\nconst {{ {', '.join(HIDDEN)} }} = place, made = {{}};\n"
        "const take = name => (made[name] ??= modules[name][1](...modules[name][0].map(take)));\n"
        f"const modules = {{\n{functions}\n}};\nreturn take;\n}}\n"
    )


def style() -> str:
    """The page's styles for an embedded box: sizes are relative to the box, not the window."""
    index = (STATIC / "index.html").read_text("utf-8")
    sheets = re.findall(r'<link rel="stylesheet" href="/static/([^"]+)">', index)
    text = "\n".join((STATIC / sheet).read_text("utf-8") for sheet in sheets)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"@font-face\s*\{[^}]*\}", "", text)  # embedded.js loads the font
    text = re.sub(r"html\s*\{\s*font-size:[^}]*\}", "", text)  # set by embedded.js
    text = re.sub(r"(^|[\s,}>])(?::root|html)(?=[\s,{.:>\[])", r"\1.studio", text)
    text = re.sub(r"(^|[\s,}>])body(?=[\s,{.:>])", r"\1.studio-body", text)
    text = re.sub(r"@media\s*(?=\((?:min|max)-(?:width|height))[^{]*", _container, text)
    text = re.sub(r"(?<![\w.])(-?[\d.]+)v([hw])\b", r"\1cq\2", text)
    text = re.sub(r"(?<![\w.])(-?[\d.]+)rem\b", r"calc(\1 * var(--rem, 1rem))", text)
    return re.sub(r"\n\s+", "\n", text)


def _container(query: re.Match[str]) -> str:
    """Turn a media query into a container query. Widths below LARGE become em, so that a narrow box
    shows the normal layout in a smaller font, not the layout for small windows."""
    rule = query.group().replace("@media", "@container studio")
    return re.sub(
        r"(\d+)px", lambda n: n[0] if int(n[1]) >= LARGE - 1 else f"{int(n[1]) / 16:g}em", rule
    )


def view_names() -> tuple[str, ...]:
    """The views in the order of the navigation bar, from static/js/views/index.js."""
    index = (STATIC / "js" / "views" / "index.js").read_text("utf-8")
    listed = re.search(r"export const VIEWS = \{([^}]*)\}", index)
    if listed is None:
        raise BundleError("views/index.js: no `export const VIEWS = { a, b }`")
    return tuple(name.strip() for name in listed[1].split(",") if name.strip())


def markup() -> str:
    """The body of index.html as XML, which the embedded page parses."""
    index = (STATIC / "index.html").read_text("utf-8")
    body = re.search(r"<body>(.*)</body>", index, re.S)
    files = r"<(noscript|script)\b.*?</\1>|<link\b[^>]*>|<!--.*?-->"
    inner = re.sub(files, "", body.group(1) if body else "", flags=re.S)
    inner = re.sub(r"\s(hidden|inert|disabled)(?=[\s>])", r' \1=""', inner)  # as XML requires
    text = f'<body xmlns="http://www.w3.org/1999/xhtml">{inner.strip()}</body>'
    try:
        ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise BundleError(f"index.html: close every element of its body ({error})") from error
    return text


@cache
def bundle(entry: str) -> str:
    """The page and the module `entry` as one script. The script defines `studio` as the exports of
    `entry`."""
    text = (
        f"const STYLE = {json.dumps(style())};\nconst MARKUP = {json.dumps(markup())};\n"
        f"const FONT = {json.dumps(base64.b64encode(FONT.read_bytes()).decode())};\n"
        f"{graph(PAGE, entry)}const studio = graph(globalThis)('{entry}');\n"
    )
    # safe inside a <script> element
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
