"""Test scores of methods without a network, on the data sets of docs/explanation/results.md: the
scores that a network has to beat.

    python bench/baselines.py --data FOLDER

FOLDER contains the data sets by name (sst2, trec, ewt-pos, uner-ewt, wnut17), each with train,
valid and test; the default is `data` in the folder that TRANSLUCID_SHARED names. Classification:
the majority class, and naive Bayes over words and pairs of neighbours, with add-one smoothing.
Tagging: the most frequent tag of each word, or the most frequent tag overall for a new word.
Nothing is tuned.
"""

import argparse
import math
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from translucid.data.readers.read import read_labelled, read_tagged
from translucid.data.records import Labelled, Tagged
from translucid.tasks import metrics

CLASSES, TAGS = ("sst2", "trec"), ("ewt-pos", "uner-ewt", "wnut17")


def features(text: str) -> list[str]:
    """The words and pairs of neighbours of a text; its beginning and end count as neighbours."""
    words = text.split()
    return words + [f"{a} {b}" for a, b in pairwise(["<s>", *words, "</s>"])]


class NaiveBayes:
    """Multinomial naive Bayes with add-one smoothing: argmax of log p(label) + Σ log p(feature |
    label)."""

    def __init__(self, train: Sequence[Labelled]) -> None:
        self.labels = Counter(record.label for record in train)
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for record in train:
            self.counts[record.label].update(features(record.text))
        self.known = {feature for counts in self.counts.values() for feature in counts}
        self.totals = {label: counts.total() for label, counts in self.counts.items()}

    def __call__(self, text: str) -> str:
        known = [feature for feature in features(text) if feature in self.known]
        return max(self.labels, key=lambda label: self.score(label, known))

    def score(self, label: str, known: Sequence[str]) -> float:
        total = self.totals[label] + len(self.known)
        logs = (math.log((self.counts[label][feature] + 1) / total) for feature in known)
        return math.log(self.labels[label]) + sum(logs)


def classes(train: Sequence[Labelled], test: Sequence[Labelled]) -> dict[str, float]:
    """Accuracies of the classification baselines, in percent."""
    gold = [record.label for record in test]
    bayes = NaiveBayes(train)
    (majority, _), *_ = bayes.labels.most_common(1)
    return {
        "majority": 100 * metrics.accuracy([majority] * len(gold), gold),
        "naive Bayes": 100 * metrics.accuracy([bayes(record.text) for record in test], gold),
    }


def tags(train: Sequence[Tagged], test: Sequence[Tagged]) -> dict[str, float]:
    """Accuracy of the tagging baseline, and span F1 if the tags mark spans, in percent."""
    usual: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record in train:
        for word, tag in zip(record.words, record.tags, strict=True):
            usual[word][tag] += 1
    every = sum(usual.values(), Counter[str]())
    likeliest = {word: counts.most_common(1)[0][0] for word, counts in usual.items()}
    (majority, _), *_ = every.most_common(1)
    predicted = [[likeliest.get(word, majority) for word in record.words] for record in test]
    gold = [list(record.tags) for record in test]
    flat = ([tag for row in rows for tag in row] for rows in (predicted, gold))
    scores = {"accuracy": 100 * metrics.accuracy(*flat)}
    if any(tag.startswith("B-") for tag in every):
        scores["span F1"] = 100 * metrics.span_f1(predicted, gold)
    return scores


def main() -> None:
    shared = os.environ.get("TRANSLUCID_SHARED", "../shared")
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=Path(shared, "data"))
    folder = options.parse_args().data
    for name in (*CLASSES, *TAGS):
        ending, read = ("tsv", read_labelled) if name in CLASSES else ("conll", read_tagged)
        parts = {part: list(read(str(folder / name / f"{part}.{ending}")))
                 for part in ("train", "valid", "test")}  # fmt: skip
        score = classes if name in CLASSES else tags
        for part in ("valid", "test"):
            scores = score(parts["train"], parts[part])
            shown = "  ".join(f"{what} {value:.2f}" for what, value in scores.items())
            print(f"{name:<9} {part:<5}  {shown}")


if __name__ == "__main__":
    main()
