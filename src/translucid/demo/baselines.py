"""What a model is compared with: guesses that know the words but not their order."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import torch
from torch import Tensor, nn

from translucid.data.batching import plan_batches
from translucid.data.records import Labelled, Text
from translucid.demo.quietly import train_quietly
from translucid.models.heads import Classifier
from translucid.parts.embedding import Embedding
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.batch import Batch
from translucid.tasks.classify import Classify, ClassifyItem
from translucid.tasks.language import Language, LanguageItem


class BagOfWords(nn.Module):
    """The mean of the words' vectors, then a linear map: the order of the words is lost."""

    def __init__(self, vocab: int, labels: int, d_model: int = 16) -> None:
        super().__init__()
        self.embedding = Embedding(vocab, d_model)
        self.head = Classifier(d_model, labels, "mean")

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.head(self.embedding(ids), mask)


def bag_of_words_accuracy(
    task: Classify, training: Sequence[Labelled], test: Sequence[Labelled], recipe: Recipe
) -> float:
    """Accuracy on the test data, trained by the same loop on the same batches as the model."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.training.seed)
        bag = BagOfWords(len(task.tokenizer), len(task.labels))
    items, held_out = ([task.encode(record) for record in part] for part in (training, test))
    config = recipe.training.model_copy(update={"learning_rate": 0.02})  # a bag takes long steps
    batches = _batches(task, items, recipe)
    return train_quietly(bag, task, batches, held_out, config).numbers["accuracy"]


def _batches(task: Classify, items: Sequence[ClassifyItem], recipe: Recipe) -> Iterator[Batch]:
    sizes = [task.sizes(item) for item in items]
    budget, seed = recipe.training.batch_tokens, recipe.training.seed
    for epoch in count():
        for places in plan_batches(sizes, budget, seed=seed, epoch=epoch).batches:
            yield task.collate([items[i] for i in places])


@dataclass(frozen=True)
class Guesses:
    """Perplexity of saying the next word without having read much."""

    uniform: float  # every word of the vocabulary is as likely
    unigram: float  # as often as in the training text
    bigram: float  # as often as after the word before


def guesses(task: Language, training: Iterable[Text], test: Sequence[LanguageItem]) -> Guesses:
    """On the targets that the model is scored on; counted with one added for every word."""
    vocab = len(task.tokenizer)
    words: Counter[int] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    before: Counter[int] = Counter()
    end = task.tokenizer.eos_id
    for record in training:
        ids = [end, *task.tokenizer.encode(record.text), end]  # a text follows the end of another
        words.update(ids[1:])
        pairs.update(pairwise(ids))
        before.update(ids[:-1])
    total = sum(words.values())

    def unigram(word: int) -> float:
        return (words[word] + 1) / (total + vocab)

    def bigram(last: int, word: int) -> float:
        # The unigram stands in for one sighting, so that an unseen pair is not impossible.
        return (pairs[last, word] + unigram(word)) / (before[last] + 1)

    steps = [pair for item in test for pair in zip(item.ids, item.targets, strict=True)]
    return Guesses(
        float(vocab),
        _perplexity(unigram(word) for _, word in steps),
        _perplexity(bigram(last, word) for last, word in steps),
    )


def _perplexity(probabilities: Iterable[float]) -> float:
    logs = [math.log(p) for p in probabilities]
    return math.exp(-sum(logs) / max(len(logs), 1))
