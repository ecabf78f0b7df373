"""What a stop of a lesson asks to be done, and whether it was.

A condition is about what the page shows: its address says which head, unit or step was chosen and
what was switched off, and numbers are those of the run under that change. `Here` is the point that
the address shows, such as the pattern of the chosen layer.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from translucid.models.perceptron import Perceptron
from translucid.studio import plane
from translucid.studio.lesson_conditions import COMPARISON
from translucid.studio.lesson_filler import Filler
from translucid.studio.lesson_lacks import Lacks, attention_kind
from translucid.studio.text_runs import Run

PARTS = {"cross": r"decoder\.(layers\.{layer}\.cross_attention|alignment)\.pattern",
         "encoder": r"encoder\.layers\.{layer}\.self_attention\.pattern",
         "decoder": r"decoder\.layers\.{layer}\.self_attention\.pattern"}  # fmt: skip


def check(
    run: Run, plain: Run, lesson: Mapping[str, Any], stop: int, address: str
) -> dict[str, Any]:
    """Whether the stop's task is done, and what to say. run: under what is switched off; plain:
    with nothing switched off."""
    step = lesson["steps"][stop - 1]
    kinds = [kind for kind in step.get("one_of", [step]) if "check" in kind]
    for kind in kinds:
        try:
            filler = Checked(run, plain, lesson["let"], kind, address)
            done = all(filler.holds(condition) for condition in kind["check"]["that"])
            text = kind["check"]["right" if done else "wrong"]
            return {"done": done, "say": list(filler.pieces(text))}
        except Lacks as error:
            lacking = str(error)
    return {"done": False, "say": [{"text": f"Not here: {lacking}." if kinds else "No task."}]}


class Checked(Filler):
    """The numbers of a run at an address of the page."""

    def __init__(
        self, run: Run, plain: Run, let: Mapping[str, Any], step: Mapping[str, Any], address: str
    ) -> None:
        super().__init__(run, let, step)
        self.plain, self.problem = plain, ""
        self.view, _, query = address.lstrip("#/").partition("?")
        self.query = {name: values[-1] for name, values in parse_qs(query).items()}
        if (here := self._here()) is not None:
            self.points["Here"] = here
        for name in ("head", "unit", "step", "layer"):
            if (value := self.query.get(name, "")).isdigit():
                self.places[name] = int(value)
        if self.view == "train" and (known := run.opened.model.facts.get("plane")) is not None:
            self._in_the_plane(str(known))
        if self.view in ("attention", "flow"):
            self.places.setdefault("head", 0)
        if here is not None and (layer := re.search(r"layers\.(\d+)", here)):
            self.places.setdefault("layer", int(layer[1]))

    def _in_the_plane(self, known: str) -> None:
        """What a training in the page has come to."""
        network = self.run.opened.model.network
        self.problem = self.query.get("problem", known)
        step, seed = self.places.setdefault("step", 0), self.query.get("seed", "")
        kind = "perceptron" if isinstance(network, Perceptron) else "mlp"
        now = plane.answer(
            kind, self.problem, min(step, plane.STEPS), int(seed) if seed.isdigit() else plane.SEED
        )
        self.places["mistakes"] = now["mistakes"]
        if "loss" in now:
            self.values["loss"] = now["loss"]

    def _here(self) -> str | None:
        """The point that the address shows."""
        kind, at = self.query.get("kind"), self.query.get("at", "")
        if kind in PARTS and self.view == "attention":
            pattern = PARTS[kind].replace("{layer}", self.query.get("layer", r"\d+"))
            return next((name for name in self.run.shapes if re.fullmatch(pattern, name)), None)
        names = [name for name in self.run.shapes if name == at or name.startswith(f"{at}.")]
        exact = [name for name in names if name == at or name.endswith((".pattern", ".hidden"))]
        return next(iter(exact or names), None) if at else None

    def holds(self, condition: str) -> bool:
        kind, _, rest = condition.partition(" ")
        if COMPARISON.fullmatch(condition):
            return super().holds(condition)
        match kind:
            case "view":
                return self.view == rest
            case "kind":
                return "Here" in self.points and rest == attention_kind(self.points["Here"])
            case "at":
                here = self.points.get("Here", "?").rpartition(".")[0]
                return here == self.points.get(rest, "").rpartition(".")[0]
            case "off":
                return any(rest in key for key in self.run.off)
            case "problem":
                return self.problem == rest
            case "differs":
                return self.run.answer() != self.plain.answer()
        return super().holds(condition)
