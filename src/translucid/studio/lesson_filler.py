"""The numbers of a run, put into the text of a lesson.

The text of a lesson holds no number of its own: `{...}` becomes what is asked for (lesson_pieces),
and `[noun](part:{A})` a noun that lights what it names.

`{claim NAME}` is a sentence that compares: `claims` has it with the conditions under which it is
true, in the language of the tasks (lesson_conditions). Where they do not hold, or cannot be
evaluated, its `else` is shown instead, or nothing.
"""

import re
from collections.abc import Iterator
from typing import Any

from translucid.studio.lesson_conditions import Conditions
from translucid.studio.lesson_lacks import SentenceLacks, check_attention

PIECE = re.compile(r"\[(?P<noun>[^\]\[]+)\]\((?P<means>[^)]+)\)|\{(?P<asked>[^{}]+)\}")


class Filler(Conditions):
    """Puts the numbers of a run into one step."""

    def step(self) -> dict[str, Any]:
        self.check()
        address = self._filled(self.description["address"])
        check_attention(address, ((at, shape[1:]) for at, shape in self.run.shapes.items()))
        pins = [
            key for key in map(self._filled, self.description.get("pin", [])) if self._is_there(key)
        ]
        view, _, query = address.partition("?")
        asked = [*filter(None, query.split("&")), *([f"pin={','.join(pins)}"] if pins else [])]
        return {
            "say": list(self.pieces(self.description["say"])),
            "do": list(self.pieces(self.description["do"])),
            "address": f"{view}?{'&'.join(asked)}" if asked else view, "pin": pins,
            "light": [self._filled(key) for key in self.description.get("light", [])],
            **({"task": True} if "check" in self.description else {}),
        }  # fmt: skip

    def unfilled(self, reason: str) -> dict[str, Any]:
        """A task on a sentence that lacks what it points at: it is set all the same, for a task
        may be to write another sentence."""
        view, _, query = self.description["address"].partition("?")
        asked = [pair for pair in map(self._if_there, query.split("&")) if pair]
        return {
            "say": [{"text": f"Not here: {reason}."}],
            "do": list(self.pieces(self.description["do"], gaps=True)),
            "address": f"{view}?{'&'.join(asked)}" if asked else view, "pin": [], "light": [],
            "task": True,
        }  # fmt: skip

    def _if_there(self, text: str) -> str:
        try:
            return self._filled(text)
        except SentenceLacks:
            return ""

    def pieces(self, text: str, gaps: bool = False) -> Iterator[dict[str, Any]]:
        """Plain text, words, numbers, and nouns that light something. gaps: what this sentence
        lacks is left out, as …"""
        at = 0
        for match in PIECE.finditer(text):
            if match.start() > at:
                yield {"text": text[at : match.start()]}
            at = match.end()
            if (match["asked"] or "").startswith("claim "):
                yield from self._claim(match["asked"].partition(" ")[2], gaps)
                continue
            try:
                if match["noun"]:
                    yield {"text": match["noun"], "means": self._filled(match["means"])}
                else:
                    yield self._asked(match["asked"])
            except SentenceLacks:
                if not gaps:
                    raise
                yield {"text": match["noun"] or "…"}
        if at < len(text):
            yield {"text": text[at:]}

    def _claim(self, name: str, gaps: bool) -> Iterator[dict[str, Any]]:
        claim = self.description["claims"][name]
        text = claim["say"] if self.claim_holds(claim) else claim.get("else", "")
        return self.pieces(text, gaps)
