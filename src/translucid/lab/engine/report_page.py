"""The frame of the lab's page: its type and colours, for light, dark and paper, and its script.

The page works without the script, which only hides what was not asked for.
"""

import base64
import hashlib
from collections.abc import Mapping

from translucid.see.html import escape

# The verdicts in the order of the front page, and what they mean.
VERDICTS = {
    "supported": "The measurements lie clearly on the side of the claim.",
    "refuted": "The measurements lie clearly on the other side, in at least one setting that the "
    "claim speaks of.",
    "depends": "It holds in some settings and not in others; the section says in which.",
    "undecided": "The interval over the seeds lies across the bar: more seeds may decide, or the "
    "claim is close to neither side.",
    "not run": "There is an experiment; it has not been run.",
    "no experiment yet": "Nobody has written an experiment for these yet.",
}
_MARKS = {"supported": "full", "refuted": "cross", "depends": "half", "undecided": "ring"}
_SHAPES = {
    "full": '<circle cx="8" cy="8" r="6.5" fill="currentColor"/>',
    "cross": '<path d="M3 3 13 13M13 3 3 13" stroke="currentColor" stroke-width="2.6" '
    'stroke-linecap="round" fill="none"/>',
    "half": '<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6"/>'
    '<path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor"/>',
    "ring": '<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6" '
    'stroke-dasharray="2.4 2.4"/>',
}


def mark(verdict: str) -> str:
    """A shape for a verdict, beside its word: never a colour alone."""
    shape = _SHAPES.get(_MARKS.get(verdict, ""), "")
    if not shape:
        return ""
    return f'<svg class="mark {verdict}" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>'


def frame(title: str, body: str, counts: Mapping[str, int]) -> str:
    """The page around the sections. body: HTML; counts: of each verdict."""
    measured = sum(count for name, count in counts.items() if name in _MARKS)
    told = (
        "What textbooks and courses say, measured. Each claim has an experiment, and a rule that "
    )
    told += "says what the numbers mean."
    if measured < sum(counts.values()):
        told += f" {measured} of {sum(counts.values())} claims have been measured so far."
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    allowed = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    allowed += f"script-src 'sha256-{digest}'"
    return (
        '<!doctype html>\n<html lang="en" id="top"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Translucid: {escape(title.lower())}</title>\n"
        f"<style>{_STYLE}</style></head><body>\n"
        f'<header><p class="house">{_PANES}translucid</p><h1>{escape(title)}</h1>'
        f'<p class="lead">{escape(told)}</p>{_counts(counts)}</header>\n'
        f'<main class="translucid">\n{body}\n</main>\n'
        "<footer>Nothing on this page was fetched from elsewhere. Verdicts are computed, never "
        f"typed in.</footer>\n<script>{_SCRIPT}</script>\n</body></html>\n"
    )


def _counts(counts: Mapping[str, int]) -> str:
    """Links to the groups; with the script, each shows one verdict only."""
    shown = "".join(
        f'<a href="#{name.replace(" ", "-")}" data-show="{name.replace(" ", "-")}">{mark(name)}'
        f"<b>{count}</b> {escape(name)}</a>"
        for name, count in counts.items()
        if count
    )
    every = f'<a href="#top" data-show="" hidden><b>{sum(counts.values())}</b> all</a>'
    theme = '<button type="button" data-theme-switch hidden>light / dark</button>'
    return f'<nav aria-label="verdicts">{every}{shown}{theme}</nav>'


# The sign of the house: strands through a pane of glass.
_PANES = (
    '<svg viewBox="0 0 28 28" aria-hidden="true"><path d="M1 9H27M1 14H27M1 19H27" '
    'stroke="currentColor" stroke-width="1.6" opacity=".45"/><rect x="9.5" y="3" width="9" '
    'height="22" rx="2.5" fill="currentColor" fill-opacity=".16" stroke="currentColor" '
    'stroke-width="1.6"/></svg>'
)

_SCRIPT = """
const links = [...document.querySelectorAll("[data-show]")];
const parts = [...document.querySelectorAll("section[data-verdict]")];
function show(verdict) {
  for (const part of parts) part.hidden = Boolean(verdict) && part.dataset.verdict !== verdict;
  for (const link of links) link.toggleAttribute("data-on", link.dataset.show === verdict);
}
for (const link of links) {
  link.hidden = false;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    show(link.dataset.show);
  });
}
show("");
window.addEventListener("hashchange", () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.closest("[hidden]")) { show(""); target.scrollIntoView(); }
});
const button = document.querySelector("[data-theme-switch]");
button.hidden = false;
button.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
"""

