"""`score --own-prefixes`: losses after true prefixes, and after the model's own."""

import json
from pathlib import Path

import pytest
import torch
from tests.in_process import run
from tests.tiny.once import once

import translucid as tl
from translucid.models import GenerationInputs
from translucid.tasks.own_prefixes import by_position

ENGLISH = ["the dog sleeps", "a cat eats", "the cat sleeps a lot", "dog"] * 8
GERMAN = ["der Hund schläft", "eine Katze isst", "die Katze schläft viel", "Hund"] * 8
SIZES = ["model.d_model=16", "training.steps=12", "training.batch_tokens=200",
         "training.learning_rate=0.01", "training.warmup=2", "tokenizer.kind=word"]  # fmt: skip
HEADS = ["model.heads=2", "model.layers=1"]


def train(out: Path) -> None:
    files = [out / "a.en", out / "a.de"]
    for file, texts in zip(files, (ENGLISH, GERMAN), strict=True):
        file.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    for name, words in {
        "translate": ["translate", "--train", *map(str, files), *HEADS],
        "language": ["language", "--train", str(files[0]), *HEADS],
        "gru": ["language", "--train", str(files[0]), "model.kind=recurrent", "model.hidden=16"],
    }.items():
        done = run("train", *words, *SIZES, "--out", name, cwd=out)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder() -> Path:
    return once("models whose own prefixes are scored", train)


def given(name: str) -> list[list[str]]:
    return [ENGLISH[:4], GERMAN[:4]] if name == "translate" else [ENGLISH[:4]]


MODELS = ("translate", "language", "gru")


@pytest.mark.parametrize("name", MODELS)
def test_true_prefixes_give_the_log_probabilities_of_score(folder: Path, name: str) -> None:
    model = tl.load(folder / name)
    scored = model.scores(*given(name))
    for one, both in zip(scored, model.prefix_scores(*given(name)), strict=True):
        assert both.pieces == one.pieces
        assert both.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_own_prefixes_equal_a_loop_over_single_steps(folder: Path, name: str) -> None:
    """One text at a time: no batch, no padding."""
    model = tl.load(folder / name)
    tokenizer = model.output_tokenizer
    model.network.eval()
    for texts, found in zip(
        zip(*given(name), strict=True), model.prefix_scores(*given(name)), strict=True
    ):
        true = [*tokenizer.encode(texts[-1]), tokenizer.eos_id]
        inputs, read = GenerationInputs(1), tokenizer.eos_id  # a text follows the end of another
        if name == "translate":
            read = tokenizer.bos_id
            source = [*model.task.source.encode(texts[0]), tokenizer.eos_id]
            inputs = GenerationInputs.of(torch.tensor([source]))
        state = model.network.start(inputs, len(true))
        own, values = [], []
        for token in true:
            with torch.no_grad():
                logits = model.network.step(torch.tensor([[read]]), state)[0, 0]
            values.append(float(logits.log_softmax(-1)[token]))
            logits[[tokenizer.eos_id, *tokenizer.never_generated(model.network.vocab)]] = -1e9
            read = int(logits.argmax())
            own.append(read)
        assert found.own_pieces == tokenizer.pieces(own[:-1])
        assert found.own_token_log_probs == pytest.approx(values, abs=1e-4)


def test_own_prefixes_are_those_of_greedy_search(folder: Path) -> None:
    model = tl.load(folder / "translate")
    for source, target, found in zip(
        *given("translate"), model.prefix_scores(*given("translate")), strict=True
    ):
        length = len(model.output_tokenizer.encode(target))
        (greedy,) = model.decode([source], beam_size=1, min_length=length, max_length=length + 1)
        assert found.own_pieces == greedy.texts[0].pieces[:length]


def test_the_first_position_has_no_own_prefix(folder: Path) -> None:
    model = tl.load(folder / "language")
    first, *others = by_position(model.prefix_scores(ENGLISH[:4]))
    assert first.true_prefix == pytest.approx(first.own_prefix, abs=1e-5)
    assert any(abs(one.true_prefix - one.own_prefix) > 1e-3 for one in others)


@pytest.mark.parametrize("name", ["translate", "language"])
def test_the_table_has_the_means_of_all_texts(folder: Path, name: str) -> None:
    files = ["a.en", "a.de"] if name == "translate" else ["a.en"]
    shown = run("score", name, *files, "--own-prefixes", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    told = run("score", name, *files, "--own-prefixes", "--json", cwd=folder)
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    heading, *table = shown.stdout.splitlines()
    assert heading.split("  ")[0] == "position"
    cells = [[row["position"] or "all", row["tokens"],
              f"{row['true_prefix']:.4f}", f"{row['own_prefix']:.4f}"] for row in rows]  # fmt: skip
    assert [line.split() for line in table] == [[str(cell) for cell in row] for row in cells]
    scored = run("score", name, *files, "--json", cwd=folder)
    values = [json.loads(line)["token_log_probs"] for line in scored.stdout.splitlines()]
    for row in rows[:-1]:
        here = [-line[row["position"] - 1] for line in values if len(line) >= row["position"]]
        assert row["tokens"] == len(here)
        assert row["true_prefix"] == pytest.approx(sum(here) / len(here), abs=1e-4)
    every = [-value for line in values for value in line]
    assert rows[-1]["tokens"] == len(every)
    assert rows[-1]["true_prefix"] == pytest.approx(sum(every) / len(every), abs=1e-4)


def test_own_prefixes_and_per_token_exclude_each_other(folder: Path) -> None:
    done = run("score", "language", "a.en", "--own-prefixes", "--per-token", cwd=folder)
    assert done.returncode != 0
    assert "use one of them" in done.stderr


def test_a_file_without_texts_is_an_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    done = run(
        "score", str(folder / "language"), "empty.txt", "--own-prefixes", cwd=tmp_path
    )  # fmt: skip
    assert done.returncode != 0
    assert "empty.txt" in done.stderr
