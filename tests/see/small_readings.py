"""Tiny random networks in float64, their tasks, and their readings of a text."""

from typing import Any

import torch

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import ModelConfig, Network, RecurrentConfig, TransformerConfig, build
from translucid.see.reading import Reading, read
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

ENGLISH = ["the dog sees the cat", "a cat runs", "the old dog runs home"]
GERMAN = ["der Hund sieht die Katze", "eine Katze rennt", "der alte Hund rennt heim"]
SOURCE, TARGET = Tokenizer.train("word", ENGLISH), Tokenizer.train("word", GERMAN)
TAGS, LABELS = ["O", "B-A", "I-A"], ["bad", "fair", "good", "none"]
TASKS = {
    "translate": Translate(SOURCE, TARGET),
    "language": Language(SOURCE),
    "tag": Tag(SOURCE, TAGS),
    "classify": Classify(SOURCE, LABELS),
}
SHAPES: dict[str, dict[str, Any]] = {
    "translate": {
        "shape": "encoder-decoder",
        "head": "language",
        "vocab": len(SOURCE),
        "target_vocab": len(TARGET),
    },
    "language": {"shape": "decoder", "head": "language", "vocab": len(SOURCE)},
    "tag": {"shape": "encoder", "head": "tag", "outputs": len(TAGS), "vocab": len(SOURCE)},
    "classify": {"shape": "encoder", "head": "classify", "outputs": 4, "vocab": len(SOURCE)},
}
TEXTS: dict[str, tuple[str, str | None]] = {
    "translate": ("the dog sees a cat", "der Hund sieht eine Katze"),
    "language": ("the dog sees a cat", None),
    "tag": ("the dog sees a cat", "O B-A O B-A I-A"),
    "classify": ("the dog sees a cat", "good"),
}


def transformer(task: str, **options: Any) -> Network:
    sizes = {"d_model": 8, "heads": 2, "layers": 2, "d_ff": 12, "max_length": 40}
    return random(TransformerConfig(**{**SHAPES[task], **sizes, **options}))


def recurrent(task: str, **options: Any) -> Network:
    sizes = {"d_model": 8, "hidden": 8, "layers": 2}
    return random(RecurrentConfig(**{**SHAPES[task], **sizes, **options}))


def random(config: ModelConfig) -> Network:
    """A network with random weights, since at initialisation all norms have no effect."""
    torch.manual_seed(1)
    network = build(config).double().eval()
    with torch.no_grad():
        for weight in [*network.parameters(), *network.buffers()]:
            weight.add_(0.3 * torch.randn_like(weight))
        for name, buffer in network.named_buffers():
            if name.endswith("variance"):
                buffer.abs_()
    return network


def reading_of(task: str, network: Network | None = None, **options: Any) -> Reading:
    text, target = TEXTS[task]
    return read(network or transformer(task), TASKS[task], text, target, **options)


def reading_in_pieces() -> Reading:
    """A reading of a text whose words consist of several tokens each."""
    tokenizer = Tokenizer.train("bpe", ["unhappy happy dogs"] * 3, vocab_size=270)
    config = TransformerConfig(
        **{**SHAPES["language"], "vocab": len(tokenizer)}, d_model=8, heads=2, layers=1
    )
    return read(random(config), Language(tokenizer), "unhappy dogs")


def say(reading: Reading) -> torch.Tensor:
    """The log-probabilities that the network computes for the only text, without any trace."""
    inputs = reading.example.batch.inputs
    with torch.no_grad():
        return reading.network(**inputs)[0].log_softmax(dim=-1)