_LIGHT = """
  --bg: #F6F8F7; --pane: #FFFFFF; --cell: #F0F4F2; --ink: #11201D; --ink2: #43534F; --ink3: #5F6F6A;
  --line: #D5DEDA; --accent: #016F5F; --wash: rgb(1 111 95 / .07); --neg: #5E2CBA; --pos: #964702;
  --shade: 0 1px 2px rgb(17 32 29 / .05), 0 10px 30px -18px rgb(17 32 29 / .22);
  --series0: #016F5F; --series1: #C26726; --series2: #5E2CBA; --series3: #0072B2;
  --series4: #CC79A7; --series5: #1D2430; --series6: #E69F00; --series7: #56B4E9;
"""
_DARK = """
  --bg: #0B1110; --pane: #121B19; --cell: #182320; --ink: #ECF4F1; --ink2: #B3C2BD; --ink3: #8C9C97;
  --line: #283733; --accent: #4CDFC4; --wash: rgb(76 223 196 / .08); --neg: #BFB1FF; --pos: #FEB66A;
  --shade: none;
  --series0: #4CDFC4; --series1: #FEB66A; --series2: #BFB1FF; --series3: #5FA8F5;
  --series4: #F09FCC; --series5: #ECF4F1; --series6: #E0C040; --series7: #9BD3F5;
"""
_STYLE = (
    f"""
:root {{ color-scheme: light; {_LIGHT} }}
:root[data-theme="dark"] {{ color-scheme: dark; {_DARK} }}
@media screen and (prefers-color-scheme: dark) {{
  :root:not([data-theme="light"]) {{ color-scheme: dark; {_DARK} }}
}}
"""
    + """
:root {
  --words: "Source Serif 4", Charter, "Iowan Old Style", "Sitka Text", "Noto Serif", Georgia,
    ui-serif, serif;
  --names: "Source Sans 3", system-ui, "Segoe UI", "Noto Sans", ui-sans-serif, sans-serif;
  --numbers: "Source Code Pro", ui-monospace, "Cascadia Mono", "SF Mono", Menlo,
    "DejaVu Sans Mono", monospace;
  font-size: 16px; scroll-padding-top: 1.5rem;
}
@media (min-width: 1600px) { :root { font-size: 20px; } }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 1rem/1.5 var(--names); }
header, main, footer { max-width: 76rem; margin: 0 auto; padding: 0 1.5rem; }
a { color: var(--accent); text-underline-offset: .18em; text-decoration-thickness: 1px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
code, pre { font-family: var(--numbers); font-size: .875rem; }
small { font-size: .875rem; color: var(--ink3); font-weight: 400; }

header { padding-top: 2rem; }
.house { display: flex; align-items: center; gap: .6rem; margin: 0; font-weight: 600;
  font-size: 1.125rem; letter-spacing: -.012em; }
.house svg { width: 1.75rem; color: var(--accent); }
h1 { font-size: 2.75rem; line-height: 1.1; font-weight: 600; letter-spacing: -.02em;
  margin: 2.5rem 0 .5rem; }
.lead { font: 1.375rem/1.45 var(--words); color: var(--ink2); max-width: 44rem;
  margin: 0 0 1.5rem; }
nav { display: flex; flex-wrap: wrap; gap: .5rem; }
nav a, nav button { font: 1rem/1 var(--names); display: inline-flex; align-items: center;
  gap: .45rem; padding: .6rem .8rem;
  border: 1px solid var(--line); border-radius: .5rem; background: var(--pane); color: var(--ink2);
  text-decoration: none; cursor: pointer; }
nav a:hover, nav button:hover { border-color: var(--accent); color: var(--ink); }
nav a[data-on] { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent);
  color: var(--ink); background: var(--wash); }
nav b { font-family: var(--numbers); font-weight: 500; color: var(--ink); }
nav button { margin-left: auto; }
.mark { width: 1em; height: 1em; flex: none; color: var(--ink3); }
.mark.supported { color: var(--accent); } .mark.refuted { color: var(--pos); }
.mark.depends { color: var(--neg); }
.ran { color: var(--ink3); font-size: .875rem; margin: 1.25rem 0 0; }

.group { margin: 2.5rem 0 0; }
.group h2 { display: flex; align-items: center; gap: .5rem; font-size: 1.375rem; font-weight: 600;
  letter-spacing: -.01em; margin: 0; }
.group > p { color: var(--ink2); margin: .15rem 0 .6rem; max-width: 50rem; }
.group ul { list-style: none; margin: 0; padding: 0; background: var(--pane);
  border: 1px solid var(--line); border-radius: .75rem; box-shadow: var(--shade); }
.group li { display: grid; grid-template-columns: minmax(3.25rem, auto) minmax(0, 1fr) auto;
  gap: .25rem 1rem; padding: .5rem 1rem; border-top: 1px solid var(--line); align-items: baseline; }
.group li:first-child { border-top: 0; }
.group li b { font-family: var(--numbers); font-weight: 500; }
.group li span { font-family: var(--words); font-size: 1.0625rem; line-height: 1.4; }
.group li em { font: italic .9375rem var(--names); color: var(--pos); font-style: normal; }

.claim { margin: 3.5rem 0 0; padding: 1.5rem 1.75rem 1.75rem; background: var(--pane);
  border: 1px solid var(--line); border-radius: .75rem; box-shadow: var(--shade); }
.state { display: flex; align-items: center; gap: .5rem; margin: 0; font-size: 1.125rem; }
.state b { font-family: var(--numbers); font-weight: 500; color: var(--ink2); margin-right: .5rem; }
.state strong { font-weight: 600; }
.state .up { margin-left: auto; font-size: .875rem; }
.claim h2 { font: 500 1.75rem/1.3 var(--words); letter-spacing: -.008em; margin: .6rem 0 .7rem;
  max-width: 58rem; text-wrap: pretty; }
.why { font-size: 1.125rem; max-width: 62rem; margin: 0; overflow-wrap: anywhere; }
.differs { margin: .9rem 0 0; padding: .55rem .9rem; border-left: 3px solid var(--pos);
  background: var(--cell); border-radius: 0 .4rem .4rem 0; max-width: 62rem; }
figure { margin: 1.25rem 0 1.5rem; }
figure svg { display: block; width: 100%; height: auto; max-height: min(42rem, 82vh);
  font-family: var(--names); }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figure svg text { font-family: var(--names) !important; font-variant-numeric: tabular-nums; }
figure.paper { background: #fff; border-radius: .5rem; padding: .75rem; }
.below { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.15fr); gap: 0 3rem; }
@media (max-width: 60rem) { .below { grid-template-columns: minmax(0, 1fr); gap: 1.5rem 0; } }
h3, dt, summary { font-size: .875rem; font-weight: 600; color: var(--ink2); margin: 0; }
summary { cursor: pointer; padding: .2rem 0; }
.wide { overflow-x: auto; margin: .3rem 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { text-align: left; padding: .22rem 1.25rem .22rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; font-size: .875rem; color: var(--ink2); }
.number { text-align: right; white-space: nowrap; }
td.number { font-family: var(--numbers); font-size: .9375rem; }
dl { margin: 0; } dd { margin: 0 0 .8rem; overflow-wrap: anywhere; }
pre { overflow-x: auto; margin: .25rem 0 1.25rem; padding: 1rem 1.25rem; background: var(--pane);
  border: 1px solid var(--line); border-radius: .5rem; line-height: 1.45; }
pre span:target { background: var(--wash); box-shadow: -.6rem 0 0 var(--accent); }
#code summary { font-size: 1rem; }
footer { color: var(--ink3); font-size: .875rem; padding: 3rem 1.5rem; }

@media print {
  :root { font-size: 9pt; }
  body { background: #fff; }
  nav, .up, #code, footer { display: none; }
  .claim { box-shadow: none; border: 0; padding: 0; margin: 0; break-before: page; }
  .group ul { box-shadow: none; }
  .group li, figure, tr, dd { break-inside: avoid; }
  figure svg { max-height: 10cm; }
  .below { grid-template-columns: minmax(0, 1fr) minmax(0, 1.15fr); gap: 0 2rem; }
  h3, dt, summary { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; }
}
"""
)
