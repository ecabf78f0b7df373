"""The tree of a search for people: chains on one line, what was pruned and why below them."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from translucid.data.tokenizers.tokenizer import Tokenizer
    from translucid.generate.results import Decoded
    from translucid.generate.tree import Node, Tree

BOLD, DIM, PLAIN = "\x1b[1;32m", "\x1b[2m", "\x1b[0m"
KEPT = ("followed", "ended", "cut", "stopped")
ENDS = {1: "1st", 2: "2nd", 3: "3rd"}


def explained(decoded: "Decoded", tokenizer: "Tokenizer", *, colour: bool = False) -> str:
    """What was found, and how. `colour`: for a terminal that wants it."""
    if decoded.tree is None:
        return f"{decoded.source}\n  an empty line has an empty translation\n\n"
    drawing = _Drawing(decoded.tree, tokenizer, colour and "NO_COLOR" not in os.environ)
    lines = [decoded.source, *(f"  -> {text.text}" for text in decoded.texts), ""]
    lines += [f"  note: {decoded.note}", ""] if decoded.note else []
    lines += drawing.lines()
    return "\n".join(lines) + "\n\n"


class _Drawing:
    def __init__(self, tree: "Tree", tokenizer: "Tokenizer", colour: bool) -> None:
        self.tree, self.tokenizer, self.colour = tree, tokenizer, colour
        self.below = tree.children()
        self.width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))

    def lines(self) -> Iterator[str]:
        config, fates = self.tree.config, Counter[str](node.fate for node in self.tree.nodes[1:])
        shape = f"beam size {config.beam_size}, alpha {config.alpha:g}"
        if config.beam_groups > 1:
            shape += (
                f", {config.beam_groups} groups, diversity penalty {config.diversity_penalty:g}"
            )
        counted = ", ".join(f"{fates[fate]} {fate}" for fate in (*KEPT, "pruned", "forbidden")
                            if fates[fate])  # fmt: skip
        yield f"{shape}; {self.tree.rounds} rounds; prefixes: {counted}"
        yield "● the way to the best text   ○ other ways   × pruned: below the last place"
        yield ""
        yield from self._rejected(self.tree.nodes[0], "")
        kept = self._kept(self.tree.nodes[0])
        for place, node in enumerate(kept):
            yield from self._branch(node, "", last=place == len(kept) - 1)

    def _branch(self, node: "Node", guide: str, *, last: bool) -> Iterator[str]:
        """A chain without a fork, what was rejected along it, and what it forks into."""
        chain = [node]
        while len(kept := self._kept(chain[-1])) == 1:
            chain += kept
        end, mark = chain[-1], "●" if node.chosen else "○"
        head = f"{guide}{'└' if last else '├'}{mark} {self._words(chain)}  {self._fate(end, kept)}"
        yield self._styled(_cut(head, self.width), BOLD if node.chosen else "")
        inner = guide + ("  " if last else "│ ")
        for link in chain:
            yield from self._rejected(link, inner + ("│ " if kept else "  "))
        for place, child in enumerate(kept):
            yield from self._branch(child, inner, last=place == len(kept) - 1)

    def _fate(self, node: "Node", kept: Sequence["Node"]) -> str:
        rank = f"{ENDS.get(node.place, f'{node.place}th')}: " if node.place else ""
        if node.fate != "followed":
            return f"[{rank}{node.fate}] {node.why}"
        return f"{node.score:.2f}" if kept else f"{node.score:.2f} [all that follows was pruned]"

    def _rejected(self, parent: "Node", guide: str) -> Iterator[str]:
        """One line for all that were pruned after a prefix, one for all that were forbidden."""
        after = f"after {self._words([parent])}" if parent.parent is not None else "at the start"
        pruned = [n for n in self.below[parent.number] if n.fate == "pruned"]
        if pruned:
            listed = ", ".join(f"{self._words([n])} {n.score:.2f}" for n in pruned)
            yield self._line(guide, f"× {after}: {listed}", f" {_bar(pruned[0])}")
        for node in self.below[parent.number]:
            if node.fate == "forbidden":
                text = f"⊘ {after}: {self._words([node])} {node.score:.2f}"
                yield self._line(guide, text, f" ({node.why})")

    def _line(self, guide: str, text: str, why: str) -> str:
        """The reason stays readable; what does not fit of the rest is left out."""
        room = max(self.width - len(guide) - len(why), 20)
        return self._styled(_cut(guide + _cut(text, room) + why, self.width), DIM)

    def _kept(self, node: "Node") -> list["Node"]:
        return [n for n in self.below[node.number] if n.fate in KEPT]

    def _words(self, nodes: Sequence["Node"]) -> str:
        """Tokens as people read them; · joins the pieces of a word."""
        from translucid.generate.results import shown

        words = ""
        for node in nodes:
            piece = shown(self.tokenizer, node.token)
            glue = " " if piece.startswith(" ") or self._apart(piece) else "·"
            visible = piece.strip() or repr(piece)
            words += visible if not words else glue + visible
        return words

    def _apart(self, piece: str) -> bool:
        from translucid.generate.results import END

        return self.tokenizer.unit == "word" or piece == END

    def _styled(self, line: str, style: str) -> str:
        return f"{style}{line}{PLAIN}" if self.colour and style else line


def _bar(node: "Node") -> str:
    """What the prefix would have had to reach: < -2.90, last of 3"""
    from translucid.generate.tree import digits_apart

    by = node.pruned
    if by is None or node.score >= by.bar:
        return f"({node.why})"
    last = f"last of {by.places}" if by.places > 1 else "only place"
    group = f"; {by.cost:.2f} of it because earlier groups took it" if by.cost else ""
    return f"< {by.bar:.{digits_apart(node.score, by.bar)}f}, {last}{group}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
