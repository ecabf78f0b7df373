"""Compare linear text models (model.kind=linear) with scikit-learn and fastText.

    python bench/linear_models.py DATA [--sets sst2 trec ...] [--methods ours sklearn] [--json]

DATA has one folder per set, with train, valid and test as .tsv (label, text) or .conll (word, tag).
scikit-learn, if it is installed, fits logistic regression with C = 1 and C = 10 on tf-idf of words
(1 to 2) and of characters (char_wb, 2 to 5); the validation part chooses. Scores are those of the
test part: accuracy, or span F1 for tags that mark spans. `most frequent` is the most frequent
label, or tag of each word.

fastText (`--methods fasttext`, classification only; for example the package fasttext-community)
averages embeddings of words, word n-grams and possibly character n-grams, and trains a softmax on
them by SGD with a linearly decaying rate (Joulin et al. 2017, https://arxiv.org/abs/1607.01759).
Seed 0 tries all of FASTTEXT; the settings that are best on the validation part are scored on the
test part, with three seeds.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import torch  # noqa: E402

from translucid.data.readers.loading import Loading  # noqa: E402
from translucid.models import build, config_from  # noqa: E402
from translucid.tasks.options import DataConfig, Resources, TokenizerConfig  # noqa: E402
from translucid.tasks.registry import TASKS  # noqa: E402
from translucid.tasks.vocabulary import labels_in  # noqa: E402

SETS = ("sst2", "subjectivity", "pros-cons", "trec", "ewt-pos", "uner-ewt", "wnut17")
BATCH = 256  # examples
METHODS = ("ours", "sklearn", "fasttext")
FASTTEXT: dict[str, tuple[Any, ...]] = {
    "lr": (0.1, 0.5, 1.0), "epoch": (5, 25), "wordNgrams": (1, 2),
    "characters": ((0, 0), (2, 5)),  # their n-grams, from and to
}  # fmt: skip
SEEDS = (0, 1, 2)


def ours(folder: Path, name: str) -> dict[str, Any]:
    """Fit and score our linear model."""
    task_name, end = ("classify", "tsv") if (folder / "train.tsv").is_file() else ("tag", "conll")
    kind = TASKS[task_name]
    parts = {
        part: list(kind.read([str(folder / f"{part}.{end}")], DataConfig(), Loading()))
        for part in ("train", "valid", "test")
    }
    began, busy = time.perf_counter(), time.process_time()
    options = TokenizerConfig(**kind.traits.baseline["tokenizer"])
    tokenizers = kind.learn_tokenizers(parts["train"], options)
    labels = labels_in([record for records in parts.values() for record in records], "label")
    resources = Resources(tokenizers, labels, characters=True)
    task = kind.make(resources)
    sizes = kind.network_sizes(resources, parts["train"])
    network = build(config_from({**kind.traits.baseline["model"], **sizes}))
    items = {part: task.encode_all(records) for part, records in parts.items()}
    train = sorted(items["train"], key=task.sizes)
    batches = [task.collate(train[i : i + BATCH]) for i in range(0, len(train), BATCH)]
    read = time.process_time() - busy
    network.fit([(batch.inputs, batch.targets) for batch in batches])
    row: dict[str, Any] = {
        "set": name, "metric": task.metric, "train": len(train),
        "seconds": time.perf_counter() - began, "processor seconds": time.process_time() - busy,
        "of these to read": read,
    }  # fmt: skip
    for part in ("valid", "test"):
        row[part] = task.evaluate(network, items[part]).numbers[task.metric]
    row["most frequent"] = task.baseline(items["train"], items["test"]).score.numbers[task.metric]
    return row


def texts_and_labels(folder: Path, part: str) -> tuple[list[str], list[str]]:
    lines = (folder / f"{part}.tsv").read_text("utf-8").splitlines()
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    return list(texts), list(labels)


def sklearn(folder: Path) -> dict[str, float]:
    """The test accuracy of logistic regression, by features, with the C that is best on valid."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    parts = {part: texts_and_labels(folder, part) for part in ("train", "valid", "test")}
    tfidf = partial(TfidfVectorizer, sublinear_tf=True, min_df=2)
    found: dict[str, tuple[float, float]] = {}  # on valid, on test
    for name, vectors in (
        ("tf-idf of words", tfidf(ngram_range=(1, 2))),
        ("tf-idf of characters", tfidf(analyzer="char_wb", ngram_range=(2, 5))),
    ):
        vectors.fit(parts["train"][0])
        features = {part: vectors.transform(texts) for part, (texts, _) in parts.items()}
        for c in (1, 10):
            model = LogisticRegression(C=c, max_iter=1000).fit(features["train"], parts["train"][1])
            valid, test = (float(model.score(features[p], parts[p][1])) for p in ("valid", "test"))
            found[name] = max(found.get(name, (0.0, 0.0)), (valid, test), key=lambda pair: pair[0])
    best = max(found, key=lambda name: found[name][0])
    return {name: test for name, (_, test) in found.items()} | {f"best: {best}": found[best][1]}


