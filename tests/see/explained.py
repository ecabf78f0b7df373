"""Tiny models of every kind in float64, each with a text, to test gradients and explanations."""

from collections.abc import Mapping
from typing import Any

import torch

import translucid as tl
from translucid.data.features import Columns
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import LinearConfig, MLPConfig, Network, RecurrentConfig, TransformerConfig
from translucid.tasks.base import Task
from translucid.tasks.classify import Classify
from translucid.tasks.example import Example
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

ENGLISH = ["the cat sees a dog", "a dog sleeps"]
GERMAN = ["die Katze sieht einen Hund", "ein Hund schläft"]
LABELS, TAGS = ["bad", "good", "so so"], ["O", "B-A", "I-A"]
SIZES: dict[str, Any] = {"d_model": 8, "layers": 2}

Explained = tuple[Network, Task[Any, Any], Example]


def _config(family: str, words: int, **options: Any) -> Any:
    options = {"vocab": words, "dropout": 0.3} | SIZES | options
    if family == "transformer":
        return TransformerConfig(**({"heads": 2, "activation": "gelu"} | options))
    return RecurrentConfig(cell=family, hidden=8, **options)


def translator(family: str = "transformer", **options: Any) -> Explained:
    source, target = Tokenizer.train("space", ENGLISH), Tokenizer.train("space", GERMAN)
    task = Translate(source, target, smoothing=0.0)
    options = {
        "shape": "encoder-decoder",
        "head": "language",
        "target_vocab": len(target),
    } | options
    return _made(_config(family, len(source), **options), task, "the cat sleeps", "ein Hund sieht")


def writer(family: str = "transformer", **options: Any) -> Explained:
    task = Language(Tokenizer.train("space", ENGLISH))
    options = {"shape": "decoder", "head": "language"} | options
    return _made(_config(family, len(task.tokenizer), **options), task, "the dog sees a cat")


def classifier(
    family: str = "transformer", target: str | None = "good", **options: Any
) -> Explained:
    task = Classify(Tokenizer.train("space", ENGLISH), LABELS)
    options = {"shape": "encoder", "head": "classify", "outputs": 3} | options
    config = _config(family, len(task.tokenizer), **options)
    return _made(config, task, "the dog sees a cat", target)


def tagger(
    family: str = "transformer", target: str | None = "O B-A O", **options: Any
) -> Explained:
    task = Tag(Tokenizer.train("space", ENGLISH), TAGS, characters=bool(options.get("characters")))
    options = {"shape": "encoder", "head": "tag", "outputs": 3} | options
    return _made(_config(family, len(task.tokenizer), **options), task, "the cat sleeps", target)


def linear(head: str) -> Explained:
    words = Tokenizer.train("space", ENGLISH)
    config = LinearConfig(shape="encoder", head=head, vocab=len(words), outputs=3, features=50)
    if head == "classify":
        task = Classify(words, LABELS, characters=True)
        return _made(config, task, "the Dog sees a zebra", "good")
    return _made(config, Tag(words, TAGS, characters=True), "the Dog sees a zebra", "O B-A O O O")


def regressor(target: str | None = "1 -1", **options: Any) -> Explained:
    config = MLPConfig(
        **({"inputs": 3, "outputs": 2, "hidden": (5,), "activation": "tanh"} | options)
    )
    return _made(config, Regress(Columns.numbers(["x1", "x2", "x3"])), "0.5 -2 1.5", target)


def _made(config: Any, task: Task[Any, Any], text: str, target: str | None = None) -> Explained:
    torch.manual_seed(1)
    network = tl.build(config).double()
    with torch.no_grad():  # the outputs of an untrained network hardly differ
        for weight in network.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return network, task, task.example(text, target)


ALL: Mapping[str, Explained] = {
    "translator": translator(),
    "translator, lstm": translator("lstm", bidirectional=True),
    "writer": writer(),
    "writer, gru": writer("gru"),
    "classifier": classifier(),
    "classifier, lstm": classifier("lstm", pooling="last"),
    "classifier with n-gram features": classifier(ngram_features=7),
    "ensemble": classifier(ensemble_size=2),
    "linear classifier": linear("classify"),
    "linear tagger": linear("tag"),
    "tagger": tagger(positions="rotary"),
    "tagger with characters": tagger("lstm", characters=4),
    "causal tagger, rnn": tagger("rnn", shape="decoder"),
    "regressor": regressor(),
}
