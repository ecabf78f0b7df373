"""The object people hold: a trained model that translates, labels, writes, and can be seen into."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from translucid import bundle
from translucid.bundle import Bundle
from translucid.data.cells import as_number
from translucid.data.spans import Span, split_words, tag_spans
from translucid.decoding.search import Search
from translucid.errors import ConfigError, InputError
from translucid.models.mlp import MLP
from translucid.see.display import model_html
from translucid.tasks.base import Score, Task, check_length
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress, RegressItem
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate
from translucid.training import recipe, shelf
from translucid.training.examples import make_task
from translucid.training.run import train_recipe
from translucid.training.seeing_model import SeeingModel
from translucid.training.setting import pick_device
from translucid.training.writing_model import several


@dataclass(frozen=True)
class Label:
    """A class and how sure the model is of it."""

    label: str
    probability: float


class Model(SeeingModel):
    """A bundle in use. Made by `tl.train` or `tl.load`."""

    def __init__(self, held: Bundle, folder: Path | None = None) -> None:
        self.network = held.network
        self.folder = folder  # that it was read from
        self.facts = held.facts
        self._bundle = held
        letters = getattr(held.network.config, "letters", 0) > 0
        self.task: Task[Any, Any] = make_task(
            held.task, held.tokenizers, held.labels,
            letters=letters, search=Search(**held.decoding),
        )  # fmt: skip

    def classify(self, texts: Sequence[str]) -> list[Label]:
        """The likeliest label of each text."""
        task = self._as(Classify)
        rows = task.probabilities(self.network, [task.encode_text(t) for t in several(texts)])
        best = [max(zip(row, task.labels, strict=True)) for row in rows]
        return [Label(label, probability) for probability, label in best]

    def tag(self, texts: Sequence[str]) -> list[list[Span]]:
        """The labelled spans of each text, by character."""
        task = self._as(Tag)
        places = [split_words(text) for text in several(texts)]
        words = [[text[a:b] for a, b in where] for text, where in zip(texts, places, strict=True)]
        found = task.predict(self.network, [task.encode_words(each) for each in words])
        return [tag_spans(*each) for each in zip(texts, places, found, strict=True)]

    def read_row(self, text: str, where: str) -> list[float]:
        """The numbers of a line, separated by commas or spaces; `where` begins a message."""
        self._as(Regress)
        assert isinstance(self.network, MLP)
        wanted, cells = self.network.config.inputs, text.replace(",", " ").split()
        if len(cells) != wanted:
            count = f"{len(cells)} number{'' if len(cells) == 1 else 's'}"
            raise InputError(
                f"{where}: {count} in {text!r:.60}, but the model takes {wanted}; give that many, "
                "separated by commas or spaces"
            )
        return [as_number(c, f"{where}: number {i}") for i, c in enumerate(cells, start=1)]

    def predict(self, rows: Sequence[Sequence[float]]) -> list[list[float]]:
        """The outputs for each row of input numbers."""
        task = self._as(Regress)
        return task.predict(self.network, [RegressItem(tuple(row), (), 0) for row in rows])

    def evaluate(
        self,
        *files: str,
        context: int = 0,
        say: Callable[[str], None] = lambda line: None,
        **data: Any,
    ) -> Score:
        """Scores on a file (for translation, two) in the format of the training data.

        `data` are keys of a recipe's data section, such as text_column. Before what a language
        model is scored on, it reads `context` tokens. `say` is told, line by line, what was read
        and what was left out.
        """
        items = self.items(*files, say=say, **data)
        if not isinstance(self.task, Language):
            return self.task.evaluate(self.network, items)
        task = Language(self.task.tokenizer, context=context)
        for row in task.with_context(items):
            check_length(len(row.ids), self.longest, f"context = {context}, row {row.line}")
        return task.evaluate(self.network, items)

    def check_text(self, text: str, where: str) -> None:
        """Refuse a text that is too long for the model; `where` begins the message."""
        if self.longest is None:
            return
        match self.task:
            case Translate() as task:
                tokens = len(task.source.encode(text)) + 1
            case Classify() as task:
                tokens = len(task.encode_text(text))
            case Tag() as task:
                tokens = len(task.encode_words([text[a:b] for a, b in split_words(text)]).ids)
            case _:
                return
        check_length(tokens, self.longest, where)

    def summary(self, length: int = 128) -> str:
        return self.network.summary(length)

    def studio(
        self, text: str | None = None, *, view: str = "flow", height: int = 640,
        beside: Sequence["Model"] = (), **address: str,
    ) -> Any:  # fmt: skip
        """A view of the studio in Jupyter or marimo: flow, attention, recurrent, decode, whatif,
        train, lesson, or compare with the models `beside`. `address`: further keys of the page's
        address, such as at, head, pin, theme. Needs the extra [notebook]."""
        try:
            # The widget is built on this class; the name is looked up when somebody wants one.
            home = import_module("translucid.studio.widget")
        except ImportError as error:
            raise ConfigError(
                f"model.studio needs the package {error.name}; install it with: "
                "pip install 'translucid[notebook]'"
            ) from error
        return home.widget(self, text, view=view, height=height, beside=beside, **address)

    def save(self, folder: str | Path) -> None:
        """Write the model folder."""
        bundle.save(self._bundle, Path(folder), f"# {self.task.name} model\n")

    def _repr_html_(self) -> str:
        facts = [("task", self.task.name), ("device", str(next(self.network.parameters()).device))]
        return model_html(repr(self), self.network, facts)

    def __repr__(self) -> str:
        size = self.network.parameters_count
        return f"Model(task={self.task.name!r}, parameters={size:,})"


def load(folder: str | Path, device: str = "cpu") -> Model:
    """The model in a folder that training wrote. device: cpu, cuda, or auto, a GPU if there is
    one."""
    return Model(bundle.load(folder, str(pick_device(device))), Path(folder))


def train(
    path: str | Path, out: str | Path, overrides: Iterable[str] = (), *, quiet: bool = False
) -> Model:
    """Train as a recipe says: a TOML file or the name of a shipped one, with `section.key=value`
    overrides. Returns the best model."""
    chosen = recipe.read(shelf.find(path), overrides)
    return Model(train_recipe(chosen, Path(out), quiet=quiet))
