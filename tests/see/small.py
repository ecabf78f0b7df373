"""Small untrained networks with their tasks, for tests whose values need not make sense."""

from functools import cache
from typing import Any

import torch

from translucid.data.features import Columns
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import LinearConfig, MLPConfig, RecurrentConfig, TransformerConfig, build
from translucid.models.base import Network
from translucid.see.reading import Reading, read
from translucid.tasks.base import Task
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

ENGLISH = ["the dog sees a cat .", "a cat and the bird sleep .", "the old bird sings ."]
GERMAN = ["der hund sieht eine katze .", "eine katze und der vogel schlafen .", "der vogel singt ."]
LABELS, TAGS = ["bad", "good"], ["O", "B-PER", "I-PER"]

TRANSFORMER = {"d_model": 16, "heads": 2, "layers": 2, "d_ff": 24, "dropout": 0.0}
RECURRENT = {"d_model": 12, "hidden": 12, "layers": 1, "dropout": 0.0}


@cache
def words(kind: Any = "word") -> tuple[Tokenizer, Tokenizer]:
    return Tokenizer.train(kind, ENGLISH), Tokenizer.train(kind, GERMAN)


def pair(task: str, family: str = "transformer", kind: str = "word", **keys: Any) -> Any:
    """A task and a network for it, in float64, so that two ways of computing a value agree
    closely."""
    source, target = words(kind)
    tasks: dict[str, Task[Any, Any]] = {
        "translate": Translate(source, target),
        "language": Language(source),
        "classify": Classify(source, LABELS, characters=family == "linear"),
        "tag": Tag(source, TAGS, characters=family == "linear"),
        "regress": Regress(Columns.numbers(["x1", "x2", "x3"])),
    }
    torch.manual_seed(0)
    if task == "regress":
        return tasks[task], build(MLPConfig(inputs=3, outputs=1, hidden=(4,))).double().eval()
    shape = {"translate": "encoder-decoder", "language": "decoder"}.get(task, "encoder")
    head = {"classify": "classify", "tag": "tag"}.get(task, "language")
    outputs = {"classify": len(LABELS), "tag": len(TAGS)}.get(task)
    config: dict[str, Any] = {"shape": shape, "head": head, "vocab": len(source)}
    config |= {} if outputs is None else {"outputs": outputs}
    config |= {"target_vocab": len(target)} if task == "translate" else {}
    if family == "linear":
        network = build(LinearConfig(**config | {"features": 50} | keys)).double().eval()
        for weight in network.parameters():  # which are initialised with 0
            torch.nn.init.normal_(weight)
        return tasks[task], network
    if family == "transformer":
        return tasks[task], build(TransformerConfig(**config | TRANSFORMER | keys)).double().eval()
    sizes = RECURRENT | {"cell": family} | keys
    return tasks[task], build(RecurrentConfig(**config | sizes)).double().eval()


def reading(
    task: str, text: str, target: str | None = None, family: str = "transformer", **keys: Any
) -> Reading:
    made: tuple[Task[Any, Any], Network] = pair(task, family, **keys)
    return read(made[1], made[0], text, target)
