"""The samples in docs/reference/toyland.md: the first sentences of every family in the test split.

Run `python -m tests.toyland.toyland_page` to write them into the page.
"""

from functools import cache
from pathlib import Path

from translucid.data.toyland import STRUCTURES, Sentence, generate

PAGE = Path(__file__).parents[2] / "docs/reference/toyland.md"
START, END = "<!-- samples: begin -->\n", "<!-- samples: end -->\n"
EACH = 3
LOOK_AT = 3000  # sentences to search for enough of each family


@cache
def chosen() -> dict[str, list[Sentence]]:
    found: dict[str, list[Sentence]] = {name: [] for name in STRUCTURES}
    for sentence in generate(LOOK_AT, split="test"):
        own = found[sentence.structure]
        if len(own) < EACH and sentence.length >= 6 and not _repeats(sentence, own):
            own.append(sentence)
            if all(len(own) == EACH for own in found.values()):
                break
    return found


def _repeats(sentence: Sentence, own: list[Sentence]) -> bool:
    """Whether a sentence is too similar to those already chosen: the same opening words, or the
    only missing label of a family is a different one."""
    openings = {one.english[:2] for one in own}
    labels = {one.sentiment for one in own}
    same_label = sentence.sentiment != "neutral" and len(own) == EACH - 1
    return sentence.english[:2] in openings or (same_label and labels == {sentence.sentiment})


def entities(sentence: Sentence) -> str:
    """The names of a sentence with their types, as `Anna Weber PER, Berlin LOC`."""
    spans: list[tuple[list[str], str]] = []
    for word, tag in zip(sentence.english, sentence.entities, strict=True):
        if tag.startswith("B-"):
            spans.append(([word], tag[2:]))
        elif tag.startswith("I-"):
            spans[-1][0].append(word)
    return ", ".join(f"{' '.join(words)} {kind}" for words, kind in spans)


def samples() -> str:
    lines = []
    for name, own in chosen().items():
        lines += [f"\n**{name}**\n\n", "| English | German | label | entities |\n"]
        lines += ["| --- | --- | --- | --- |\n"]
        lines += [
            f"| {one.source} | {one.target} | {one.sentiment} | {entities(one)} |\n" for one in own
        ]
    return "".join(lines)


def parts() -> tuple[str, str, str]:
    """The page before, between and after the marks."""
    head, rest = PAGE.read_text("utf-8").split(START)
    middle, tail = rest.split(END)
    return head, middle, tail


if __name__ == "__main__":
    head, _, tail = parts()
    PAGE.write_text(head + START + samples() + "\n" + END + tail, encoding="utf-8")
