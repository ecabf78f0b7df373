"""What the lab's page has around its sections: verdicts to choose from, and a script.

The page works without the script, which only hides what was not asked for.
"""

from collections.abc import Mapping

from translucid.see.render.frame import escape, page

# The verdicts in the order of the front page, and what they mean.
VERDICTS = {
    "refuted": "The measurements lie clearly on the other side, in at least one setting that the "
    "claim speaks of.",
    "depends": "It holds in some settings and not in others; the section says in which.",
    "supported": "The measurements lie clearly on the side of the claim.",
    "undecided": "The interval over the seeds lies across the bar: the claim is close to neither "
    "side, or the seeds are too few to tell.",
    "not tested": "The nets have not learned what the claim is about, so that nothing follows.",
    "not run": "There is an experiment; it has not been run.",
    "no experiment yet": "Nobody has written an experiment for these yet.",
}
_MARKS = {"supported": "full", "refuted": "cross", "depends": "half", "undecided": "ring",
          "not tested": "dash"}  # fmt: skip
_SHAPES = {
    "full": '<circle cx="8" cy="8" r="6.5" fill="currentColor"/>',
    "cross": '<path d="M3 3 13 13M13 3 3 13" stroke="currentColor" stroke-width="2.6" '
    'stroke-linecap="round" fill="none"/>',
    "half": '<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6"/>'
    '<path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor"/>',
    "dash": '<path d="M3 8H13" stroke="currentColor" stroke-width="2.6" stroke-linecap="round"/>',
    "ring": '<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6" '
    'stroke-dasharray="2.4 2.4"/>',
}


def mark(verdict: str) -> str:
    """A shape for a verdict, beside its word: never a colour alone."""
    shape = _SHAPES.get(_MARKS.get(verdict, ""), "")
    if not shape:
        return ""
    name = verdict.replace(" ", "-")
    return f'<svg class="mark {name}" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>'


def frame(title: str, body: str, counts: Mapping[str, int]) -> str:
    """The page around the sections. body: HTML; counts: of each verdict."""
    measured = sum(count for name, count in counts.items() if name in _MARKS)
    lead = (
        "What five sets of course notes say, measured. Each claim has an experiment, and a rule "
        "that says what the numbers mean."
    )
    if measured < sum(counts.values()):
        lead += f" {measured} of {sum(counts.values())} claims have been measured so far."
    return page(
        f"Translucid: {title.lower()}", body, heading=title, lead=lead, menu=_counts(counts),
        script=_SCRIPT, footer="Verdicts are computed, never typed in.",
    )  # fmt: skip


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
const root = document.documentElement;
const system = () => matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const KEPT = "translucid-theme"; // as in the studio
let store = null; // a browser that is told to keep nothing refuses even to be asked
try { store = localStorage; } catch (error) { if (error.name !== "SecurityError") throw error; }
const kept = store?.getItem(KEPT);
if (kept) root.dataset.theme = kept;
button.addEventListener("click", () => {
  const theme = (root.dataset.theme ?? system()) === "dark" ? "light" : "dark";
  root.dataset.theme = theme;
  if (theme === system()) store?.removeItem(KEPT);
  else store?.setItem(KEPT, theme);
});
"""
