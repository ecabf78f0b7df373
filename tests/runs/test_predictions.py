"""What a run predicted is in its folder: what was scored, as its command writes it."""

import json
from pathlib import Path
from typing import Any

import pytest
from sacrebleu import corpus_bleu, corpus_chrf
from tests.in_process import run

from translucid.data.spans import chunks
from translucid.model import load

SMALL = ["model.d_model=16", "model.heads=2", "model.layers=1", "training.batch_tokens=300",
         "training.device=cpu", "training.warmup=1"]  # fmt: skip
PAIRS = [("a dog sleeps now", "ein hund schläft jetzt"), ("the cat sees it", "die katze sieht es"),
         ("a big cat", "eine große katze"), ("the dog sleeps", "der hund schläft"),
         ("the cat sleeps now", "die katze schläft jetzt"), ("a dog sees a cat there",
          "ein hund sieht eine katze dort")]  # fmt: skip
WORDS = [
    [("Anna", "B-PER"), ("Keller", "I-PER"), ("sleeps", "O")],
    [("in", "O"), ("Rome", "B-LOC")],
    [("Anna", "B-PER"), ("sees", "O"), ("Rome", "B-LOC")],
    [("now", "O"), ("Ben", "B-PER")],
]


def train(folder: Path, task: str, files: list[str], *changes: str) -> Path:
    parts = [word for part in ("train", "valid", "test") for word in (f"--{part}", *files)]
    words = ["train", task, *parts, "--out", "run", *SMALL, *changes]
    done = run(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def lines(run: Path, part: str = "test") -> list[str]:
    return (run / f"{part}.predictions.txt").read_text("utf-8").splitlines()


def noted(run: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((run / "test.json").read_text("utf-8"))
    return values


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    for name, side in (("a.en", 0), ("a.de", 1)):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in PAIRS), "utf-8")
    return train(folder, "translate", ["a.en", "a.de"], "training.steps=60", "training.seed=1",
                 "tokenizer.kind=space", "training.learning_rate=0.02", "decoding.beam_size=2",
                 "decoding.alpha=0.5")  # fmt: skip


def test_sacrebleu_of_the_file_is_the_score(translator: Path) -> None:
    gold = [target for _, target in PAIRS]
    numbers = noted(translator)["test"]
    assert numbers["bleu"] > 5  # it has learnt something, so that the numbers can differ
    assert corpus_bleu(lines(translator), [gold]).score == numbers["bleu"]
    assert corpus_chrf(lines(translator), [gold]).score == numbers["chrf"]
    valid = load(translator).facts["valid"]
    assert corpus_chrf(lines(translator, "valid"), [gold]).score == valid["chrf"]


def test_words_that_no_tokenizer_knows_count(translator: Path) -> None:
    """References are those of the file, so that models with other tokenizers compare."""
    gold = [target.replace("katze", "giraffe") for _, target in PAIRS]
    (translator.parent / "b.de").write_text("".join(f"{line}\n" for line in gold), "utf-8")
    files = [str(translator.parent / name) for name in ("a.en", "b.de")]
    score = load(translator).evaluate(*files)
    assert corpus_bleu(list(score.predictions), [gold]).score == score.numbers["bleu"]
    assert corpus_chrf(list(score.predictions), [gold]).score == score.numbers["chrf"]


def test_translate_writes_the_same(translator: Path) -> None:
    written = run("translate", "run", "a.en", "--precision", "float32", cwd=translator.parent)
    assert written.stdout == (translator / "test.predictions.txt").read_text("utf-8")


def test_decoding_settings_are_stored(translator: Path) -> None:
    assert noted(translator)["decoding"] == {"beam_size": 2, "alpha": 0.5}
    bleu, chrf = noted(translator)["notes"]
    assert bleu.startswith("bleu: nrefs:1|case:mixed|")
    assert chrf.startswith("chrf: nrefs:1|case:mixed|")
    assert f"{bleu}  {chrf}" in (translator / "log.txt").read_text("utf-8")


def test_evaluate_writes_predictions_for_any_file(translator: Path) -> None:
    words = ["evaluate", "run", "a.en", "a.de", "--out", "p.txt"]
    done = run(*words, cwd=translator.parent)
    assert done.returncode == 0, done.stderr
    assert (translator.parent / "p.txt").read_text("utf-8").splitlines() == lines(translator)
    again = run(*words, cwd=translator.parent)
    assert again.returncode == 2
    assert "p.txt already exists; " in again.stderr
    greedy = run(*words[:-1], "g.txt", "decoding.beam_size=1", "--json", cwd=translator.parent)
    kept = (translator.parent / "g.txt").read_text("utf-8").splitlines()
    scores = json.loads(greedy.stdout)["scores"]
    assert corpus_chrf(kept, [[target for _, target in PAIRS]]).score == scores["chrf"]


