"""Words, characters and spans, empty lines and context, through the real command line."""

import json
from pathlib import Path

import pytest
import torch
from tests.in_process import run

import translucid as tl

CONLL = "\n\n".join(
    f"{name}\tB-PER\n{other}\tI-PER\ndon't\tO\nsleep\tO\nin\tO\n{place}\tB-LOC\n.\tO"
    for name, other, place in (
        ("Ann", "Lee", "Rome"),
        ("Bob", "Ray", "Oslo"),
        ("Zoë", "Fox", "Ulm"),
    )
    for _ in range(8)
)
SMALL = ["training.steps=3", "model.kind=recurrent", "model.d_model=8", "model.hidden=8"]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagger")
    (folder / "a.conll").write_text(CONLL + "\n", "utf-8")
    words = ["tokenizer.kind=space", "model.characters=6", "model.word_dropout=0.2", *SMALL]
    done = run("train", "tag", "--train", "a.conll", "--out", "r", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "tokenizer: space" in done.stderr
    assert "tokenizer.vocab_size=17 " in done.stderr, "all 13 words, and the signs"
    return folder


@pytest.mark.slow
def test_a_tagger_with_characters_trains_tags_and_is_scored(tagger: Path) -> None:
    scored = run("evaluate", "r", "--data", "a.conll", "--json", cwd=tagger)
    assert scored.returncode == 0, scored.stderr
    assert set(json.loads(scored.stdout)["scores"]) == {"span_f1", "accuracy", "loss"}
    tests = run("train", "tag", "--toyland", "80", "--self-test", "tokenizer.kind=space",
                "model.characters=6", "model.word_dropout=0.6", *SMALL, cwd=tagger)  # fmt: skip
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert "learns one batch" in tests.stdout


def test_character_model_is_unchanged_by_saving_and_can_be_traced(tagger: Path) -> None:
    model = tl.load(tagger / "r")
    texts = ["Ann Lee sleeps in Oslo.", "Xaver wakes"]
    model.save(tagger / "copy")
    assert tl.load(tagger / "copy").tag(texts) == model.tag(texts)
    assert "encoder.characters.filters" in model.summary()
    trace = model.trace("Ann Xaver")
    assert trace["encoder.characters.loudest"].shape == (1, 2, 6)
    assert trace["encoder.characters.lookup"].shape[2] == len("Xaver")
    # Two words that no table knows: only their characters tell them apart.
    one, other = (model.trace(word, keep="head.logits")["head.logits"] for word in ("Xa", "Yb"))
    assert not torch.allclose(one, other)
    deaf = {"encoder.characters.output": 0.0}
    one, other = (
        model.trace(word, keep="head.logits", edit=deaf)["head.logits"] for word in ("Xa", "Yb")
    )
    assert torch.equal(one, other)


def test_a_tokenizer_of_kind_space_takes_a_size(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("don't stop @,@ don't\n", "utf-8")
    words = ["tokenizer", "train", "a.txt", "--kind", "space", "--vocab", "6", "--out", "tok"]
    assert "tok: space, 6 tokens" in run(*words, cwd=tmp_path).stdout
    shown = run("tokenizer", "show", "tok", "don't stop", "--json", cwd=tmp_path)
    assert json.loads(shown.stdout)["texts"][0]["tokens"][0] == "don't"


def test_characters_are_for_taggers(tagger: Path) -> None:
    told = run(
        "train", "classify", "--toyland", "60", "--out", "x", "model.characters=6", cwd=tagger
    )
    assert told.returncode == 2
    assert "model.characters = 6 works only with shape encoder and head tag" in told.stderr


@pytest.mark.slow
def test_empty_lines_and_context_of_a_language_model(tmp_path: Path) -> None:
    lines = [" = A = ", "", " the <unk> cat sat on the mat . ", ""] * 20
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n", "utf-8")
    small = ["training.steps=2", "model.d_model=8", "model.heads=2", "model.layers=1"]
    words = ["tokenizer.kind=space", "data.keep_empty=true", "data.max_length=16"]
    files = ["--train", "a.txt", "--valid", "a.txt"]
    for context, out in (("0", "r0"), ("8", "r8")):
        given = [*words, *small, f"decoding.context={context}"]
        done = run("train", "language", *files, "--out", out, *given, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "80 records" in done.stderr
    losses = [
        json.loads((tmp_path / out / "best" / "config.json").read_text("utf-8"))["facts"]["valid"][
            "loss"
        ]
        for out in ("r0", "r8")
    ]
    assert losses[0] != losses[1]
    plain, kept, after = (
        json.loads(run("evaluate", "r0", "--data", "a.txt", "--json", *more, cwd=tmp_path).stdout)
        for more in (["--no-keep-empty"], [], ["--keep-empty", "--context", "100"])
    )
    numbers = [each["scores"]["loss"] for each in (plain, kept, after)]
    assert len(set(numbers)) == 3
    assert numbers[1] == losses[0], "as in training"
    learned = ["model.positions=learned", "model.max_length=16", "decoding.context=32"]
    long = run("train", "language", *files, "--out", "x", *words, *small, *learned, cwd=tmp_path)
    refusal = "decoding.context = 32: a.txt, row 2: 32 tokens, but this model has learned 16 posit"
    assert refusal in long.stderr
    refused = run("recipe", "check", "wikitext-2-lstm", "data.keep_empty=true", "data.unit=file")
    assert "keep_empty = true: only a line can be empty" in refused.stderr
