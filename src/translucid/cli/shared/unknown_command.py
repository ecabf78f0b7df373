"""A command that does not exist: what other tools call by this name, or what is spelt nearly so."""

from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup

NEAR = 0.75  # below it, words have letters in common rather than a meaning

# What people of the field type, and the line that does it here.
ELSEWHERE = {
    "fit": "train translate --train train.en train.de --out runs/x",
    "tune": "train classify --from runs/x --train mine.tsv --out runs/tuned",
    "finetune": "train classify --from runs/x --train mine.tsv --out runs/tuned",
    "average": "train translate --train train.en train.de training.average_best=true",
    "preprocess": "check translate --train train.en train.de",
    "vocab": "tokenizer train train.en train.de --out tok",
    "buildvocab": "tokenizer train train.en train.de --out tok",
    "eval": "evaluate runs/x test.en test.de",
    "test": "evaluate runs/x test.en test.de",
    "infer": "predict runs/x file.txt",
    "inference": "predict runs/x file.txt",
    "run": "predict runs/x file.txt",
    "decode": "translate runs/x file.txt",
    "quantize": "translate runs/x file.txt --precision int8",
    "download": "import hf:ORG/NAME runs/x",
    "convert": "export runs/x --to ctranslate2 --out exported/x",
    "help": "--help",
    "version": "--version",
}


class Commands(TyperGroup):
    """A group of commands that knows what they are called elsewhere."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command {name!r}.{self._instead(name, whole=ctx.parent is None)}")
        return super().resolve_command(ctx, args)

    def _instead(self, name: str, *, whole: bool) -> str:
        """What may have been meant. whole: these are the commands of the program."""
        line = ELSEWHERE.get(name.lower().replace("-", "").replace("_", "")) if whole else None
        if line is not None:
            return f" What does that here: translucid {line}"
        close = [other for other in self.commands if len(name) > 2 and other.startswith(name)]
        close = close or get_close_matches(name, self.commands, cutoff=NEAR)
        return f" Did you mean {', '.join(map(repr, close))}?" if close else ""