def fasttext(folder: Path) -> dict[str, Any]:
    """The accuracy of fastText on valid and test, by seed, with the settings that are best on
    valid."""
    import fasttext as package  # type: ignore[import-not-found,unused-ignore]

    parts = {part: texts_and_labels(folder, part) for part in ("train", "valid", "test")}
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "train.txt"
        rows = zip(*parts["train"], strict=True)
        file.write_text("".join(f"__label__{label} {text}\n" for text, label in rows), "utf-8")

        def scores(settings: dict[str, Any], seed: int) -> dict[str, float]:
            least, most = settings["characters"]
            keys = {key: value for key, value in settings.items() if key != "characters"}
            try:
                model = package.train_supervised(
                    str(file), **keys, minn=least, maxn=most, dim=50, bucket=200_000, thread=1,
                    seed=seed, verbose=0,
                )  # fmt: skip
            except RuntimeError as error:  # "Encountered NaN", with high rates
                print(f"{folder.name}, {settings}, seed {seed}: {error}", file=sys.stderr)
                return {"valid": 0.0, "test": 0.0}
            found = {}
            for part in ("valid", "test"):
                texts, labels = parts[part]
                answers = [row[0].removeprefix("__label__") for row in model.predict(texts)[0]]
                pairs = zip(answers, labels, strict=True)
                found[part] = sum(a == label for a, label in pairs) / len(labels)
            return found

        tried = [dict(zip(FASTTEXT, values, strict=True)) for values in product(*FASTTEXT.values())]
        on_valid = [scores(settings, SEEDS[0])["valid"] for settings in tried]
        best = tried[on_valid.index(max(on_valid))]
        return {"settings": best, "by seed": [scores(best, seed) for seed in SEEDS]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    parser.add_argument("--methods", nargs="+", default=METHODS[:2], choices=METHODS)
    arguments = parser.parse_args()
    found = []
    for name in arguments.sets:
        folder = arguments.data / name
        row = ours(folder, name) if "ours" in arguments.methods else {"set": name}
        if (folder / "train.tsv").is_file():
            if "sklearn" in arguments.methods:
                row["sklearn"] = sklearn(folder)
            if "fasttext" in arguments.methods:
                row["fasttext"] = fasttext(folder)
        print(json.dumps(row), file=sys.stderr, flush=True)
        found.append(row)
    machine = {
        "machine": platform.machine(), "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0], "torch": torch.__version__,
    }  # fmt: skip
    if arguments.json or "ours" not in arguments.methods:
        print(json.dumps({"machine": machine, "sets": found}, indent=2))
        return
    print("| set | metric | linear | most frequent | best of sklearn | processor seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in found:
        best = list(row.get("sklearn", {"-": 0.0}).items())[-1]
        shown = f"{best[1]:.3f} ({best[0]})" if best[1] else "-"
        print(
            f"| {row['set']} | {row['metric']} | {row['test']:.3f} | {row['most frequent']:.3f} "
            f"| {shown} | {row['processor seconds']:.1f} |"
        )
    print(f"\n{machine}")


if __name__ == "__main__":
    main()
