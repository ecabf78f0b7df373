"""What the studio asks of a model. Who opens one hands it over; the studio opens none itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.results import Decoded
from translucid.models.base import Network
from translucid.runs.recipe.examples import Part
from translucid.tasks.base import Task


class StudioModel(Protocol):
    """A trained model, with what it was trained for."""

    network: Network
    task: Task[Any, Any]
    folder: Path | None  # that it was read from
    facts: dict[str, Any]  # scores, steps, an example of its data

    def texts(
        self, *files: str, limit: int | None = None, part: Part = "test"
    ) -> list[tuple[str, str | None]]: ...
    def target_for(self, text: str, target: str | None) -> str | None: ...
    @property
    def decode(self) -> Callable[..., list[Decoded]]: ...
    @property
    def search(self) -> Callable[..., GenerationConfig]: ...
    @property
    def output_tokenizer(self) -> Tokenizer: ...


Load = Callable[[Path], StudioModel]