def test_labels(tmp_path: Path) -> None:
    texts = [("fine", "good"), ("a fine day", "good"), ("sad", "bad"), ("a sad dog", "bad"),
             ("well", "good")]  # fmt: skip
    (tmp_path / "c.tsv").write_text(
        "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in texts), "utf-8"
    )
    out = train(tmp_path, "classify", ["c.tsv"], "training.steps=3", "tokenizer.kind=word")
    hits = [
        line.split("\t")[0] == label for line, (_, label) in zip(lines(out), texts, strict=True)
    ]
    assert sum(hits) / len(hits) == noted(out)["test"]["accuracy"]
    asked = run("classify", "run", cwd=tmp_path, stdin="".join(f"{text}\n" for text, _ in texts))
    assert asked.stdout.splitlines() == lines(out) == lines(out, "valid")
    assert "decoding" not in noted(out)


def test_tags(tmp_path: Path) -> None:
    conll = "\n".join("".join(f"{word} {tag}\n" for word, tag in row) for row in WORDS)
    (tmp_path / "t.conll").write_text(conll, "utf-8")
    out = train(tmp_path, "tag", ["t.conll"], "training.steps=4", "tokenizer.kind=space")
    predicted = [line.split(" ") for line in lines(out)]
    gold = [[tag for _, tag in row] for row in WORDS]
    pairs = [
        (p, g) for ps, gs in zip(predicted, gold, strict=True) for p, g in zip(ps, gs, strict=True)
    ]
    assert sum(p == g for p, g in pairs) / len(pairs) == noted(out)["test"]["accuracy"]
    spans = [[{(n, *span) for n, row in enumerate(rows) for span in chunks(row, strict=True)}
              for rows in (predicted, gold)]]  # fmt: skip
    (made, wanted) = spans[0]
    assert 2 * len(made & wanted) / (len(made) + len(wanted)) == noted(out)["test"]["span_f1"]
    asked = run("tag", "run", "t.conll", cwd=tmp_path).stdout.split("\n\n")
    last = [" ".join(line.split()[-1] for line in part.splitlines()) for part in asked if part]
    assert last == lines(out)
    assert noted(out)["decoding"] == {"spans": "legal"}


def test_numbers(tmp_path: Path) -> None:
    rows = [(1, 2, 5), (2, 0, 1), (0, 1, 3), (3, 3, 8), (1, 1, 2)]
    (tmp_path / "n.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows))
    files = [word for part in ("train", "valid", "test") for word in (f"--{part}", "n.csv")]
    done = run("train", "regress", *files, "--out", "run", "training.steps=3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = lines(tmp_path / "run")
    errors = [(float(line) - y) ** 2 for line, (*_, y) in zip(kept, rows, strict=True)]
    rmse = noted(tmp_path / "run")["test"]["rmse"]
    assert (sum(errors) / len(errors)) ** 0.5 == pytest.approx(rmse, rel=1e-4)  # of six digits
    asked = run("predict", "run", cwd=tmp_path, stdin="".join(f"{a} {b}\n" for a, b, _ in rows))
    assert asked.stdout.splitlines() == kept


def test_a_language_model_predicts_no_lines(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a dog sleeps\nthe cat\n")
    out = train(tmp_path, "language", ["t.txt"], "training.steps=1", "tokenizer.kind=char")
    assert not list(out.glob("*.predictions.txt"))
    done = run("evaluate", "run", "t.txt", "--out", "p.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "perplexity" in done.stdout  # the score is not lost
    assert "task language has no predictions" in done.stderr
    assert not (tmp_path / "p.txt").exists()


def test_extended_run_writes_new_predictions(translator: Path) -> None:
    """The file is that of the model that is there now."""
    (translator / "test.predictions.txt").write_text("of the model that it was\n")
    done = run("resume", "run", "training.steps=62", "--allow-changes", cwd=translator.parent)
    assert done.returncode == 0, done.stderr
    again = load(translator).evaluate(
        str(translator.parent / "a.en"), str(translator.parent / "a.de")
    )
    assert list(again.predictions) == lines(translator) == lines(translator, "valid")
