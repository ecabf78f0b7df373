"""One text that a network is asked about: whether it can be read, and what stands against it."""

from typing import Any

from translucid.data.cells import as_number
from translucid.data.spans import split_words
from translucid.errors import InputError
from translucid.models.base import Network, SequenceConfig
from translucid.models.mlp import MLP
from translucid.tasks.base import Task, check_length
from translucid.tasks.classify import Classify
from translucid.tasks.generator import Generator
from translucid.tasks.regress import Regress
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate
from translucid.tasks.verbs import expect


def longest(network: Network) -> int | None:
    """How many tokens the network can read; None: as many as memory holds."""
    config = network.config
    return config.longest if isinstance(config, SequenceConfig) else None


def check_text(network: Network, task: Task[Any, Any], text: str, where: str) -> None:
    """Refuse a text that is too long; `where` begins the message."""
    most = longest(network)
    if most is None:
        return
    match task:
        case Translate():
            tokens = len(task.source.encode(text)) + 1
        case Classify():
            tokens = len(task.encode_text(text))
        case Tag():
            tokens = len(task.encode_words([text[a:b] for a, b in split_words(text)]).ids)
        case _:
            return
    check_length(tokens, most, where)


def read_row(network: Network, task: Task[Any, Any], text: str, where: str) -> list[float]:
    """The numbers of a line, separated by commas or spaces; `where` begins a message."""
    expect(task, Regress)
    assert isinstance(network, MLP)
    wanted, cells = network.config.inputs, text.replace(",", " ").split()
    if len(cells) != wanted:
        count = f"{len(cells)} number{'' if len(cells) == 1 else 's'}"
        raise InputError(
            f"{where}: {count} in {text!r:.60}, but the model takes {wanted}; give that many, "
            "separated by commas or spaces"
        )
    return [as_number(c, f"{where}: number {i}") for i, c in enumerate(cells, start=1)]


def own_target(network: Network, task: Task[Any, Any], text: str) -> str | None:
    """What a text is read together with unless something is given: a translator's own answer."""
    return Generator(task, network).translate([text])[0] if isinstance(task, Translate) else None
