"""Combine a trained classifier with naive Bayes, as a small ensemble, and score it.

    translucid classify RUN valid.tsv --probabilities --out answers.valid.tsv   # and test.tsv
    python bench/beside_naive_bayes.py --data FOLDER --answers answers.valid.tsv answers.test.tsv

FOLDER contains train.tsv, valid.tsv and test.tsv (label, text). The predicted class maximises log
p(class) of the network + w · log p(class, words) of naive Bayes. The weight w in WEIGHTS with the
highest validation accuracy is chosen, and the test data is scored once with it. Mesnil et al. 2014,
https://arxiv.org/abs/1412.5335, found that such an ensemble is better than either model.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from baselines import NaiveBayes, features

from translucid.data.readers.read import read_labelled
from translucid.data.records import Labelled
from translucid.tasks import metrics

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0)


def log_probs(answers: Path, labels: Sequence[str]) -> list[dict[str, float]]:
    """Log-probabilities of the labels, read from the last columns of a table that `classify
    --probabilities` wrote; in the order of the labels."""
    rows = (line.split("\t")[-len(labels) :] for line in answers.read_text("utf-8").splitlines())
    return [
        {label: math.log(max(float(p), 1e-9)) for label, p in zip(labels, row, strict=True)}
        for row in rows
    ]


def accuracy(
    network: Sequence[dict[str, float]], bayes: NaiveBayes, records: Sequence[Labelled], w: float
) -> float:
    """Accuracy of the ensemble in percent. w: the weight of naive Bayes."""
    predicted = []
    for own, record in zip(network, records, strict=True):
        known = [feature for feature in features(record.text) if feature in bayes.known]
        total = {label: log + w * bayes.score(label, known) for label, log in own.items()}
        predicted.append(max(total, key=total.__getitem__))
    return 100 * metrics.accuracy(predicted, [record.label for record in records])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--answers", type=Path, nargs=2, required=True)
    chosen = options.parse_args()
    train, *held_out = (
        list(read_labelled(str(chosen.data / f"{part}.tsv"))) for part in ("train", "valid", "test")
    )
    bayes = NaiveBayes(train)
    labels = sorted(bayes.labels)
    valid, test = (log_probs(path, labels) for path in chosen.answers)
    right = {w: accuracy(valid, bayes, held_out[0], w) for w in WEIGHTS}
    best = max(WEIGHTS, key=right.__getitem__)
    for w in (0.0, best):
        score = accuracy(test, bayes, held_out[1], w)
        print(f"w = {w:g}  valid {right[w]:.2f}  test {score:.2f}")


if __name__ == "__main__":
    main()
